// SPDX-License-Identifier: Apache-2.0
#include "cli/flags.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <memory>
#include <utility>

#include "base/checked.h"
#include "base/text.h"
#include "cli/flag_values.h"
#include "cli/memory_flags.h"
#include "cli/simulate_flags.h"
#include "cli/views/algorithm_report.h"
#include "core/mesh.h"
#include "core/plan.h"
#include "io/export.h"
#include "io/load.h"
#include "report/report.h"
#include "resolve/framework_semantics.h"

namespace shardplan::cli {
namespace {

// `inspect` takes what makes a plan together with --shard (see makes_plan).
constexpr std::string_view kPlanning =
    "check resolve analyze sweep simulate export inspect";
constexpr std::string_view kPlanned =
    "check resolve analyze simulate export inspect";
// With rules and a mesh, whatever is then made of them.
constexpr std::string_view kRuled =
    "check resolve analyze sweep simulate export inspect diff";
constexpr std::string_view kReading =
    "check resolve analyze sweep simulate export inspect diff";
constexpr std::string_view kFolding =
    "check resolve analyze sweep simulate inspect diff explain";
constexpr std::string_view kReporting =
    "check resolve analyze sweep simulate inspect diff list explain";
constexpr std::string_view kWriting =
    "check resolve analyze sweep simulate export inspect diff list explain";
constexpr std::string_view kEvery =
    "check resolve analyze sweep simulate export inspect diff list explain "
    "completion";

std::vector<std::string> format_names() {
  std::vector<std::string> names;
  for (const Renderer& renderer : renderers())
    names.emplace_back(renderer.name);
  return names;
}

std::vector<std::string> dialect_names() {
  std::vector<std::string> names;
  for (const RuleDialect& dialect : rule_dialects()) {
    names.emplace_back(dialect.name);
  }
  return names;
}

std::vector<std::string> target_names() {
  std::vector<std::string> names;
  for (const ExportTarget& target : export_targets()) {
    names.emplace_back(target.name);
  }
  return names;
}

std::vector<std::string> policy_names() {
  return {"drop", "prefix", "pad", "chunk", "error"};
}
// In the order of Unmatched.
std::vector<std::string> unmatched_names() {
  return {"error", "replicate", "auto"};
}
std::vector<std::string> fallback_names() {
  return {"axis_is_unsharded", "raise_error", "no_constraint"};
}
std::vector<std::string> flax_versions() { return {"current", "2024"}; }
std::vector<std::string> colour_names() { return {"auto", "always", "never"}; }

void set_mesh(const Setting& setting, Options& options, Diagnostics&) {
  const std::string name = setting.where
                               ? setting.where.file->name() + " (mesh)"
                               : std::string("--mesh");
  options.mesh = std::make_shared<SourceFile>(name, setting.value);
}

void set_pattern(const Setting& setting, Options& options, Diagnostics&) {
  const std::string name = setting.where
                               ? setting.where.file->name() + " (pattern)"
                               : std::string("--pattern");
  options.pattern = std::make_shared<SourceFile>(name, setting.value);
}

void set_axes(const Setting& setting, Options& options, Diagnostics& diags) {
  options.axes = axes_of(setting, diags);
}

void set_semantics(const Setting& setting, Options& options,
                   Diagnostics& diags) {
  std::vector<std::string> known;
  for (const FrameworkSemantics& reading : framework_semantics())
    known.emplace_back(reading.name);
  const std::vector<std::string> names = split_list(setting.value);
  bool fine = names.size() == 2;
  if (!fine) {
    diags
        .error(Code::Usage, setting.where,
               title_of(setting) + " takes two readings, not `" +
                   printable(setting.value) + "`")
        .help("for example `--semantics eformer,flax`");
  }
  for (const std::string& name : names) {
    if (find_framework_semantics(name) != nullptr) continue;
    fine = false;
    auto problem = diags.error(Code::Usage, setting.where,
                               "unknown reading `" + printable(name) + "`");
    if (const auto near = nearest(name, known)) {
      problem.help("a reading with a similar name exists: `" + *near + "`");
    } else {
      problem.help("`shardplan list readings` shows all");
    }
  }
  if (fine) options.semantics = names;
}

void set_colour(const Setting& setting, Options& options, Diagnostics&) {
  options.colour = setting.value == "always"  ? Colour::Always
                   : setting.value == "never" ? Colour::Never
                                              : Colour::Auto;
}

void set_jobs(const Setting& setting, Options& options, Diagnostics& diags) {
  if (const auto jobs = integer_of(setting, 1, 4096, diags)) {
    options.jobs = static_cast<int>(*jobs);
  }
}

void set_format(const Setting& setting, Options& options, Diagnostics&) {
  options.format = setting.value.empty() ? "json" : setting.value;
  options.format_was_given = true;
}

constexpr int64_t kAny = std::numeric_limits<int64_t>::min();
constexpr int64_t kMost = std::numeric_limits<int64_t>::max();

const std::vector<Flag>& input_flags() {
  static const std::vector<Flag> kFlags = {
      {"rules", 'r', Takes::File, "FILE|@NAME", "Inputs",
       "partition rules; may repeat, first match wins", kRuled, true, true,
       nullptr,
       [](const Setting& s, Options& o, Diagnostics&) {
         o.rules.push_back(path_of(s));
       }},
      {"dialect", 0, Takes::Choice, "NAME", "Inputs",
       "read rules as this dialect, whatever they look like", kRuled, false,
       true, dialect_names,
       [](const Setting& s, Options& o, Diagnostics&) { o.dialect = s.value; }},
      {"table", 0, Takes::Text, "NAME", "Inputs",
       "which of several tables in a Python file", kRuled, false, true, nullptr,
       [](const Setting& s, Options& o, Diagnostics&) { o.table = s.value; }},
      {"pattern", 0, Takes::Text, "STRING", "Inputs",
       "rules in one line: attention|mlp->fsdp.tp,norm->None", kRuled, false,
       true, nullptr, set_pattern},
      {"parity", 0, Takes::Nothing, "", "Inputs",
       "as the originals do it: how --pattern is read, axes that the mesh "
       "lacks, what --matmul gives",
       "check resolve analyze sweep export inspect diff explain", false, true,
       nullptr,
       [](const Setting&, Options& o, Diagnostics&) { o.parity = true; }},
      {"fallback", 0, Takes::Choice, "WHAT", "Inputs",
       "for logical axes that no rule places (default axis_is_unsharded)",
       kRuled, false, true, fallback_names,
       [](const Setting& s, Options& o, Diagnostics&) {
         o.fallback = find_fallback(s.value).value_or(o.fallback);
       }},
      {"flax-compat", 0, Takes::Choice, "YEAR", "Inputs",
       "logical axes as flax of that year reads them (default current)", kRuled,
       false, true, flax_versions,
       [](const Setting& s, Options& o, Diagnostics&) {
         o.flax =
             s.value == "2024" ? FlaxVersion::March2024 : FlaxVersion::Current;
       }},
      {"mesh", 'm', Takes::Text, "AXES", "Inputs",
       "devices, major to minor: fsdp=8,tp=4, or 8,4 with --axes; one size may "
       "be -1",
       kRuled, false, true, nullptr, set_mesh},
      {"devices", 0, Takes::Text, "N", "Inputs",
       "number of devices, for a size of -1 or as a check", kRuled, false, true,
       nullptr,
       [](const Setting& s, Options& o, Diagnostics& d) {
         o.sweep.devices = integers_of(s, o.command, 1, kMaxDevices, d);
         if (o.sweep.devices.size() == 1) o.devices = o.sweep.devices[0];
       }},
      {"slices", 0, Takes::Text, "N", "Inputs",
       "slices of devices joined by a slower network; each crosses an axis",
       kPlanning, false, true, nullptr,
       [](const Setting& s, Options& o, Diagnostics& d) {
         o.slices = integer_of(s, 1, kMaxDevices, d);
       }},
      {"over", 0, Takes::Text, "A,B", "Inputs",
       "axes to cut --devices over, in every way", "sweep", false, true,
       nullptr,
       [](const Setting& s, Options& o, Diagnostics& d) {
         o.sweep.over = axes_of(s, d);
       }},
      {"axes", 0, Takes::Text, "A,B,C", "Inputs",
       "axes that rules may name though the mesh lacks them; names for a mesh "
       "of sizes alone",
       kRuled, false, true, nullptr, set_axes},
      {"plan", 0, Takes::File, "FILE", "Inputs",
       "a saved plan instead of rules and mesh; with --mesh its specs on that "
       "mesh",
       kPlanned, false, true, nullptr,
       [](const Setting& s, Options& o, Diagnostics&) { o.plan = path_of(s); }},
      {"min-size", 0, Takes::Text, "N", "Inputs",
       "replicate arrays of fewer elements (default 0)", kPlanning, false, true,
       nullptr,
       [](const Setting& s, Options& o, Diagnostics& d) {
         o.min_size = integer_of(s, kAny, kMost, d).value_or(0);
       }},
      {"on-indivisible", 0, Takes::Choice, "POLICY", "Inputs",
       "for dimensions that axes do not divide (default drop)", kPlanning,
       false, true, policy_names,
       [](const Setting& s, Options& o, Diagnostics&) {
         o.on_indivisible = find_policy(s.value).value_or(o.on_indivisible);
       }},
      {"unmatched", 0, Takes::Choice, "WHAT", "Inputs",
       "for parameters that no rule matches (default error)", kPlanning, false,
       true, unmatched_names,
       [](const Setting& s, Options& o, Diagnostics&) {
         o.unmatched = s.value == "auto"        ? Unmatched::Auto
                       : s.value == "replicate" ? Unmatched::Replicate
                                                : Unmatched::Error;
       }},
      {"no-strict", 0, Takes::Nothing, "", "Inputs",
       "apply rules verbatim: scalars, sizes and ranks alike", kPlanning, false,
       true, nullptr,
       [](const Setting&, Options& o, Diagnostics&) { o.strict = false; }},
      {"declare", 0, Takes::Text, "A,B", "Inputs",
       "what is stored otherwise: replicate-kv-heads, pad-vocab=M, "
       "interleave-gate-up, interleave-qkv",
       kPlanning, true, true, nullptr,
       [](const Setting& s, Options& o, Diagnostics& d) {
         append_declarations(s, o.declarations, d);
       }},
      {"jobs", 0, Takes::Text, "N", "Inputs",
       "threads to use (default one per processor)", kRuled, false, true,
       nullptr, set_jobs},
      {"max-memory", 0, Takes::Text, "SIZE", "Inputs",
       "what shardplan itself may allocate (default three quarters of the "
       "machine's memory)",
       kEvery, false, true, nullptr,
       [](const Setting& s, Options& o, Diagnostics& d) {
         o.max_memory = bytes_of(s, d);
       }},
      {"shard", 0, Takes::Text, "NAME", "Inputs",
       "draw which device holds which slice of one parameter; takes rules and "
       "a mesh, or a plan",
       "inspect", false, false, nullptr,
       [](const Setting& s, Options& o, Diagnostics&) { o.shard = s.value; }},
      {"why", 0, Takes::Text, "NAME", "Inputs",
       "show how one parameter got its spec", "resolve", false, false, nullptr,
       [](const Setting& s, Options& o, Diagnostics&) { o.why = s.value; }},
      {"semantics", 0, Takes::Text, "A,B", "Inputs",
       "compare two readings of one model's rules: eformer, flax, maxtext, "
       "easylm, dtensor, hf, gspmd",
       "diff", false, false, nullptr, set_semantics},
      {"config", 0, Takes::File, "FILE", "Inputs",
       "settings to use instead of the nearest shardplan.yaml", kReading, false,
       false, nullptr,
       [](const Setting& s, Options& o, Diagnostics&) { o.config = s.value; }},
      {"isolated", 0, Takes::Nothing, "", "Inputs", "read no shardplan.yaml",
       kReading, false, false, nullptr,
       [](const Setting&, Options& o, Diagnostics&) { o.isolated = true; }},
  };
  return kFlags;
}

const std::vector<Flag>& output_flags() {
  static const std::vector<Flag> kFlags = {
      {"to", 0, Takes::Choice, "TARGET", "Output", "what to write", "export",
       false, false, target_names,
       [](const Setting& s, Options& o, Diagnostics&) { o.to = s.value; }},
      {"format", 0, Takes::Choice, "FORMAT", "Output",
       "how to write the answer (default text)", kReporting, false, true,
       format_names, set_format},
      {"json", 0, Takes::Nothing, "", "Output", "short for --format json",
       kReporting, false, true, nullptr, set_format},
      {"output", 'o', Takes::File, "FILE", "Output",
       "write there, whole or not at all", kWriting, false, false, nullptr,
       [](const Setting& s, Options& o, Diagnostics&) {
         o.output = path_of(s);
       }},
      {"expand", 0, Takes::Nothing, "", "Output",
       "leave nothing out: every layer, device or step by itself", kFolding,
       false, true, nullptr,
       [](const Setting&, Options& o, Diagnostics&) { o.expand = true; }},
      {"exact", 0, Takes::Nothing, "", "Output",
       "raw numbers instead of 29.3 MiB", kReporting, false, true, nullptr,
       [](const Setting&, Options& o, Diagnostics&) { o.exact = true; }},
      {"color", 0, Takes::Choice, "WHEN", "Output",
       "colours (default auto: on a terminal)", kEvery, false, true,
       colour_names, set_colour},
      {"quiet", 'q', Takes::Nothing, "", "Output",
       "show errors only, and no progress", kReading, false, true, nullptr,
       [](const Setting&, Options& o, Diagnostics&) { o.quiet = true; }},
      {"verbose", 'v', Takes::Nothing, "", "Output",
       "say which configuration was read", kReading, false, true, nullptr,
       [](const Setting&, Options& o, Diagnostics&) { o.verbose = true; }},
      {"no-progress", 0, Takes::Nothing, "", "Output",
       "no status line on the terminal", kReading, false, true, nullptr,
       [](const Setting&, Options& o, Diagnostics&) { o.progress = false; }},
  };
  return kFlags;
}

const std::vector<Flag>& diagnostics_flags() {
  static const std::vector<Flag> kFlags = {
      {"tolerance", 0, Takes::Text, "F", "Diagnostics",
       "memory that corrections may cost (default 0.02)", kPlanning, false,
       true, nullptr,
       [](const Setting& s, Options& o, Diagnostics& d) {
         o.tolerance = number_of(s, d).value_or(o.tolerance);
       }},
      {"max-replicated", 0, Takes::Text, "F", "Diagnostics",
       "fraction of bytes that may stay unsharded (default any)", kPlanning,
       false, true, nullptr,
       [](const Setting& s, Options& o, Diagnostics& d) {
         o.max_replicated = number_of(s, d);
       }},
      {"deny", 0, Takes::Text, "CODE|warnings", "Diagnostics",
       "make it an error; may repeat", kReading, true, true, nullptr,
       [](const Setting& s, Options& o, Diagnostics& d) {
         append_codes(s, true, o.deny, d);
       }},
      {"allow", 0, Takes::Text, "CODE", "Diagnostics", "ignore it; may repeat",
       kReading, true, true, nullptr,
       [](const Setting& s, Options& o, Diagnostics& d) {
         append_codes(s, false, o.allow, d);
       }},
      {"exit-zero", 0, Takes::Nothing, "", "Diagnostics",
       "exit with 0 where findings would give 1", kReading, false, true,
       nullptr,
       [](const Setting&, Options& o, Diagnostics&) { o.exit_zero = true; }},
      {"fix", 0, Takes::Nothing, "", "Diagnostics",
       "apply the fixes that are edits of the rules files", "check", false,
       false, nullptr,
       [](const Setting&, Options& o, Diagnostics&) { o.fix = true; }},
      {"diff", 0, Takes::Nothing, "", "Diagnostics",
       "with --fix: show the edits, and write nothing", "check", false, false,
       nullptr,
       [](const Setting&, Options& o, Diagnostics&) { o.diff = true; }},
      {"exit-code", 0, Takes::Nothing, "", "Diagnostics",
       "exit with 1 when the plans differ", "diff", false, false, nullptr,
       [](const Setting&, Options& o, Diagnostics&) { o.exit_code = true; }},
  };
  return kFlags;
}

}  // namespace

std::span<const Flag> flags() {
  static const std::vector<Flag> kAll = [] {
    std::vector<Flag> all = input_flags();
    for (const auto* more :
         {&simulate_flags(), &explain_flags(), &memory_flags(), &output_flags(),
          &diagnostics_flags()}) {
      all.insert(all.end(), more->begin(), more->end());
    }
    return all;
  }();
  return kAll;
}

const Flag* find_flag(std::string_view name) {
  for (const Flag& flag : flags()) {
    if (flag.name == name) return &flag;
  }
  return nullptr;
}

bool is_taken_by(const Flag& flag, std::string_view command) {
  for (const std::string& taker : split_list(flag.commands, ' ')) {
    if (taker == command) return true;
  }
  return false;
}

bool makes_plan(const Flag& flag) {
  // What every command takes that reads anything.
  constexpr std::array<std::string_view, 6> kGeneral = {
      "config", "isolated", "deny", "allow", "exit-zero", "max-memory"};
  return flag.group != "Output" && is_taken_by(flag, "resolve") &&
         is_taken_by(flag, "sweep") &&
         std::find(kGeneral.begin(), kGeneral.end(), flag.name) ==
             kGeneral.end();
}

std::string takers_text(const Flag& flag) {
  return quoted_names(split_list(flag.commands, ' '));
}

void apply_settings(std::span<const Setting> settings, Options& options,
                    Diagnostics& diags) {
  for (const Setting& setting : settings) {
    const Flag& flag = *setting.flag;
    if (flag.takes == Takes::Choice && !is_choice(setting, diags)) continue;
    if (flag.takes != Takes::Nothing && setting.value.empty()) {
      diags.error(Code::Usage, setting.where,
                  title_of(setting) + " has an empty value");
      continue;
    }
    flag.apply(setting, options, diags);
  }
}

void apply_severities(const Options& options, Diagnostics& diags) {
  for (const std::string& text : options.deny) {
    if (text == "warnings") {
      diags.deny_warnings();
    } else if (const auto code = find_code(text)) {
      diags.set_severity(*code, Severity::Error);
    }
  }
  for (const std::string& text : options.allow) {
    if (const auto code = find_code(text)) {
      diags.set_severity(*code, Severity::Off);
    }
  }
}

std::string join_path(const std::string& directory, const std::string& path) {
  if (directory.empty() || path.starts_with('/')) return path;
  return directory.ends_with('/') ? directory + path : directory + "/" + path;
}

const std::vector<Flag>& explain_flags() {
  static const std::vector<Flag> kFlags = {
      {"matmul", 0, Takes::Text, "SPECS", "Inputs",
       "describe a product of matrices instead: \"P(dp, None) @ P(None, tp)\"",
       "explain", false, false, nullptr,
       [](const Setting& s, Options& o, Diagnostics&) {
         o.matmul = std::make_shared<SourceFile>("--matmul", s.value);
       }},
      {"algorithm", 0, Takes::Choice, "NAME", "Inputs",
       "of collectives: whose schedule to draw over --ranks (explain), or to "
       "run "
       "where it can (simulate)",
       "explain simulate", false, true, algorithm_names,
       [](const Setting& s, Options& o, Diagnostics&) {
         o.algorithm = s.value;
       }},
      {"ranks", 0, Takes::Text, "N", "Inputs",
       "how many ranks the schedule has", "explain", false, false, nullptr,
       [](const Setting& s, Options& o, Diagnostics& d) {
         o.ranks = integer_of(s, 1, kMaxDevices, d);
       }},
      {"kind", 0, Takes::Choice, "COLLECTIVE", "Inputs",
       "what the schedule does (default all-reduce)", "explain", false, false,
       collective_names,
       [](const Setting& s, Options& o, Diagnostics&) { o.kind = s.value; }},
      {"inner", 0, Takes::Text, "K", "Inputs",
       "how many neighbouring ranks the fast axis has, for hierarchical",
       "explain", false, false, nullptr,
       [](const Setting& s, Options& o, Diagnostics& d) {
         o.inner = integer_of(s, 1, kMaxDevices, d);
       }},
  };
  return kFlags;
}

}  // namespace shardplan::cli
