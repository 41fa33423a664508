// SPDX-License-Identifier: Apache-2.0
#include "session/budget.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <utility>

#include "base/text.h"
#include "evaluate/evaluate.h"
#include "findings/findings.h"
#include "io/hardware.h"
#include "io/load.h"
#include "memory/zero.h"
#include "session/session.h"
#include "session/step.h"
#include "session/trainable.h"
#include "session/ways_out.h"

namespace shardplan {

std::optional<DeviceLimit> device_limit(const MemoryRequest& memory, Host& host,
                                        Diagnostics& diags) {
  std::optional<HardwareProfile> profile;
  if (memory.hardware) {
    profile = load_hardware(*memory.hardware, host, diags);
    if (!profile) return std::nullopt;
  }
  if (memory.limit) {
    return DeviceLimit{"--memory", *memory.limit, *memory.limit, false,
                       profile ? profile->vendor : ""};
  }
  if (!profile) return std::nullopt;
  if (!profile->hbm_bytes) {
    return diags
        .error(Code::Usage, {},
               "hardware profile `" + profile->name +
                   "` does not say how much memory a device has")
        .help("`--memory SIZE` says it");
  }
  const int64_t nominal = profile->hbm_bytes->value;
  const auto& usable = profile->hbm_usable_bytes;
  return DeviceLimit{profile->name, nominal, usable ? usable->value : nominal,
                     !usable || usable->estimated, profile->vendor};
}

std::optional<int64_t> reserve_bytes(const MemoryRequest& memory,
                                     const std::optional<DeviceLimit>& limit,
                                     Diagnostics& diags) {
  const double fraction = memory.reserve_fraction;
  if (fraction == 0) return memory.reserve;
  if (!limit) {
    return diags
        .error(Code::Usage, {},
               "`--reserve` is a fraction of a memory that nothing states")
        .help("`--hardware` or `--memory` says what a device has");
  }
  return static_cast<int64_t>(
      std::ceil(fraction * static_cast<double>(limit->usable)));
}

namespace {

struct Given {
  const char* flag;
  bool given;
  bool of_activations = false;  // it says something of a training step, too
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
          {"--state-rules", !memory.state_rules.empty()},
          {"--trainable", !memory.trainable.empty()},
          {"--optimizer-of", !s.groups.empty()},
          {"--zero 1", s.zero == 1},
          {"--zero 2", s.zero == 2}};
}

bool check_training(const MemoryRequest& memory, Diagnostics& diags) {
  bool good = true;
  if (memory.state.optimizer != Optimizer::None) return true;
  for (const Given& flag : training_flags(memory)) {
    if (!flag.given) continue;
    good = false;
    diags
        .error(Code::Usage, {},
               "`" + std::string(flag.flag) +
                   "` is about training state, and no optimizer is given")
        .help("add `--optimizer`, e.g. `--optimizer adamw`");
  }
  return good;
}

bool check_cache(const MemoryRequest& memory, Mode mode, Diagnostics& diags) {
  bool good = true;
  const bool trains = mode == Mode::Train;
  if (!trains && !memory.ulysses_axes.empty()) {
    diags
        .error(Code::Usage, {},
               "`--ulysses-axes` is about a training step, which `--mode " +
                   std::string(mode_name(mode)) + "` is not")
        .help("leave it out, or leave out `--mode`");
    return false;
  }
  for (const Given& flag : given_cache_flags(memory)) {
    if (!flag.given) continue;
    if (trains && flag.of_activations) {
      if (memory.batch && memory.seq) continue;
      diags
          .error(Code::Usage, {},
                 "`" + std::string(flag.flag) +
                     "` is about a training step, whose workload is `--batch` "
                     "and `--seq`")
          .help("add both, e.g. `--batch 8 --seq 8192`")
          .help("or add `--mode decode`, for a KV cache");
      return false;
    }
    if (trains) {
      good = false;
      diags
          .error(Code::Usage, {},
                 "`" + std::string(flag.flag) +
                     "` is about the KV cache, which training does not have")
          .help("add `--mode prefill` or `--mode decode`");
    } else if (!memory.seq) {
      diags
          .error(Code::Usage, {},
                 "`" + std::string(flag.flag) +
                     "` needs `--seq`, the tokens of each sequence")
          .help("add `--seq`, e.g. `--seq 8192`");
      return false;
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

// Stages hold different layers: nothing of one layer is cut over them.
bool check_stage_axis(const MemoryRequest& memory, const KvAxes& axes,
                      Diagnostics& diags) {
  if (!memory.stages) return true;
  const AxisName& stage = memory.stages->axis;
  for (const AxisNames* names :
       {&axes.heads, &axes.batch, &axes.sequence, &axes.states}) {
    if (std::find(names->begin(), names->end(), stage) == names->end()) {
      continue;
    }
    diags
        .error(Code::Usage, {},
               "axis `" + stage +
                   "` is given to `--stages`, and cuts the KV "
                   "cache besides")
        .help(
            "name other axes with `--kv-axes`, `--batch-axes` or "
            "`--sequence-axes`");
    return false;
  }
  return true;
}

bool read_state_rules(const MemoryRequest& memory, const PlanRequest& request,
                      const Manifest& manifest, const Plan& plan, Host& host,
                      BudgetInput& input, Diagnostics& diags) {
  if (memory.state_rules.empty()) {
    const bool some_frozen =
        std::find(input.trained.begin(), input.trained.end(), false) !=
        input.trained.end();
    if (some_frozen || !input.group_of.empty()) {
      input.state_specs = std::make_unique<StateSpecs>(
          kinds_by_training(plan, input.trained, input.group_of));
      input.options.state_specs = input.state_specs.get();
    }
    return true;
  }
  RuleReading reading = rule_reading(request);
  reading.answers_for_others = true;
  const auto rules =
      load_rules(memory.state_rules, request.dialect, reading, host, diags);
  if (!rules) return false;
  ResolveOptions how;
  how.min_size = request.min_size;
  how.on_indivisible = plan.on_indivisible;
  how.strict = request.strict;
  auto specs = resolve_state_rules(manifest, plan, input.options.state, *rules,
                                   how, input.trained, input.group_of, diags);
  // Findings about rules of leaves, as about those of parameters.
  if (!specs || !judge_plan(Model(specs->leaves), &*rules, specs->plan,
                            lint_options(request),
                            std::array{Needs::Names, Needs::Specs}, diags)) {
    return false;
  }
  for (const SourcePtr& source : rules->sources) diags.keep(source);
  input.state_specs = std::make_unique<StateSpecs>(*std::move(specs));
  input.options.state_specs = input.state_specs.get();
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
    good = false;
    diags
        .error(Code::Usage, {},
               "`--optimizer` is given, but `--mode " +
                   std::string(mode_name(mode)) + "` does not train")
        .help("leave out one of them");
  }
  good = check_training(memory, diags) && good;
  return check_cache(memory, mode, diags) && good;
}

std::optional<BudgetInput> budget_input(const MemoryRequest& memory,
                                        const PlanRequest& request,
                                        const Manifest& manifest,
                                        const Plan& plan, NamesRead& read,
                                        Host& host, Diagnostics& diags,
                                        const AxisNames& token_axes) {
  if (!check_memory_request(memory, request.mode, diags)) return std::nullopt;
  BudgetInput input;
  input.options.state = memory.state;
  input.options.state.token_axes = token_axes;
  input.options.stages = memory.stages;
  input.options.live_layers = memory.live_layers;
  input.options.fragmentation = memory.fragmentation;
  input.options.limit = device_limit(memory, host, diags);
  const auto reserve = reserve_bytes(memory, input.options.limit, diags);
  if (diags.cannot_run() || !reserve) return std::nullopt;
  input.options.reserve = *reserve;
  input.options.kv = kv_request(memory, request.mode);
  if (input.options.kv) {
    if (!read.projections) {
      read.projections = key_projections(manifest);
      read.state_projections = state_projections(manifest);
    }
    input.kv_axes = kv_axes(
        manifest, *read.projections, read.state_projections, plan,
        {memory.kv_axes, memory.batch_axes, memory.sequence_axes}, diags);
    if (!input.kv_axes || !check_stage_axis(memory, *input.kv_axes, diags)) {
      return std::nullopt;
    }
    input.options.kv_sharding = kv_sharding(plan.mesh, *input.kv_axes);
  }
  if (!memory.trainable.empty()) {
    if (!read.trained) {
      read.trained = find_trained(memory.trainable, manifest, diags);
      if (!read.trained) return std::nullopt;
    }
    input.trained = *read.trained;
  }
  if (!memory.state.groups.empty()) {
    if (!read.group_of) {
      read.group_of =
          find_groups(memory.state.groups, manifest, input.trained, diags);
      if (!read.group_of) return std::nullopt;
    }
    input.group_of = *read.group_of;
  }
  if (!check_state_options(memory.state, plan.mesh, diags) ||
      !read_state_rules(memory, request, manifest, plan, host, input, diags)) {
    return std::nullopt;
  }
  const std::vector<uint32_t>& kind_of =
      input.state_specs ? input.state_specs->kind_of : plan.placement_of;
  if (read.kind_of != kind_of) {
    read.groups = layer_groups(manifest, kind_of);
    read.kind_of = kind_of;
  }
  input.groups = read.groups;
  return input;
}

AxisNames token_axes_of(const MemoryRequest& memory, const PlanRequest& request,
                        const Session& session, const Mesh& mesh) {
  if (request.mode != Mode::Train || !memory.batch || !memory.seq) return {};
  return step_token_axes(memory, session.rules ? &*session.rules : nullptr,
                         mesh);
}

std::optional<BudgetAnswer> answer_budget(const MemoryRequest& memory,
                                          const PlanRequest& request,
                                          const Session& session, Host& host,
                                          Diagnostics& diags) {
  const Manifest& manifest = session.model.manifest;
  const Plan& plan = session.plan;
  NamesRead read;
  auto input = budget_input(memory, request, manifest, plan, read, host, diags,
                            token_axes_of(memory, request, session, plan.mesh));
  if (!input) return std::nullopt;
  auto budget =
      make_budget(manifest, plan, input->groups, input->options, diags);
  if (!budget) return std::nullopt;
  MemoryInput found{manifest, plan, input->groups, input->options, *budget};
  std::vector<TriedState> tried;
  if (!budget->fits()) tried = tried_states(found);
  found.tried = tried;
  lint(found, diags);
  BudgetAnswer answer{*std::move(input), *std::move(budget)};
  if (!answer.budget.fits()) {
    add_meshes(request, memory, session, answer, host, diags);
  }
  return answer;
}

}  // namespace shardplan
