// SPDX-License-Identifier: Apache-2.0
// The flags that make a plan (session/plan_request.h) and control how it is
// checked.
#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/words.h"
#include "cli/flag_values.h"
#include "cli/flags.h"
#include "cli/options.h"
#include "core/mesh.h"
#include "core/partition_axis.h"
#include "core/plan.h"
#include "io/load.h"
#include "io/topologies.h"
#include "model/architectures.h"
#include "model/naming/name_scheme.h"

namespace shardplan::cli {
namespace {

// Commands that use a plan. `inspect` accepts flags that make a plan only with
// --shard (see makes_plan).
constexpr std::string_view kPlanned =
    "check resolve analyze simulate export inspect";
// Commands that read rules and a mesh. Some of these flags have a meaning for
// `diff` only with --before (see needs_before).
constexpr std::string_view kRuled =
    "check resolve analyze sweep simulate export inspect diff";
// The same commands, and `plan`, whose search chooses the mesh.
constexpr std::string_view kSearched =
    "check resolve analyze sweep plan simulate export inspect diff";

// In the order of the enumerators.
std::vector<std::string> unmatched_names() {
  return {"error", "replicate", "auto"};
}
std::vector<std::string> fallback_names() {
  return {"axis_is_unsharded", "raise_error", "no_constraint"};
}
std::vector<std::string> flax_versions() { return {"current", "2024"}; }

// Returns the name of a shipped file, preferred to a file of that name, or the
// path of a file.
std::string shipped_or_path(const Setting& setting,
                            const std::vector<std::string>& shipped) {
  return contains(shipped, setting.value) ? setting.value : path_of(setting);
}

// Adds NAME=VALUE, which replaces an earlier answer of that name.
void add_answer(const Setting& setting, Options& options, Diagnostics& diags) {
  std::string_view value = setting.value;
  const std::string name(next_part(value, '='));
  if (name.empty() || !contains(setting.value, '=')) {
    must_be(setting, "a name and its value, NAME=VALUE", diags)
        .help("for example `--set use_expert_tensor_mode=false`");
    return;
  }
  std::vector<RuleAnswer>& answers = options.planning.answers;
  std::erase_if(answers,
                [&](const RuleAnswer& other) { return other.name == name; });
  answers.push_back({name, std::string(value), setting.where});
}

constexpr int64_t kAny = std::numeric_limits<int64_t>::min();
constexpr int64_t kMax = std::numeric_limits<int64_t>::max();

}  // namespace

std::vector<Flag> planning_flags() {
  return {
      {"rules", Takes::File, "FILE|@NAME", "Inputs",
       "partition rules; may repeat, first match wins", kSearched,
       [](auto& s, auto& o, auto&) { o.planning.rules.push_back(path_of(s)); },
       true, true, nullptr, 'r'},
      {"architecture", Takes::File, "FILE|NAME", "Inputs",
       "how to read the model's config (default: detected)",
       "inspect check resolve analyze sweep plan simulate export diff",
       [](auto& s, auto& o, auto&) {
         o.planning.reading.architecture =
             shipped_or_path(s, architecture_names());
       }},
      {"lora", Takes::Text, "r=N,targets=A+B", "Inputs",
       "add PEFT LoRA adapters: r=16,targets=all-linear, also "
       "`,dtype=bf16`",
       "inspect check resolve analyze sweep plan simulate export",
       [](auto& s, auto& o, auto& d) {
         o.planning.reading.lora = read_lora(s.value, s.where, d);
       }},
      {"scheme", Takes::File, "FILE|NAME", "Inputs",
       "parameter naming for a config (default: as save_pretrained)",
       "inspect check resolve analyze sweep plan simulate export diff",
       [](auto& s, auto& o, auto&) {
         o.planning.reading.scheme = shipped_or_path(s, name_scheme_names());
       }},
      {"dialect", Takes::Choice, "NAME", "Inputs",
       "rules format, if detection is wrong", kSearched,
       [](auto& s, auto& o, auto&) { o.planning.dialect = s.value; }, false,
       true, [] { return all_names(rule_dialects()); }},
      {"table", Takes::Text, "NAME", "Inputs",
       "table to read from a Python file", kSearched,
       [](auto& s, auto& o, auto&) { o.planning.table = s.value; }},
      {"set", Takes::Text, "NAME=VALUE", "Inputs",
       "value of a condition in Python rules, such as "
       "use_expert_tensor_mode=false; may repeat",
       kSearched, add_answer, true},
      {"pattern", Takes::Text, "STRING", "Inputs",
       "rules in one line: attention|mlp->fsdp.tp,norm->None", kRuled,
       [](auto& s, auto& o, auto&) { o.planning.pattern = source_of(s); }},
      {"parity", Takes::Nothing, "", "Inputs",
       "follow eFormer exactly: --pattern, axes missing from the mesh, "
       "--matmul",
       "check resolve analyze sweep export inspect diff explain",
       [](auto&, auto& o, auto&) { o.planning.parity = true; }},
      {"fallback", Takes::Choice, "WHAT", "Inputs",
       "what to do with logical axes no rule maps (default axis_is_unsharded)",
       kSearched,
       [](auto& s, auto& o, auto&) {
         o.planning.fallback = chosen<RulesFallback>(s);
       },
       false, true, fallback_names},
      {"flax-compat", Takes::Choice, "YEAR", "Inputs",
       "read logical axes as Flax did that year (default current)", kSearched,
       [](auto& s, auto& o, auto&) {
         o.planning.flax = chosen<FlaxVersion>(s);
       },
       false, true, flax_versions},
      {"mesh", Takes::Text, "AXES", "Inputs",
       "mesh axes, major to minor: fsdp=8,tp=4, or 8,4 with --axes; one "
       "size may be -1",
       kRuled, [](auto& s, auto& o, auto&) { o.planning.mesh = source_of(s); },
       false, true, nullptr, 'm'},
      {"view", Takes::Text, "NAME:AXES", "Inputs",
       "another set of axes over the same devices: experts:ep=8,edp=4; may "
       "repeat",
       kRuled,
       [](auto& s, auto& o, auto&) {
         o.planning.views.push_back(source_of(s));
       },
       true},
      {"expert-model-parallel-size", Takes::Text, "N", "Inputs",
       "Megatron's expert parallel degree, as a view `experts`", kRuled,
       [](auto& s, auto& o, auto& d) {
         o.planning.megatron.experts = integer_of(s, 1, kMaxDevices, d);
       }},
      {"expert-tensor-parallel-size", Takes::Text, "N", "Inputs",
       "Megatron's expert tensor parallel degree (default: size of `tp`)",
       kRuled,
       [](auto& s, auto& o, auto& d) {
         o.planning.megatron.tensor = integer_of(s, 1, kMaxDevices, d);
       }},
      {"expert-parallel-degree", Takes::Text, "N", "Inputs",
       "torchtitan's expert parallel degree, as a view `experts`", kRuled,
       [](auto& s, auto& o, auto& d) {
         o.planning.torchtitan.experts = integer_of(s, 1, kMaxDevices, d);
       }},
      {"expert-tensor-parallel-degree", Takes::Text, "N", "Inputs",
       "torchtitan's expert tensor parallel degree: 1 (default) or the "
       "size of `tp`",
       kRuled,
       [](auto& s, auto& o, auto& d) {
         o.planning.torchtitan.tensor = integer_of(s, 1, kMaxDevices, d);
       }},
      {"devices", Takes::Text, "N", "Inputs",
       "number of devices; resolves a mesh size of -1", kSearched,
       [](auto& s, auto& o, auto& d) {
         o.sweep.devices =
             integers_of(s, o.command == "sweep", 1, kMaxDevices, d);
         if (o.sweep.devices.size() == 1)
           o.planning.devices = o.sweep.devices[0];
       }},
      {"slices", Takes::Text, "N", "Inputs",
       "number of slices joined by a slower network; they split an axis",
       kRuled,
       [](auto& s, auto& o, auto& d) {
         o.planning.slices = integer_of(s, 1, kMaxDevices, d);
       }},
      {"topology", Takes::Text, "NAME", "Inputs",
       "machine type, replaces --devices and --hardware: v5p-128, "
       "2xv5e-256, a3-highgpu-8g, 8xH100",
       kSearched,
       [](auto& s, auto& o, auto& d) {
         o.planning.topology = read_topology(s.value, s.where, d);
       }},
      {"axes", Takes::Text, "A,B,C", "Inputs",
       "axes that rules may name though the mesh lacks them; names for a "
       "sizes-only mesh",
       kRuled,
       [](auto& s, auto& o, auto& d) { o.planning.axes = axes_of(s, d); }},
      {"plan", Takes::File, "FILE", "Inputs",
       "a saved plan instead of rules and mesh; --mesh applies it to another "
       "mesh",
       kPlanned,
       [](auto& s, auto& o, auto&) { o.planning.saved_plan = path_of(s); }},
      {"min-size", Takes::Text, "N", "Inputs",
       "replicate arrays with fewer elements (default 0)", kSearched,
       [](auto& s, auto& o, auto& d) {
         o.planning.min_size = integer_of(s, kAny, kMax, d).value_or(0);
       }},
      {"on-indivisible", Takes::Choice, "POLICY", "Inputs",
       "what to do with a dimension its axes do not divide (default drop; "
       "rows for PyTorch FSDP and DeepSpeed)",
       kSearched,
       [](auto& s, auto& o, auto&) {
         o.planning.on_indivisible = find_policy(s.value);
       },
       false, true, on_indivisible_names},
      {"unmatched", Takes::Choice, "WHAT", "Inputs",
       "what to do with a parameter no rule matches (default error)", kSearched,
       [](auto& s, auto& o, auto&) {
         o.planning.unmatched = chosen<Unmatched>(s);
       },
       false, true, unmatched_names},
      {"no-strict", Takes::Nothing, "", "Inputs",
       "apply rules verbatim, with no special case for scalars, sizes or "
       "ranks",
       kSearched, [](auto&, auto& o, auto&) { o.planning.strict = false; }},
      {"declare", Takes::Text, "A,B", "Inputs",
       "how weights are stored: replicate-kv-heads, pad-vocab=M, "
       "interleave-gate-up, interleave-qkv",
       kSearched,
       [](auto& s, auto& o, auto& d) {
         append_declarations(s, o.planning.declarations, d);
       },
       true},
      {"jobs", Takes::Text, "N", "Inputs",
       "threads to use (default: one per processor)",
       "check resolve analyze sweep plan simulate export inspect diff gate",
       [](auto& s, auto& o, auto& d) {
         o.planning.jobs =
             static_cast<int>(integer_of(s, 1, 4096, d).value_or(0));
       }},
      {"mode", Takes::Choice, "MODE", "Memory", "workload (default train)",
       kSearched,
       [](auto& s, auto& o, auto&) { o.planning.mode = chosen<Mode>(s); },
       false, true, [] { return as_choices(kModeNames); }},
      {"tolerance", Takes::Text, "F", "Diagnostics",
       "memory increase corrections may cause (default 0.02)", kRuled,
       [](auto& s, auto& o, auto& d) {
         o.planning.tolerance = number_of(s, d).value_or(o.planning.tolerance);
       }},
      {"max-replicated", Takes::Text, "F", "Diagnostics",
       "fraction of bytes that may stay unsharded (default: any)", kRuled,
       [](auto& s, auto& o, auto& d) {
         o.planning.max_replicated = number_of(s, d);
       }},
  };
}

}  // namespace shardplan::cli
