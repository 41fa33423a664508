// SPDX-License-Identifier: Apache-2.0
// Checks the flags of a request about memory, and reads the files they name.
#include "session/memory_request.h"

#include <cmath>
#include <string>
#include <utility>

#include "base/text.h"
#include "evaluate/step.h"
#include "io/hardware.h"
#include "io/load.h"
#include "model/forward/parameter_names.h"
#include "session/trainable.h"

namespace shardplan {

bool refuse_flags(const std::string& message, const std::string& help,
                  Diagnostics& diags) {
  diags.error(Code::Usage, {}, message).help(help);
  return false;
}

std::optional<DeviceLimit> device_limit(const MemoryRequest& memory, Host& host,
                                        Diagnostics& diags) {
  std::optional<HardwareProfile> profile;
  if (memory.hardware) {
    profile = load_hardware(*memory.hardware, host, diags);
    if (!profile) return std::nullopt;
  }
  DeviceLimit limit = {"--memory"};
  // The card's vendor and generation stay the same whatever memory is given.
  if (profile) limit.vendor = profile->vendor;
  if (profile) limit.generation = profile->generation;
  if (!memory.stage_limits.empty() || memory.limit) {
    limit.of_stages = memory.stage_limits;
    limit.usable = limit.of_stages.empty() ? *memory.limit
                                           : std::ranges::max(limit.of_stages);
    limit.nominal = limit.usable;
    return limit;
  }
  if (!profile) return std::nullopt;
  if (!profile->hbm_bytes) {
    return diags
        .error(Code::Usage, {},
               "hardware profile `" + profile->name +
                   "` does not say how much memory a device has")
        .help("add `--memory SIZE`");
  }
  limit.name = profile->name;
  limit.nominal = profile->hbm_bytes->value;
  const auto& usable = profile->hbm_usable_bytes;
  limit.usable = usable ? usable->value : limit.nominal;
  limit.usable_is_estimated = !usable || usable->estimated;
  return limit;
}

std::optional<int64_t> reserve_bytes(const MemoryRequest& memory,
                                     const std::optional<DeviceLimit>& limit,
                                     Diagnostics& diags) {
  const double fraction = memory.reserve_fraction;
  if (fraction == 0) return memory.reserve;
  if (!limit) {
    return diags
        .error(Code::Usage, {},
               "`--reserve` is a fraction of an unknown memory size")
        .help("add `--hardware` or `--memory`");
  }
  return static_cast<int64_t>(
      std::ceil(fraction * static_cast<double>(limit->usable)));
}

namespace {

struct Given {
  const char* flag;
  bool given;
  bool of_activations = false;  // also affects a training step
};

std::vector<Given> given_cache_flags(const MemoryRequest& m) {
  return {{"--batch", m.batch.has_value(), true},
          {"--seq", m.seq.has_value(), true},
          {"--kv-dtype", m.kv_dtype.has_value()},
          {"--kv-block", m.kv_block != 1},
          {"--source-seq", m.source_seq.has_value(), true},
          {"--kv-axes", !m.kv_axes.empty()},
          {"--batch-axes", !m.batch_axes.empty(), true},
          {"--sequence-axes", !m.sequence_axes.empty(), true},
          {"--ulysses-axes", !m.ulysses_axes.empty(), true}};
}

std::vector<Given> training_flags(const MemoryRequest& memory) {
  const StateOptions& s = memory.state;
  return {{"--grad-dtype", s.grad_dtype.has_value()},
          {"--moment-dtype", s.moment_dtype.has_value()},
          {"--master-dtype", s.no_master || s.master_dtype.has_value()},
          {"--precision", memory.precision.has_value()},
          {"--state-rules", !memory.state_rules.empty()},
          {"--trainable", !memory.trainable.empty()},
          {"--optimizer-of", !s.groups.empty()},
          {"--zero 1", s.zero == 1},
          {"--zero 2", s.zero == 2}};
}

bool check_training(const MemoryRequest& memory, Diagnostics& diags) {
  if (has_block_moments(memory.state.optimizer) && memory.state.moment_dtype) {
    return refuse_flags(
        "`--moment-dtype` does not apply: the moments of " +
            in_backticks(optimizer_name(memory.state.optimizer)) +
            " have a fixed dtype",
        "leave out one of them", diags);
  }
  if (memory.state.optimizer != Optimizer::None) return true;
  bool good = true;
  for (const Given& flag : training_flags(memory)) {
    if (!flag.given) continue;
    good = refuse_flags(in_backticks(flag.flag) + " needs an optimizer",
                        "add `--optimizer`, e.g. `--optimizer adamw`", diags);
  }
  return good;
}

// Checks that times are requested, because calibration affects nothing else.
bool check_calibration(const MemoryRequest& memory, Diagnostics& diags) {
  if (memory.calibrate.empty() || (memory.hardware && memory.seq)) return true;
  if (!memory.hardware) {
    return refuse_flags("`--calibrate` needs a hardware profile to calibrate",
                        "add `--hardware`, e.g. `--hardware h100-sxm`", diags);
  }
  return refuse_flags("`--calibrate` only affects times, and none is requested",
                      "add `--batch` and `--seq`, e.g. `--batch 8 --seq 8192`",
                      diags);
}

bool check_cache(const MemoryRequest& memory, Mode mode, Diagnostics& diags) {
  bool good = true;
  const bool trains = mode == Mode::Train;
  if (!trains && !memory.ulysses_axes.empty()) {
    return refuse_flags(
        "`--ulysses-axes` applies to a training step, not to `--mode " +
            std::string(mode_name(mode)) + "`",
        "leave it out, or leave out `--mode`", diags);
  }
  for (const Given& flag : given_cache_flags(memory)) {
    if (!flag.given) continue;
    const std::string name = in_backticks(flag.flag);
    if (trains && flag.of_activations) {
      if (memory.batch && memory.seq) continue;
      diags
          .error(Code::Usage, {},
                 name +
                     " applies to a training step, which needs `--batch` and "
                     "`--seq`")
          .help("add both, e.g. `--batch 8 --seq 8192`")
          .help("or add `--mode decode`, for a KV cache");
      return false;
    }
    if (trains) {
      good = refuse_flags(
          name + " applies to the KV cache, which training does not use",
          "add `--mode prefill` or `--mode decode`", diags);
    } else if (!memory.seq) {
      return refuse_flags(name + " needs `--seq`, the tokens of each sequence",
                          "add `--seq`, e.g. `--seq 8192`", diags);
    }
  }
  return good;
}

std::optional<KvRequest> kv_request(const MemoryRequest& m, Mode mode) {
  if (mode == Mode::Train || !m.seq) return std::nullopt;
  KvRequest request;
  request.batch = m.batch.value_or(1);
  request.seq = *m.seq;
  request.dtype = m.kv_dtype.value_or(DType::BF16);
  request.block = m.kv_block;
  request.prefill = mode == Mode::Prefill;
  request.source = m.source_seq.value_or(0);
  return request;
}

// Returns whether adapters are trained. PEFT's adapters keep the dtype that
// they are stored in, whatever dtype the rest of the model computes in.
bool trains_adapters(const Manifest& manifest,
                     const TrainedParameters& trained) {
  for (size_t i = 0; i < trained.size(); ++i) {
    if (trained[i] && !adapter_part(manifest.name(i)).empty()) return true;
  }
  return false;
}

// Reads the rules for the leaves of an optimizer, if there are any.
bool read_state_rules(const MemoryRequest& memory, const PlanRequest& request,
                      const RuleSet* of_parameters, Host& host,
                      AskedMemory& asked, Diagnostics& diags) {
  if (memory.state_rules.empty()) return true;
  auto rules = load_rules(memory.state_rules, request.dialect,
                          rule_reading(request), host, diags);
  if (!rules) return false;
  if (!request.other_side_asks) {
    std::vector<std::string> questions = rules->questions;
    if (of_parameters != nullptr) {
      questions.insert(questions.end(), of_parameters->questions.begin(),
                       of_parameters->questions.end());
    }
    check_answers(request.answers, questions, diags);
    if (diags.cannot_run()) return false;
  }
  ResolveOptions how;
  how.min_size = request.min_size;
  how.strict = request.strict;
  asked.state_rules = {*std::move(rules), how, lint_options(request)};
  return true;
}

// Checks for the paged optimizers of bitsandbytes 0.50 (optim): Adam, AdamW,
// Lion.
bool check_pages(const StateOptions& state, Diagnostics& diags) {
  for (size_t group = 0; group <= state.groups.size(); ++group) {
    const Optimizer optimizer = optimizer_of(state, group);
    if (optimizer == Optimizer::AdamW || optimizer == Optimizer::AdamW8bit ||
        optimizer == Optimizer::Lion) {
      continue;
    }
    return refuse_flags(
        "`--offload optimizer:paged` needs a bitsandbytes optimizer, and " +
            in_backticks(optimizer_name(optimizer)) + " is not one",
        "use `--optimizer adamw`, `adamw8bit` or `lion`", diags);
  }
  return true;
}

}  // namespace

bool asks_for_budget(const MemoryRequest& m, Mode mode) {
  const StateOptions& s = m.state;
  return m.hardware || m.limit || m.reserve > 0 || m.reserve_fraction > 0 ||
         m.fragmentation > 0 || m.stages || m.live_layers != 1 ||
         s.optimizer != Optimizer::None || s.param_dtype || s.compute_dtype ||
         s.zero > 0 || !s.zero_axes.empty() || m.seq || mode != Mode::Train;
}

bool check_memory_request(const MemoryRequest& memory, Mode mode,
                          Diagnostics& diags) {
  bool good = true;
  const Optimizer optimizer = memory.state.optimizer;
  if (mode != Mode::Train && optimizer != Optimizer::None) {
    good = refuse_flags("`--optimizer` is given, but `--mode " +
                            std::string(mode_name(mode)) + "` does not train",
                        "leave out one of them", diags);
  }
  if (!memory.stage_limits.empty() && !memory.stages) {
    good = refuse_flags(
        "`--memory` is given per stage, but there is no `--stages`",
        "add `--stages AXIS`, or give one size for all devices", diags);
  }
  if (mode != Mode::Train && memory.state.offload.any()) {
    good =
        refuse_flags("`--offload` applies to a training step, not to `--mode " +
                         std::string(mode_name(mode)) + "`",
                     "leave out one of them", diags);
  } else if (memory.state.offload.optimizer && optimizer == Optimizer::None) {
    good = refuse_flags("`--offload optimizer` needs an optimizer",
                        "add `--optimizer`, e.g. `--optimizer adamw`", diags);
  } else if (memory.state.offload.pages) {
    good = check_pages(memory.state, diags) && good;
  }
  good = check_calibration(memory, diags) && good;
  good = check_training(memory, diags) && good;
  return check_cache(memory, mode, diags) && good;
}

bool asks_for_step(const PlanRequest& planning, const MemoryRequest& memory) {
  return planning.mode == Mode::Train && memory.batch && memory.seq;
}

bool check_step_request(const PlanRequest& planning,
                        const MemoryRequest& memory,
                        const WorkloadRequest& workload, Diagnostics& diags) {
  const bool trains = planning.mode == Mode::Train;
  const StepOptions& step = workload.step;
  if (workload.given && !trains) {
    diags
        .error(Code::Usage, {},
               "`--mode " + std::string(mode_name(planning.mode)) +
                   "` has no backward pass")
        .fact(
            "`--remat`, `--microbatches`, `--schedule`, `--attention`, "
            "`--framework`, `--optimizer-impl`, `--fp8`, "
            "`--dropout`, `--no-dropout`, `--loss-tiles` and `--expert-factor` "
            "need one")
        .help("leave them out, or leave out `--mode`");
    return false;
  }
  const bool given = workload.given || (trains && workload.kernels_given);
  if (given && !asks_for_step(planning, memory)) {
    return refuse_flags(
        "activation memory depends on the workload, which is not given",
        "add `--batch` and `--seq`, e.g. `--batch 8 --seq 8192`", diags);
  }
  if (!asks_for_step(planning, memory)) return true;
  if (*memory.batch < step.microbatches) {
    return refuse_flags(
        "fewer sequences than micro-batches: `--batch " +
            std::to_string(*memory.batch) + "`, `--microbatches " +
            std::to_string(step.microbatches) + "`",
        "`--batch` counts the sequences of a step over all devices", diags);
  }
  if (step.schedule != PipelineSchedule::OneForwardOneBackward &&
      !memory.stages) {
    return refuse_flags("`--schedule` needs pipeline stages",
                        "add `--stages AXIS`", diags);
  }
  return true;
}

std::shared_ptr<const HardwareProfile> measured_card(
    const MemoryRequest& memory, Host& host, Diagnostics& diags) {
  if (!memory.hardware) return nullptr;
  auto card = load_hardware(*memory.hardware, host, diags, Tables::Read);
  if (!card || !calibrate(memory.calibrate, *card, host, diags)) {
    return nullptr;
  }
  return std::make_shared<const HardwareProfile>(*std::move(card));
}

std::optional<AskedMemory> asked_memory(const MemoryRequest& memory,
                                        const PlanRequest& request,
                                        const WorkloadRequest& workload,
                                        const Manifest& manifest,
                                        const RuleSet* rules, Host& host,
                                        Diagnostics& diags) {
  AskedMemory asked;
  BudgetOptions& options = asked.options;
  options.state = memory.state;
  std::vector<std::string> trainable = memory.trainable;
  const bool trains = memory.state.optimizer != Optimizer::None ||
                      asks_for_step(request, memory);
  if (trainable.empty() && request.reading.lora && trains) {
    trainable = {"lora_"};
  }
  if (!trainable.empty()) {
    auto trained = find_trained(trainable, manifest, diags);
    if (!trained) return std::nullopt;
    asked.trained = *std::move(trained);
  }
  if (memory.precision) {
    options.state = with_precision(memory.state, *memory.precision,
                                   most_stored_dtype(manifest));
    if (trains_adapters(manifest, asked.trained)) {
      options.state.param_dtype = memory.state.param_dtype;
      options.state.grad_dtype = memory.state.grad_dtype;
      options.state.moment_dtype = memory.state.moment_dtype;
    }
  }
  options.stages = memory.stages;
  options.live_layers = memory.live_layers;
  options.fragmentation = memory.fragmentation;
  options.limit = device_limit(memory, host, diags);
  if (diags.cannot_run()) return std::nullopt;
  const auto reserve = reserve_bytes(memory, options.limit, diags);
  if (!reserve) return std::nullopt;
  options.reserve = *reserve;
  asked.hardware = memory.hardware;
  options.kv = kv_request(memory, request.mode);
  if (options.kv) {
    asked.heads = key_projections(manifest);
    asked.states = state_projections(manifest);
  }
  asked.axes = {memory.kv_axes, memory.batch_axes, memory.sequence_axes};
  asked.ulysses_axes = memory.ulysses_axes;
  asked.source_seq = memory.source_seq;
  asked.names = name_reading(request);
  asked.step = workload.step;
  options.state.offload =
      whole_offload(options.state, workload.step.framework->runs_fsdp2);
  if (asks_for_step(request, memory)) {
    asked.workload = Workload{*memory.batch, *memory.seq};
    asked.card = measured_card(memory, host, diags);
    if (diags.cannot_run()) return std::nullopt;
    asked.hide = workload.hide;
  }
  if (!memory.state.groups.empty()) {
    auto group_of =
        find_groups(memory.state.groups, manifest, asked.trained, diags);
    if (!group_of) return std::nullopt;
    asked.group_of = *std::move(group_of);
  }
  if (!read_state_rules(memory, request, rules, host, asked, diags)) {
    return std::nullopt;
  }
  return asked;
}

}  // namespace shardplan
