// SPDX-License-Identifier: Apache-2.0
#include "cli/views/simulate_report.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/checked.h"
#include "base/text.h"
#include "cli/options.h"
#include "core/fold.h"
#include "findings/program_findings.h"
#include "sim/verdict.h"

namespace shardplan::cli {
namespace {

std::string cause_text(Cause cause) {
  switch (cause) {
    case Cause::PartialSum:
      return "sums parts";
    case Cause::WeightUse:
      return "gathers weights";
    case Cause::Declared:
      return "as declared";
    default:
      return "implicit";
  }
}

// Null where a number is none.
Cell ratio_cell(double number) {
  return std::isfinite(number) ? Cell(Ratio{number}) : Cell();
}

// Collectives of one kind, along the same axes, for the same reason.
struct CollectiveGroup {
  const CollectivePrice* first = nullptr;
  int64_t count = 0;
  int64_t bytes_per_device = 0;
  int64_t bytes = 0;
  std::vector<std::string> at;
};

// Every name once, and what is the same in every layer once:
// `layers.*.mlp.output`.
std::vector<std::string> folded(const std::vector<std::string>& names) {
  std::map<std::string, std::set<std::string>> alike;
  for (const std::string& name : names) alike[folded_name(name)].insert(name);
  std::vector<std::string> result;
  std::set<std::string> reported;
  for (const std::string& name : names) {
    const std::string family = folded_name(name);
    if (!reported.insert(family).second) continue;
    const std::set<std::string>& members = alike[family];
    result.push_back(members.size() > 1 ? family : name);
  }
  return result;
}

std::vector<CollectiveGroup> grouped(const Program& program,
                                     const Simulation& outcome) {
  std::map<std::tuple<CollectiveKind, AxisNames, std::string, Cause>, size_t>
      number;
  std::vector<CollectiveGroup> groups;
  for (const MovedBytes& moved : outcome.collectives) {
    const CollectivePrice& p = moved.priced;
    const auto [entry, is_new] = number.emplace(
        std::tuple(p.kind, p.axes, p.algorithm, p.cause), groups.size());
    if (is_new) groups.push_back({&p, 0, 0, 0, {}});
    CollectiveGroup& group = groups[entry->second];
    ++group.count;
    group.bytes_per_device += moved.bytes_per_device;
    group.bytes += moved.moved;
    const Instruction& by =
        program.instructions[static_cast<size_t>(p.instruction)];
    group.at.push_back(served_value(program, by));
  }
  for (CollectiveGroup& group : groups) group.at = folded(group.at);
  return groups;
}

Table collectives_table(const Program& program, const Simulation& outcome) {
  Table table;
  table.id = "collectives";
  table.columns = {{"kind", "collective"},
                   {"axis", "axis"},
                   {"count", "count", Align::Right},
                   {"algorithm", "algorithm"},
                   {"bytes_per_device", "sent per device", Align::Right},
                   {"cause", "why"},
                   {"at", "for", Align::Left, true}};
  std::vector<Row> rows;
  for (CollectiveGroup& g : grouped(program, outcome)) {
    rows.push_back({std::string(collective_name(g.first->kind)),
                    fmt::format("{}", fmt::join(g.first->axes, ",")),
                    Count{g.count}, g.first->algorithm,
                    ByteSize{g.bytes_per_device}, cause_text(g.first->cause),
                    Names{std::move(g.at)}});
  }
  if (rows.empty()) table.audience = Audience::Programs;
  table.rows = rows_of(std::move(rows));
  return table;
}

Table activations_table(const SimulateInput& input, const Program& program,
                        bool expand) {
  Table table;
  table.id = "activations";
  table.title = "Activations";
  table.columns = {{"value", "value", Align::Left, true},
                   {"shape", "shape"},
                   {"spec", "spec"},
                   {"from", "from", Align::Left, true}};
  table.audience = expand ? Audience::Everyone : Audience::Programs;
  table.rows = [&input, &program](const RowSink& sink) {
    for (size_t v = 0; v < input.graph.values.size(); ++v) {
      const Value& value = input.graph.values[v];
      if (value.kind == Value::Kind::Parameter) continue;
      std::string from = input.placed.from[v];
      if (from.empty()) from = "partitioner";
      const Layout& layout = program.layouts[v];
      if (!layout.partial.empty()) {
        from += fmt::format(", parts of a sum over {}",
                            fmt::join(layout.partial, ","));
      }
      sink(Row{value.name, Dims{value.shape}, layout.spec, std::move(from)});
    }
  };
  return table;
}

using Summary = std::vector<std::pair<std::string, Cell>>;

std::string source_text(ValueSource source) {
  const char* const names[] = {"random", "init", "field", "checkpoint"};
  return names[static_cast<size_t>(source)];
}

// What a whole model, or low precision, adds to the summary.
void append_model(const SimulateInput& input, Summary& summary) {
  summary.emplace_back("dtype", std::string(storage_name(input.storage)));
  summary.emplace_back("reduce_dtype", std::string(storage_name(input.reduce)));
  if (!input.model) return;
  const ModelRun& run = *input.model;
  summary.emplace_back("family", run.family);
  summary.emplace_back("layers",
                       Count{run.only_layers.value_or(run.all_layers)});
  summary.emplace_back("of_layers", Count{run.all_layers});
  summary.emplace_back("batch", Count{run.batch});
  summary.emplace_back("length", Count{run.length});
  summary.emplace_back("shrunk", YesNo{run.shrunk});
}

// "2 of 22 layers, 2 x 16 tokens"
std::string run_text(const ModelRun& run) {
  std::string text;
  if (run.only_layers && run.all_layers > *run.only_layers) {
    text = fmt::format("{} of {} layers, ", *run.only_layers, run.all_layers);
  } else if (run.all_layers > 0) {
    text = plural(run.all_layers, "layer") + ", ";
  }
  text += fmt::format("{} x {} tokens", run.batch, run.length);
  return run.shrunk ? text + ", made smaller" : text;
}

std::string verdict_name(Verdict verdict) {
  const char* const names[] = {"ok", "mismatch", "inconclusive"};
  return names[static_cast<size_t>(verdict)];
}

// In double precision, else in the one that the run works in.
const std::optional<NonFinite>& first_non_finite(const Simulation& outcome) {
  if (outcome.non_finite) return outcome.non_finite;
  return outcome.overflow ? outcome.overflow : outcome.sharded_overflow;
}

Summary simulation_summary(const SimulateInput& input,
                           const Simulation& outcome,
                           const SimulateRequest& flags) {
  int64_t implicit = 0;
  for (const MovedBytes& moved : outcome.collectives) {
    implicit += moved.priced.cause == Cause::Implicit;
  }
  const bool exact = input.source == ValueSource::Field;
  std::vector<std::pair<std::string, Cell>> summary = {
      {"graph", input.graph.name},
      {"devices", Count{input.session.plan.mesh.devices()}},
      {"mesh", MeshCell{input.session.plan.mesh}},
      {"verdict", verdict_name(verdict_of(outcome))},
      {"structural_error", ratio_cell(outcome.structural_error)},
      {"error_amplification",
       exact ? Cell() : ratio_cell(outcome.error_amplification)},
      {"bound_ratio",
       outcome.bound_ratio ? ratio_cell(*outcome.bound_ratio) : Cell()},
      {"decision_flips", Count{outcome.decision_flips}},
      {"flops", Count{outcome.flops}},
      {"unsharded_flops", Count{outcome.unsharded_flops}},
      {"bytes_moved", ByteSize{outcome.bytes_moved}},
      {"bytes_priced", ByteSize{outcome.bytes_priced}},
      {"implicit_reshards", Count{implicit}},
      {"values", source_text(input.source)},
      {"seed", Count{flags.seed}}};
  append_model(input, summary);
  if (outcome.mismatch) {
    const auto v = static_cast<size_t>(outcome.mismatch->value);
    summary.emplace_back("first_mismatch", input.graph.values[v].name);
    summary.emplace_back("first_mismatch_device",
                         Count{outcome.mismatch->device});
  }
  if (const auto& found = first_non_finite(outcome)) {
    const auto v = static_cast<size_t>(found->value);
    summary.emplace_back("first_non_finite", input.graph.values[v].name);
  }
  return summary;
}

std::string verdict_line(const SimulateInput& input,
                         const Simulation& outcome) {
  if (outcome.mismatch) {
    return "mismatch: the sharded run computes something else";
  }
  if (outcome.non_finite) {
    return "inconclusive: the unsharded run itself is not finite";
  }
  if (!outcome.unseen.empty()) {
    return "inconclusive: they agree, and these values could not have shown "
           "a fault";
  }
  if (input.source == ValueSource::Field) {
    return "ok: bitwise equal, the whole graph and every operation by itself";
  }
  // Rounding differs between processors, and so would more digits.
  const double digits =
      std::min(12.0, std::floor(-std::log10(outcome.structural_error)));
  const bool overflows = outcome.overflow || outcome.sharded_overflow;
  return fmt::format("ok: sharded and unsharded agree to {:.0f} digits{}",
                     digits, overflows ? " in double precision" : "");
}

// "float32", "bf16, sums in float32"
std::string dtype_text(const SimulateInput& input) {
  const auto name = [](Storage storage) {
    return storage == Storage::F32 ? std::string("float32")
                                   : std::string(storage_name(storage));
  };
  return input.reduce == input.storage
             ? name(input.storage)
             : name(input.storage) + ", sums in " + name(input.reduce);
}

std::string precision_line(const Simulation& outcome,
                           const SimulateInput& input) {
  std::string line = dtype_text(input) + ": ";
  if (std::isnan(outcome.error_amplification)) {
    line += "not finite, so without an error";
  } else if (outcome.error_amplification == 1) {
    line += "as exact as the unsharded run";
  } else if (std::isfinite(outcome.error_amplification)) {
    line += fmt::format("error {:.3g} times the unsharded run's",
                        outcome.error_amplification);
  } else {
    line += "inexact where the unsharded run is exact";
  }
  if (outcome.bound_ratio) {
    line += fmt::format("; {:.2g} of the rounding bound", *outcome.bound_ratio);
  }
  return line;
}

// How errors grow: for people where precision is what they ask about.
void append_precision(const SimulateInput& input, std::span<const Variant> runs,
                      const SimulateRequest& flags, bool expand,
                      Report& report) {
  const bool asked =
      flags.storage || flags.reduce || flags.plot || runs.size() > 1;
  std::vector<Table> tables =
      error_tables(input.graph, runs.front().outcome, expand);
  if (runs.size() > 1) {
    for (Table& table : precision_tables(runs)) {
      tables.push_back(std::move(table));
    }
  }
  for (Table& table : tables) {
    if (asked || table.audience == Audience::Programs) {
      report.tables.push_back(std::move(table));
    }
  }
  if (!asked) return;
  std::string line = precision_line(input.graph, runs);
  if (!line.empty()) report.notes.push_back(std::move(line));
}

// What was recorded against what was computed.
void append_expected(const SimulateInput& input,
                     std::span<const ExpectedError> expected, Report& report) {
  Table table;
  table.id = "expected";
  table.columns = {{"value", "value"},
                   {"unsharded", "unsharded", Align::Right},
                   {"sharded", "sharded", Align::Right}};
  table.audience = Audience::Programs;
  std::vector<Row> rows;
  for (const ExpectedError& error : expected) {
    const std::string& name =
        input.graph.values[static_cast<size_t>(error.value)].name;
    rows.push_back(
        {name, ratio_cell(error.unsharded), ratio_cell(error.sharded)});
    const std::string& file = input.expected->path;
    if (!std::isfinite(error.unsharded) || !std::isfinite(error.sharded)) {
      report.notes.push_back(
          fmt::format("`{}` cannot be compared with `{}`: it is not finite, or "
                      "zero, in one "
                      "of them",
                      name, file));
      continue;
    }
    report.notes.push_back(fmt::format(
        "`{}` is within {} of `{}`", name,
        error.agrees()
            ? std::string("1e-5")
            : fmt::format("{:.2g}", std::max(error.unsharded, error.sharded)),
        file));
  }
  table.rows = rows_of(std::move(rows));
  report.tables.push_back(std::move(table));
}

std::string work_line(const Simulation& outcome) {
  std::string line = "per device " + count_text(outcome.flops) + " FLOP of " +
                     count_text(outcome.unsharded_flops);
  if (outcome.unsharded_flops == 0) return line;
  return line + " (" +
         percent_text(static_cast<double>(outcome.flops) /
                      static_cast<double>(outcome.unsharded_flops)) +
         ")";
}

std::string traffic_line(const Simulation& outcome, bool exact) {
  const auto size = [&](int64_t bytes) {
    return exact ? count_text(bytes) + " bytes"
                 : bytes_text(static_cast<double>(bytes));
  };
  SHARDPLAN_CHECK(outcome.bytes_moved == outcome.bytes_priced);
  return "all devices together send " + size(outcome.bytes_moved) +
         ", as priced";
}

}  // namespace

Report simulate_report(const Context& context, const SimulateInput& input,
                       const Program& program, std::span<const Variant> runs,
                       std::span<const ExpectedError> expected) {
  const Simulation& outcome = runs.front().outcome;
  const Mesh& mesh = input.session.plan.mesh;
  const Options& options = context.options;
  Report report;
  report.command = "simulate";
  report.diagnostics = &context.diags;
  const SimulateRequest& flags = options.simulate;
  report.summary = simulation_summary(input, outcome, flags);
  report.summary.emplace_back("errors",
                              Count{context.diags.count(Severity::Error)});
  report.summary.emplace_back("warnings",
                              Count{context.diags.count(Severity::Warning)});
  const std::string values =
      input.source == ValueSource::Checkpoint
          ? "the checkpoint's weights"
          : fmt::format("{} values, seed {}", source_text(input.source),
                        flags.seed);
  std::string headline =
      fmt::format("`{}` on {}    mesh {}", input.graph.name,
                  plural(mesh.devices(), "simulated device"), mesh_text(mesh));
  if (input.model) {
    report.headline = {std::move(headline),
                       run_text(*input.model) + "; " + values};
  } else {
    report.headline = {std::move(headline) + "; " + values};
  }
  report.tables = {collectives_table(program, outcome),
                   activations_table(input, program, options.output.expand)};
  append_precision(input, runs, flags, options.output.expand, report);
  report.notes.push_back(work_line(outcome));
  report.notes.push_back(outcome.collectives.empty()
                             ? "no device needs anything of another"
                             : traffic_line(outcome, options.output.exact));
  if (input.source != ValueSource::Field) {
    report.notes.push_back(precision_line(outcome, input));
  }
  if (!expected.empty()) append_expected(input, expected, report);
  report.notes.push_back(verdict_line(input, outcome));
  return report;
}

}  // namespace shardplan::cli
