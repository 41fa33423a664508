// SPDX-License-Identifier: Apache-2.0
#include "cli/budget.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "base/text.h"
#include "core/fold.h"
#include "findings/findings.h"
#include "io/hardware.h"
#include "io/load.h"
#include "memory/zero.h"
#include "resolve/analyze.h"

namespace shardplan::cli {

std::optional<DeviceLimit> device_limit(const Options& options, Host& host,
                                        Diagnostics& diags) {
  const MemoryOptions& memory = options.memory;
  std::optional<HardwareProfile> profile;
  if (memory.hardware) {
    profile = load_hardware(*memory.hardware, host, diags);
    if (!profile) return std::nullopt;
  }
  if (memory.limit) {
    return DeviceLimit{"--memory", *memory.limit, *memory.limit, false};
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
                     !usable || usable->estimated};
}

std::optional<int64_t> reserve_bytes(const Options& options,
                                     const std::optional<DeviceLimit>& limit,
                                     Diagnostics& diags) {
  const double fraction = options.memory.reserve_fraction;
  if (fraction == 0) return options.memory.reserve;
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
};

std::vector<Given> given_cache_flags(const Options& options) {
  const MemoryOptions& m = options.memory;
  return {{"--batch", m.batch.has_value()},
          {"--seq", m.seq.has_value()},
          {"--kv-dtype", m.kv_dtype.has_value()},
          {"--kv-block", m.kv_block != 1},
          {"--kv-axes", !m.kv_axes.empty()},
          {"--batch-axes", !m.batch_axes.empty()},
          {"--sequence-axes", !m.sequence_axes.empty()}};
}

std::vector<Given> training_flags(const Options& options) {
  const StateOptions& s = options.memory.state;
  return {{"--grad-dtype", s.grad_dtype.has_value()},
          {"--moment-dtype", s.moment_dtype.has_value()},
          {"--master-dtype", s.no_master || s.master_dtype.has_value()},
          {"--state-rules", !options.memory.state_rules.empty()},
          {"--zero 1", s.zero == 1},
          {"--zero 2", s.zero == 2}};
}

bool check_training(const Options& options, Diagnostics& diags) {
  bool good = true;
  if (options.memory.state.optimizer != Optimizer::None) return true;
  for (const Given& flag : training_flags(options)) {
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

bool check_cache(const Options& options, Diagnostics& diags) {
  bool good = true;
  const bool trains = options.mode == Mode::Train;
  for (const Given& flag : given_cache_flags(options)) {
    if (!flag.given) continue;
    if (trains) {
      good = false;
      diags
          .error(Code::Usage, {},
                 "`" + std::string(flag.flag) +
                     "` is about the KV cache, which training does not have")
          .help("add `--mode prefill` or `--mode decode`");
    } else if (!options.memory.seq) {
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

std::optional<KvRequest> kv_request(const Options& options) {
  const MemoryOptions& m = options.memory;
  if (options.mode == Mode::Train || !m.seq) return std::nullopt;
  KvRequest request;
  request.batch = m.batch.value_or(1);
  request.seq = *m.seq;
  request.dtype = m.kv_dtype.value_or(DType::BF16);
  request.block = m.kv_block;
  request.prefill = options.mode == Mode::Prefill;
  return request;
}

// Stages hold different layers: nothing of one layer is cut over them.
bool check_stage_axis(const Options& options, const KvAxes& axes,
                      Diagnostics& diags) {
  if (!options.memory.stages) return true;
  const AxisName& stage = options.memory.stages->axis;
  for (const AxisNames* names : {&axes.heads, &axes.batch, &axes.sequence}) {
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

// Findings about rules of leaves, as about those of parameters.
bool lint_state(const StateSpecs& specs, const RuleSet& rules,
                const Options& options, Diagnostics& diags) {
  const Folding folding = fold(specs.plan.placement_of,
                               [&](size_t i) { return specs.leaves.name(i); });
  const auto memory = device_memory(specs.leaves, specs.plan, diags);
  if (!memory) return false;
  const LintOptions how = {options.tolerance, options.max_replicated,
                           options.unmatched != Unmatched::Error};
  const LintInput input =
      make_lint_input(specs.leaves, specs.plan, folding, &rules, *memory, how);
  lint(input, {Needs::Names, Needs::Specs}, diags);
  return true;
}

bool read_state_rules(Context& context, const Manifest& manifest,
                      const Plan& plan, BudgetInput& input) {
  const Options& options = context.options;
  if (options.memory.state_rules.empty()) return true;
  const auto rules =
      load_rules(options.memory.state_rules, options.dialect,
                 rule_reading(options), context.host, context.diags);
  if (!rules) return false;
  ResolveOptions how;
  how.min_size = options.min_size;
  how.on_indivisible = plan.on_indivisible;
  how.strict = options.strict;
  auto specs = resolve_state_rules(manifest, plan, input.options.state, *rules,
                                   how, context.diags);
  if (!specs || !lint_state(*specs, *rules, options, context.diags)) {
    return false;
  }
  for (const SourcePtr& source : rules->sources) context.diags.keep(source);
  input.state_specs = std::make_unique<StateSpecs>(*std::move(specs));
  input.options.state_specs = input.state_specs.get();
  return true;
}

}  // namespace

bool asks_for_budget(const Options& options) {
  const MemoryOptions& m = options.memory;
  const StateOptions& s = m.state;
  return m.hardware || m.limit || m.reserve > 0 || m.reserve_fraction > 0 ||
         m.fragmentation > 0 || m.stages || m.live_layers != 1 ||
         s.optimizer != Optimizer::None || s.param_dtype || s.compute_dtype ||
         s.zero > 0 || !s.zero_axes.empty() || m.seq ||
         options.mode != Mode::Train;
}

bool check_memory_flags(const Options& options, Diagnostics& diags) {
  bool good = true;
  const Optimizer optimizer = options.memory.state.optimizer;
  if (options.mode != Mode::Train && optimizer != Optimizer::None) {
    good = false;
    diags
        .error(Code::Usage, {},
               "`--optimizer` is given, but `--mode " +
                   std::string(mode_name(options.mode)) + "` does not train")
        .help("leave out one of them");
  }
  good = check_training(options, diags) && good;
  return check_cache(options, diags) && good;
}

std::optional<BudgetInput> budget_input(Context& context,
                                        const Manifest& manifest,
                                        const Plan& plan, NamesRead& read) {
  const Options& options = context.options;
  const MemoryOptions& m = options.memory;
  if (!check_memory_flags(options, context.diags)) return std::nullopt;
  BudgetInput input;
  input.options.state = m.state;
  input.options.stages = m.stages;
  input.options.live_layers = m.live_layers;
  input.options.fragmentation = m.fragmentation;
  input.options.limit = device_limit(options, context.host, context.diags);
  const auto reserve =
      reserve_bytes(options, input.options.limit, context.diags);
  if (context.diags.cannot_run() || !reserve) return std::nullopt;
  input.options.reserve = *reserve;
  input.options.kv = kv_request(options);
  if (input.options.kv) {
    if (!read.projections) read.projections = key_projections(manifest);
    input.kv_axes =
        kv_axes(manifest, *read.projections, plan,
                {m.kv_axes, m.batch_axes, m.sequence_axes}, context.diags);
    if (!input.kv_axes ||
        !check_stage_axis(options, *input.kv_axes, context.diags)) {
      return std::nullopt;
    }
    input.options.kv_sharding = kv_sharding(plan.mesh, *input.kv_axes);
  }
  if (!check_state_options(m.state, plan.mesh, context.diags) ||
      !read_state_rules(context, manifest, plan, input)) {
    return std::nullopt;
  }
  const std::vector<uint32_t>& kind_of =
      input.state_specs ? input.state_specs->kind_of : plan.placement_of;
  if (read.kind_of != kind_of) {
    read.units = layer_units(manifest, kind_of);
    read.kind_of = kind_of;
  }
  input.units = read.units;
  return input;
}

std::optional<BudgetAnswer> answer_budget(Context& context,
                                          const Manifest& manifest,
                                          const Plan& plan) {
  NamesRead read;
  auto input = budget_input(context, manifest, plan, read);
  if (!input) return std::nullopt;
  auto budget =
      make_budget(manifest, plan, input->units, input->options, context.diags);
  if (!budget) return std::nullopt;
  lint(MemoryInput{manifest, plan, input->units, input->options, *budget},
       context.diags);
  return BudgetAnswer{*std::move(input), *std::move(budget)};
}

}  // namespace shardplan::cli
