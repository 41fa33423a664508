// SPDX-License-Identifier: Apache-2.0
// Joins the flags of all commands into one table, and turns settings into
// options. The flags of nearly every command are defined here.
#include "cli/flags.h"

#include <algorithm>

#include "base/checked.h"
#include "base/text.h"
#include "base/words.h"
#include "cli/flag_values.h"
#include "cli/options.h"
#include "report/report.h"

namespace shardplan::cli {
namespace {

// Flags of nearly every command: where its answer goes and how it looks, what
// counts as a finding, which settings are read, how much may be allocated.
constexpr std::string_view kReading =
    "check resolve analyze plan sweep simulate export inspect diff";
constexpr std::string_view kJudging =
    "check resolve analyze plan sweep simulate export inspect diff gate";
constexpr std::string_view kFolding =
    "check resolve analyze plan sweep simulate inspect diff gate explain";
constexpr std::string_view kReporting =
    "check resolve analyze plan sweep simulate inspect diff gate list explain";
constexpr std::string_view kWithFigures =
    "check resolve analyze plan sweep simulate inspect diff gate explain";
constexpr std::string_view kWriting =
    "check resolve analyze plan sweep simulate export inspect diff gate list "
    "explain";
constexpr std::string_view kEvery =
    "check resolve analyze plan sweep simulate export inspect diff gate list "
    "explain completion";

std::vector<std::string> colour_names() { return {"auto", "always", "never"}; }

void set_plot(const Setting& setting, Options& options, Diagnostics& diags) {
  PlotRequest request = plot_of(setting);
  if (!request.file || request.file->ends_with(".svg")) {
    options.plots.push_back(std::move(request));
    return;
  }
  diags
      .error(Code::Usage, setting.where,
             "`--plot` writes SVG: " + in_backticks(*request.file) +
                 " must end in `.svg`")
      .help(
          "name it FILE.svg; browsers show it, and `rsvg-convert` or Inkscape "
          "converts it to PNG");
}

void set_format(const Setting& setting, Options& options, Diagnostics&) {
  options.output.format = setting.value.empty() ? "json" : setting.value;
  options.output.format_was_given = true;
}

std::vector<Flag> general_flags() {
  return {
      {"max-memory", Takes::Text, "SIZE", "Inputs",
       "memory limit of shardplan itself (default: 3/4 of the machine's "
       "memory)",
       kEvery,
       [](auto& s, auto& o, auto& d) { o.run.max_memory = bytes_of(s, d); }},
      {"config", Takes::File, "FILE", "Inputs",
       "read this file instead of the nearest shardplan.yaml", kReading,
       [](auto& s, auto& o, auto&) { o.run.config = s.value; }, false, false},
      {"isolated", Takes::Nothing, "", "Inputs", "read no shardplan.yaml",
       kReading, [](auto&, auto& o, auto&) { o.run.isolated = true; }, false,
       false},
      {"format", Takes::Choice, "FORMAT", "Output",
       "output format (default text)", kReporting, set_format, false, true,
       [] { return all_names(renderers()); }},
      {"json", Takes::Nothing, "", "Output", "short for --format json",
       kReporting, set_format},
      {"output", Takes::File, "FILE", "Output",
       "write to FILE; its extension sets the format", kWriting,
       [](auto& s, auto& o, auto&) { o.output.file = path_of(s); }, false,
       false, nullptr, 'o'},
      {"plot", Takes::File, "[NAME=]FILE.svg|NAME", "Output",
       "write a figure of the report (default the first), or draw it here; may "
       "repeat",
       kWithFigures, set_plot, true, false},
      {"expand", Takes::Nothing, "", "Output",
       "show every layer and device instead of folding", kFolding,
       [](auto&, auto& o, auto&) { o.output.expand = true; }},
      {"exact", Takes::Nothing, "", "Output", "raw numbers instead of 29.3 MiB",
       kReporting, [](auto&, auto& o, auto&) { o.output.exact = true; }},
      {"color", Takes::Choice, "WHEN", "Output",
       "colours (default auto: on a terminal)", kEvery,
       [](auto& s, auto& o, auto&) { o.output.colour = chosen<Colour>(s); },
       false, true, colour_names},
      {"quiet", Takes::Nothing, "", "Output",
       "show errors only, without progress", kJudging,
       [](auto&, auto& o, auto&) { o.output.quiet = true; }, false, true,
       nullptr, 'q'},
      {"verbose", Takes::Nothing, "", "Output",
       "also report the configuration file and notes on shipped rules",
       kReading,
       [](auto&, auto& o, auto&) {
         o.output.verbose = true;
         o.planning.verbose = true;
       },
       false, true, nullptr, 'v'},
      {"no-progress", Takes::Nothing, "", "Output", "hide the progress line",
       kJudging, [](auto&, auto& o, auto&) { o.output.progress = false; }},
      {"deny", Takes::Text, "CODE|warnings", "Diagnostics",
       "treat as an error; may repeat", kJudging,
       [](auto& s, auto& o, auto& d) { append_codes(s, true, o.run.deny, d); },
       true},
      {"allow", Takes::Text, "CODE", "Diagnostics", "ignore; may repeat",
       kJudging,
       [](auto& s, auto& o, auto& d) {
         append_codes(s, false, o.run.allow, d);
       },
       true},
      {"exit-zero", Takes::Nothing, "", "Diagnostics",
       "exit with 0 despite findings", kJudging,
       [](auto&, auto& o, auto&) { o.run.exit_zero = true; }},
  };
}

// The order of flags within each group of help and in completion. Settings are
// also read in this order, so that the same one of two mistakes is always
// reported first.
constexpr std::string_view kOrder[] = {
    // Inputs
    "rules", "dialect", "table", "set", "pattern", "parity", "fallback",
    "flax-compat", "mesh", "view", "expert-model-parallel-size",
    "expert-tensor-parallel-size", "expert-parallel-degree",
    "expert-tensor-parallel-degree", "devices", "slices", "topology", "over",
    "fix-mesh", "why-not", "keep", "forbid", "verify", "axes", "plan",
    "architecture", "scheme", "lora", "min-size", "on-indivisible", "unmatched",
    "no-strict", "declare", "jobs", "max-memory", "shard", "why", "semantics",
    "names", "before", "after", "target", "config", "isolated",
    // Simulation
    "graph", "dims", "layers", "tokens", "input", "input-ids", "shrink", "full",
    "capacity", "values", "seed", "dtype", "reduce-dtype", "as", "overlap",
    "expect", "vary",
    // Inputs of `explain`
    "matmul", "algorithm", "ranks", "kind", "inner",
    // Memory
    "hardware", "calibrate", "memory", "reserve", "fragmentation", "stages",
    "optimizer", "optimizer-of", "optimizer-impl", "precision", "param-dtype",
    "grad-dtype", "moment-dtype", "master-dtype", "compute-dtype",
    "live-layers", "state-rules", "trainable", "offload", "zero", "zero-axes",
    "zero-style", "mode", "batch", "seq", "source-seq", "microbatches", "remat",
    "schedule", "hide", "measured", "objective", "max-ttft", "max-tpot",
    "attention", "kernels", "framework", "fp8", "dropout", "no-dropout",
    "loss-tiles", "expert-factor", "kv-dtype", "kv-block", "kv-axes",
    "batch-axes", "sequence-axes", "ulysses-axes", "engine",
    "gpu-memory-utilization", "mem-fraction-static", "max-batched-tokens",
    "max-seqs", "expert-parallel", "dp-attention", "max-loras", "max-lora-rank",
    "lora-target-modules", "fully-sharded-loras", "input-tokens",
    "output-tokens", "concurrency", "draft",
    // Output
    "to", "format", "json", "output", "plot", "top", "write-rules",
    "write-config", "expand", "exact", "color", "quiet", "verbose",
    "no-progress",
    // Diagnostics
    "tolerance", "max-replicated", "fail-on", "baseline", "write-baseline",
    "deny", "allow", "exit-zero", "fix", "diff", "exit-code"};

std::vector<Flag> all_flags() {
  std::vector<Flag> rows;
  for (const std::vector<Flag>& more :
       {planning_flags(), memory_flags(), engine_flags(), general_flags(),
        check_flags(), diff_flags(), explain_flags(), export_flags(),
        gate_flags(), inspect_flags(), plan_flags(), resolve_flags(),
        simulate_flags(), sweep_flags(), workload_flags()}) {
    rows.insert(rows.end(), more.begin(), more.end());
  }
  std::vector<Flag> ordered;
  ordered.reserve(rows.size());
  for (const std::string_view name : kOrder) {
    const auto row = std::ranges::find(rows, name, &Flag::name);
    SHARDPLAN_CHECK(row != rows.end());
    ordered.push_back(*row);
  }
  SHARDPLAN_CHECK(ordered.size() == rows.size());  // none is left out
  return ordered;
}

// Reports a setting whose number contradicts the topology's.
void report_other(const Setting& given, int64_t number, std::string_view noun,
                  const NamedTopology& topology, int64_t says,
                  Diagnostics& diags) {
  diags
      .error(Code::Usage, given.where,
             title_of(given) + " gives " + plural(number, noun) +
                 ", but the topology `" + topology.name + "` has " +
                 std::to_string(says))
      .fact(topology_text(topology))
      .help("remove one of the two");
}

// Applies the topology's devices, slices and hardware. Reports devices or
// slices that contradict it; other hardware that is given takes precedence.
void settle_topology(std::span<const Setting> settings, Options& options,
                     Diagnostics& diags) {
  if (!options.planning.topology) return;
  NamedTopology& topology = *options.planning.topology;
  PlanRequest& planning = options.planning;
  if (const Setting* given = find_setting(settings, "devices")) {
    for (const int64_t devices : options.sweep.devices) {
      if (devices == topology.devices) continue;
      report_other(*given, devices, "device", topology, topology.devices,
                   diags);
      break;
    }
  }
  if (const Setting* given = find_setting(settings, "slices")) {
    if (planning.slices && topology.slices &&
        planning.slices != topology.slices) {
      report_other(*given, *planning.slices, "slice", topology,
                   *topology.slices, diags);
    }
  } else if (topology.slices && *topology.slices > 1) {
    planning.slices = topology.slices;
  }
  planning.devices = topology.devices;
  options.sweep.devices = {topology.devices};
  MemoryRequest& memory = options.memory;
  if (!memory.hardware && !topology.hardware.empty()) {
    memory.hardware = topology.hardware;
    options.sweep.hardware = {topology.hardware};
  }
  // The topology's memory per device applies only to its own hardware, and only
  // without --memory.
  const bool is_other =
      options.sweep.hardware.size() > 1 || memory.hardware != topology.hardware;
  if (is_other || memory.limit) topology.device_bytes.reset();
}

// The flags of a training step itself.
constexpr std::string_view kOfStep =
    "microbatches hide schedule attention framework optimizer-impl fp8 dropout "
    "no-dropout loss-tiles expert-factor";

// Derives the sequence length and the number of sequences from a workload if
// they are not given.
void settle_workload(Options& options) {
  const auto workload = options.engine.workload();
  if (!workload) return;
  MemoryRequest& memory = options.memory;
  if (!memory.seq) {
    memory.seq = workload->input + workload->output;
    options.sweep.seq = {*memory.seq};
  }
  if (!memory.batch) {
    memory.batch = workload->concurrency;
    options.sweep.batch = {*memory.batch};
  }
}

// Allows findings about rules that nobody gave: an engine shards a model in its
// own way and ignores them, so such findings would be useless.
void allow_for_engine(const Options& options, Diagnostics& diags) {
  const PlanRequest& planning = options.planning;
  if (!options.engine.name || !planning.rules.empty() || planning.saved_plan ||
      planning.pattern != nullptr) {
    return;
  }
  for (const CodeInfo& info : all_codes()) {
    const bool of_rules = info.code >= Code::UnmatchedParameter &&
                          info.code <= Code::ShardingLost;
    if (of_rules && !prevents_running(info.code)) {
      diags.set_severity(info.code, Severity::Off);
    }
  }
}

}  // namespace

std::span<const Flag> flags() {
  static const std::vector<Flag> kAll = all_flags();
  return kAll;
}

const Flag* find_flag(std::string_view name) {
  return find_named(flags(), name);
}

const Setting* find_setting(std::span<const Setting> settings,
                            std::string_view flag) {
  const Setting* found = nullptr;
  for (const Setting& setting : settings) {
    if (setting.flag->name == flag) found = &setting;
  }
  return found;
}

bool is_accepted_by(const Flag& flag, std::string_view command) {
  return has_word(flag.commands, command);
}

bool makes_plan(const Flag& flag) {
  // Flags of every command that reads a model; they do not make a plan.
  constexpr std::string_view kGeneral =
      "architecture scheme lora config isolated deny allow exit-zero "
      "max-memory";
  return flag.group != "Output" && is_accepted_by(flag, "resolve") &&
         is_accepted_by(flag, "sweep") && !has_word(kGeneral, flag.name);
}

bool needs_before(const Flag& flag) {
  constexpr std::string_view kJudged =
      "slices min-size on-indivisible unmatched no-strict declare tolerance "
      "max-replicated";
  return is_accepted_by(flag, "diff") &&
         ((flag.group == "Memory" && flag.name != "mode") ||
          has_word(kJudged, flag.name));
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
    if (has_word(kOfStep, flag.name)) options.workload.given = true;
  }
  settle_topology(settings, options, diags);
  settle_workload(options);
}

void apply_severities(const Options& options, Diagnostics& diags) {
  allow_for_engine(options, diags);
  for (const std::string& text : options.run.deny) {
    if (text == "warnings") {
      diags.deny_warnings();
    } else if (const auto code = find_code(text)) {
      diags.set_severity(*code, Severity::Error);
    }
  }
  for (const std::string& text : options.run.allow) {
    if (const auto code = find_code(text)) {
      diags.set_severity(*code, Severity::Off);
    }
  }
}

std::string join_path(const std::string& directory, const std::string& path) {
  if (directory.empty() || path.starts_with('/')) return path;
  return directory.ends_with('/') ? directory + path : directory + "/" + path;
}

}  // namespace shardplan::cli
