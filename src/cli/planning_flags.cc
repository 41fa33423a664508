// SPDX-License-Identifier: Apache-2.0
// The flags that make a plan (session/plan_request.h) and control how it is
// checked.
#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
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

std::vector<std::string> dialect_names() { return all_names(rule_dialects()); }

// Returns the names in the order of Unmatched.
std::vector<std::string> unmatched_names() {
  return {"error", "replicate", "auto"};
}
std::vector<std::string> fallback_names() {
  return {"axis_is_unsharded", "raise_error", "no_constraint"};
}
std::vector<std::string> flax_versions() { return {"current", "2024"}; }
std::vector<std::string> mode_choices() {
  return {kModeNames.begin(), kModeNames.end()};
}

void set_mesh(const Setting& setting, Options& options, Diagnostics&) {
  const std::string name = setting.where
                               ? setting.where.file->name() + " (mesh)"
                               : std::string("--mesh");
  options.planning.mesh = std::make_shared<SourceFile>(name, setting.value);
}

void add_view_flag(const Setting& setting, Options& options, Diagnostics&) {
  const std::string name = setting.where
                               ? setting.where.file->name() + " (view)"
                               : std::string("--view");
  options.planning.views.push_back(
      std::make_shared<SourceFile>(name, setting.value));
}

void set_pattern(const Setting& setting, Options& options, Diagnostics&) {
  const std::string name = setting.where
                               ? setting.where.file->name() + " (pattern)"
                               : std::string("--pattern");
  options.planning.pattern = std::make_shared<SourceFile>(name, setting.value);
}

void set_answer(const Setting& setting, Options& options, Diagnostics& diags) {
  append_answer(setting, options.planning.answers, diags);
}

void set_axes(const Setting& setting, Options& options, Diagnostics& diags) {
  options.planning.axes = axes_of(setting, diags);
}

void set_jobs(const Setting& setting, Options& options, Diagnostics& diags) {
  if (const auto jobs = integer_of(setting, 1, 4096, diags)) {
    options.planning.jobs = static_cast<int>(*jobs);
  }
}

constexpr int64_t kAny = std::numeric_limits<int64_t>::min();
constexpr int64_t kMax = std::numeric_limits<int64_t>::max();

}  // namespace

const std::vector<Flag>& planning_flags() {
  static const std::vector<Flag> kFlags = {
      {"rules", Takes::File, "FILE|@NAME", "Inputs",
       "partition rules; may repeat, first match wins", kSearched,
       [](auto& s, auto& o, auto&) { o.planning.rules.push_back(path_of(s)); },
       true, true, nullptr, 'r'},
      {"architecture", Takes::File, "FILE|NAME", "Inputs",
       "how to read the model's config (default: detected)",
       "inspect check resolve analyze sweep plan simulate export diff",
       [](auto& s, auto& o, auto&) {
         // The name of a shipped architecture is preferred to a file of that
         // name.
         const auto names = architecture_names();
         const bool shipped = contains(names, s.value);
         o.planning.reading.architecture = shipped ? s.value : path_of(s);
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
         const auto names = name_scheme_names();
         const bool shipped = contains(names, s.value);
         o.planning.reading.scheme = shipped ? s.value : path_of(s);
       }},
      {"dialect", Takes::Choice, "NAME", "Inputs",
       "rules format, if detection is wrong", kSearched,
       [](auto& s, auto& o, auto&) { o.planning.dialect = s.value; }, false,
       true, dialect_names},
      {"table", Takes::Text, "NAME", "Inputs",
       "table to read from a Python file", kSearched,
       [](auto& s, auto& o, auto&) { o.planning.table = s.value; }},
      {"set", Takes::Text, "NAME=VALUE", "Inputs",
       "value of a condition in Python rules, such as "
       "use_expert_tensor_mode=false; may repeat",
       kSearched, set_answer, true},
      {"pattern", Takes::Text, "STRING", "Inputs",
       "rules in one line: attention|mlp->fsdp.tp,norm->None", kRuled,
       set_pattern},
      {"parity", Takes::Nothing, "", "Inputs",
       "follow eFormer exactly: --pattern, axes missing from the mesh, "
       "--matmul",
       "check resolve analyze sweep export inspect diff explain",
       [](auto&, auto& o, auto&) { o.planning.parity = true; }},
      {"fallback", Takes::Choice, "WHAT", "Inputs",
       "what to do with logical axes no rule maps (default axis_is_unsharded)",
       kSearched,
       [](auto& s, auto& o, auto&) {
         o.planning.fallback =
             find_fallback(s.value).value_or(o.planning.fallback);
       },
       false, true, fallback_names},
      {"flax-compat", Takes::Choice, "YEAR", "Inputs",
       "read logical axes as Flax did that year (default current)", kSearched,
       [](auto& s, auto& o, auto&) {
         o.planning.flax =
             s.value == "2024" ? FlaxVersion::March2024 : FlaxVersion::Current;
       },
       false, true, flax_versions},
      {"mesh", Takes::Text, "AXES", "Inputs",
       "mesh axes, major to minor: fsdp=8,tp=4, or 8,4 with --axes; one "
       "size may be -1",
       kRuled, set_mesh, false, true, nullptr, 'm'},
      {"view", Takes::Text, "NAME:AXES", "Inputs",
       "another set of axes over the same devices: experts:ep=8,edp=4; may "
       "repeat",
       kRuled, add_view_flag, true},
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
       kRuled, set_axes},
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
         o.planning.unmatched = s.value == "auto"        ? Unmatched::Auto
                                : s.value == "replicate" ? Unmatched::Replicate
                                                         : Unmatched::Error;
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
       set_jobs},
      {"mode", Takes::Choice, "MODE", "Memory", "workload (default train)",
       kSearched,
       [](auto& s, auto& o, auto&) {
         o.planning.mode = find_mode(s.value).value_or(Mode::Train);
       },
       false, true, mode_choices},
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
  return kFlags;
}

}  // namespace shardplan::cli
