// SPDX-License-Identifier: Apache-2.0

#include "cli/views/simulate_report.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "base/checked.h"
#include "base/text.h"
#include "base/words.h"
#include "cli/options.h"
#include "cli/views/columns.h"
#include "cli/views/tables.h"
#include "core/fold.h"
#include "findings/program_findings.h"
#include "sim/verdict.h"

namespace shardplan::cli {
namespace {

std::string cause_text(Cause cause) {
  switch (cause) {
    case Cause::PartialSum:
      return "reduces partial sums";
    case Cause::WeightUse:
      return "gathers weights";
    case Cause::Experts:
      return "exchanges tokens";
    case Cause::Declared:
      return "as declared";
    default:
      return "implicit";
  }
}

// Collectives of one kind, along the same axes, for the same reason.
struct CollectiveGroup {
  const CollectivePrice* first = nullptr;
  int64_t count = 0;
  int64_t bytes_per_device = 0;
  std::vector<std::string> at = {};
};

// Returns every name once; names that differ only in the layer are folded:
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
    if (is_new) groups.push_back({.first = &p});
    CollectiveGroup& group = groups[entry->second];
    ++group.count;
    group.bytes_per_device += moved.bytes_per_device;
    const Instruction& by = program.instructions[p.instruction];
    group.at.push_back(served_value(program, by));
  }
  for (CollectiveGroup& group : groups) group.at = folded(group.at);
  return groups;
}

Table collectives_table(const Program& program, const Simulation& outcome) {
  const std::vector<CollectiveGroup> groups = grouped(program, outcome);
  return table_of(
      "collectives", "", groups,
      {{left("kind", "collective"),
        [](auto& g) { return text_cell(collective_name(g.first->kind)); }},
       {left("axis"),
        [](auto& g) {
          return fmt::format("{}", fmt::join(g.first->axes, ","));
        }},
       {right("count"), [](auto& g) { return Count{g.count}; }},
       {left("algorithm"), [](auto& g) { return g.first->algorithm; }},
       {right("bytes_per_device", "sent per device"),
        [](auto& g) { return ByteSize{g.bytes_per_device}; }},
       {left("cause", "why"),
        [](auto& g) { return cause_text(g.first->cause); }},
       {elastic("at", "for"), [](auto& g) { return Names{g.at}; }}},
      groups.empty() ? Audience::Programs : Audience::Everyone);
}

Table activations_table(const SimulateInput& input, const Program& program,
                        bool expand) {
  return {"activations",
          "Activations",
          {elastic("value"), left("shape"), left("spec"), elastic("from")},
          [&input, &program](const RowSink& sink) {
            for (const ValueId v : input.graph.values.ids()) {
              const Value& value = input.graph.values[v];
              if (value.kind == Value::Kind::Parameter) continue;
              std::string from = input.placed.from[v];
              if (from.empty()) from = "partitioner";
              const Layout layout =
                  reported_layout(program, program.layouts[v], v);
              if (!layout.partial.empty()) {
                from += fmt::format(", partial sums over {}",
                                    fmt::join(layout.partial, ","));
              }
              sink(Row{value.name, Dims{value.shape}, layout.spec,
                       std::move(from)});
            }
          },
          expand ? Audience::Everyone : Audience::Programs};
}

using Summary = std::vector<std::pair<std::string, Cell>>;

std::string source_text(ValueSource source) {
  constexpr const char* kNames[] = {"random", "init", "field", "checkpoint"};
  return nth(kNames, source);
}

// Adds the entries of a whole model or of low precision to the summary.
void append_model(const SimulateInput& input, Summary& summary) {
  summary.emplace_back("dtype", std::string(storage_name(input.storage)));
  summary.emplace_back("reduce_dtype", std::string(storage_name(input.reduce)));
  if (!input.model) return;
  const RunSummary& run = *input.model;
  summary.emplace_back("family", run.family);
  summary.emplace_back("layers",
                       Count{run.only_layers.value_or(run.all_layers)});
  summary.emplace_back("of_layers", Count{run.all_layers});
  summary.emplace_back("batch", Count{run.batch});
  if (run.length > 0) summary.emplace_back("length", Count{run.length});
  if (run.target_length > 0) {
    summary.emplace_back("target_length", Count{run.target_length});
  }
  summary.emplace_back("shrunk", YesNo{run.shrunk});
}

// Returns "2 of 22 layers, 2 x 16 tokens".
std::string run_text(const RunSummary& run) {
  std::string text;
  if (run.only_layers && run.all_layers > *run.only_layers) {
    text = fmt::format("{} of {} layers, ", *run.only_layers, run.all_layers);
  } else if (run.all_layers > 0) {
    text = plural(run.all_layers, "layer") + ", ";
  }
  if (run.length == 0) {
    text += fmt::format("a batch of {}", run.batch);
  } else if (run.target_length == 0) {
    text += fmt::format("{} x {} tokens", run.batch, run.length);
  } else {
    text += fmt::format("{} x {} and {} tokens", run.batch, run.length,
                        run.target_length);
  }
  return run.shrunk ? text + ", shrunk" : text;
}

std::string verdict_name(Verdict verdict) {
  constexpr const char* kNames[] = {"ok", "mismatch", "inconclusive"};
  return nth(kNames, verdict);
}

// Returns the first non-finite value in double precision, else in the dtype of
// the run.
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
  Summary summary = {
      {"graph", input.graph.name},
      {"devices", Count{input.session.plan.mesh.devices()}},
      {"mesh", MeshCell{input.session.plan.mesh}},
      {"verdict", verdict_name(verdict_of(outcome))},
      {"run_as", std::string(outcome.hooked && outcome.hooked->unknown.empty()
                                 ? "hooks"
                                 : "compiler")},
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
    summary.emplace_back("first_mismatch",
                         input.graph.values[outcome.mismatch->value].name);
    summary.emplace_back("first_mismatch_device",
                         Count{outcome.mismatch->device});
  }
  if (const auto& found = first_non_finite(outcome)) {
    summary.emplace_back("first_non_finite",
                         input.graph.values[found->value].name);
  }
  return summary;
}

bool has(const Simulation& outcome, Unseen::Kind kind) {
  return std::ranges::any_of(
      outcome.unseen, [&](const Unseen& each) { return each.kind == kind; });
}

// Returns "float32", "bf16, sums in float32".
std::string dtype_text(const SimulateInput& input) {
  const auto name = [](Storage storage) {
    return storage == Storage::F32 ? std::string("float32")
                                   : std::string(storage_name(storage));
  };
  return input.reduce == input.storage
             ? name(input.storage)
             : name(input.storage) + ", sums in " + name(input.reduce);
}

// Returns the rounding error of the sharded run, in the dtype of the run.
std::string rounding_line(const Simulation& outcome,
                          const SimulateInput& input) {
  std::string line = dtype_text(input) + ": ";
  if (std::isnan(outcome.error_amplification)) {
    line += "not finite, so no error is defined";
  } else if (outcome.error_amplification == 1) {
    line += "as exact as the unsharded run";
  } else if (std::isfinite(outcome.error_amplification)) {
    line += fmt::format("rounding error {:.3g}x that of the unsharded run",
                        outcome.error_amplification);
  } else {
    line += "inexact where the unsharded run is exact";
  }
  if (outcome.bound_ratio) {
    line += fmt::format("; {:.2g} of the rounding bound", *outcome.bound_ratio);
  }
  return line;
}

// Appends how errors grow; people see it only if they asked about precision.
void append_precision(const SimulateInput& input, std::span<const Variant> runs,
                      const SimulateRequest& flags, bool plots, bool expand,
                      Report& report) {
  const bool asked = flags.storage || flags.reduce || plots || runs.size() > 1;
  std::vector<Table> tables =
      error_tables(input.graph, runs.front().outcome, expand);
  if (runs.size() > 1) {
    std::ranges::move(precision_tables(runs), std::back_inserter(tables));
  }
  for (Table& table : tables) {
    if (asked || table.audience == Audience::Programs) {
      report.tables.push_back(std::move(table));
    }
  }
  if (!asked) return;
  std::string line = precision_line(input.graph, runs);
  if (!line.empty()) report.closing.push_back(std::move(line));
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
    return exact ? count_text(bytes) + " bytes" : bytes_text(bytes);
  };
  SHARDPLAN_CHECK(outcome.bytes_moved == outcome.bytes_priced);
  return "all devices together send " + size(outcome.bytes_moved) +
         ", as predicted";
}

// Rows for people; the plot shows every point.
constexpr size_t kMaxRows = 12;

// Formats three significant digits of any number: a table of ratios would show
// 0.001 for a small one.
std::string number_text(double number) {
  if (std::isnan(number)) return "not finite";
  return std::isfinite(number) ? fmt::format("{:.3g}", number) : "infinite";
}

Cell number_cell(double number, bool for_people) {
  return for_people ? Cell(number_text(number)) : ratio_cell(number);
}

// Follows error_amplification(): 0/0 is 1.
double amplification_of(const ProbeError& probe) {
  return probe.sharded == probe.unsharded ? 1 : probe.sharded / probe.unsharded;
}

// Returns the error; a value that is not finite counts as the largest error.
double error_of(const ProbeError& probe) {
  return std::isnan(probe.sharded) ? HUGE_VAL : probe.sharded;
}

const std::string& name_of(const Graph& graph, const ProbeError& probe) {
  return graph.values[probe.value].name;
}

const ProbeError* last_probe(const Variant& variant) {
  const auto& probes = variant.outcome.probes;
  return probes.empty() ? nullptr : &probes.back();
}

// Returns the error that a layer adds to the sharded run, on average.
std::optional<double> growth_of(const Simulation& outcome) {
  const auto& probes = outcome.probes;
  if (probes.size() < 2) return std::nullopt;
  return (probes.back().sharded - probes.front().sharded) /
         static_cast<double>(probes.size() - 1);
}

// Returns about `kMaxRows` probes, evenly spaced, including the first and the
// last.
std::vector<ProbeError> chosen_probes(const std::vector<ProbeError>& probes,
                                      bool all) {
  if (all || probes.size() <= kMaxRows) return probes;
  std::vector<ProbeError> chosen;
  for (size_t i = 0; i < kMaxRows; ++i) {
    chosen.push_back(probes[i * (probes.size() - 1) / (kMaxRows - 1)]);
  }
  return chosen;
}

Table errors_table(const Graph& graph, const Simulation& outcome,
                   bool for_people, bool expand) {
  const auto cell = [=](double number) {
    return number_cell(number, for_people);
  };
  return table_of(
      "error_by_layer", "Error by layer",
      chosen_probes(outcome.probes, expand || !for_people),
      {{elastic("value"), [&](auto& probe) { return name_of(graph, probe); }},
       {right("unsharded"), [=](auto& probe) { return cell(probe.unsharded); }},
       {right("sharded"), [=](auto& probe) { return cell(probe.sharded); }},
       {right("amplification", "ratio"),
        [=](auto& probe) { return cell(amplification_of(probe)); }}},
      audience_of(for_people));
}

Table variants_table(std::span<const Variant> variants, bool for_people) {
  // The cell for the last probe; empty without probes.
  const auto of_last = [=](auto number) {
    return [=](const Variant& variant) {
      const ProbeError* last = last_probe(variant);
      return last == nullptr
                 ? Cell()
                 : number_cell(std::invoke(number, *last), for_people);
    };
  };
  return table_of("precision", "Precision at the last layer", variants,
                  {{left("mesh"), [](auto& v) { return MeshCell{v.mesh}; }},
                   {left("algorithm"), &Variant::algorithm},
                   {left("dtype"),
                    [](auto& v) { return text_cell(storage_name(v.storage)); }},
                   {left("reduce_dtype"),
                    [](auto& v) { return text_cell(storage_name(v.reduce)); }},
                   {right("unsharded"), of_last(&ProbeError::unsharded)},
                   {right("sharded"), of_last(&ProbeError::sharded)},
                   {right("amplification", "ratio"), of_last(amplification_of)},
                   {right("growth_per_layer", "per layer"),
                    [=](auto& v) {
                      const std::optional<double> growth = growth_of(v.outcome);
                      return growth ? number_cell(*growth, for_people) : Cell();
                    }}},
                  audience_of(for_people));
}

template <typename Part>
bool differ(std::span<const Variant> variants, const Part& part) {
  return std::ranges::any_of(variants, [&](const Variant& v) {
    return std::invoke(part, v) != std::invoke(part, variants[0]);
  });
}

// Returns what distinguishes a variant from the others: "tp=16, ring, summed in
// bf16".
std::string variant_name(std::span<const Variant> variants,
                         const Variant& variant) {
  const auto mesh = [](const Variant& v) { return mesh_text(v.mesh); };
  std::vector<std::string> parts;
  const auto add_if_varied = [&](auto part, std::string text) {
    if (differ(variants, part)) parts.push_back(std::move(text));
  };
  add_if_varied(mesh, mesh(variant));
  add_if_varied(&Variant::algorithm, variant.algorithm);
  add_if_varied(&Variant::storage,
                fmt::format("stored in {}", storage_name(variant.storage)));
  add_if_varied(&Variant::reduce,
                fmt::format("summed in {}", storage_name(variant.reduce)));
  return parts.empty() ? "sharded" : joined(parts, ", ");
}

// Returns the names without the words that all of them begin and end with:
// `layers/9/out` and `layers/10/out` become 9 and 10.
std::vector<std::string> short_names(const std::vector<std::string>& names) {
  if (names.size() < 2) return names;
  std::string_view prefix = names[0];
  std::string_view suffix = names[0];
  for (const std::string& name : names) {
    const auto ahead =
        std::mismatch(prefix.begin(), prefix.end(), name.begin(), name.end());
    prefix = std::string_view(prefix.begin(), ahead.first);
    const auto behind = std::mismatch(suffix.rbegin(), suffix.rend(),
                                      name.rbegin(), name.rend());
    suffix = std::string_view(behind.first.base(), suffix.end());
  }
  // Only whole words are removed.
  const auto joins = [](char c) { return c == '.' || c == '/' || c == '_'; };
  while (!prefix.empty() && !joins(prefix.back())) prefix.remove_suffix(1);
  while (!suffix.empty() && !joins(suffix.front())) suffix.remove_prefix(1);
  std::vector<std::string> result;
  for (const std::string& name : names) {
    // Two names are equal, or one is the beginning or end of another.
    if (name.size() <= prefix.size() + suffix.size()) return names;
    result.push_back(name.substr(prefix.size(),
                                 name.size() - prefix.size() - suffix.size()));
  }
  return result;
}

PlotSeries series_of(std::string name, const Simulation& outcome,
                     double ProbeError::*which) {
  PlotSeries series{std::move(name), {}};
  for (const ProbeError& probe : outcome.probes) {
    series.points.push_back(probe.*which);
  }
  return series;
}

}  // namespace

std::vector<Table> error_tables(const Graph& graph, const Simulation& outcome,
                                bool expand) {
  if (outcome.probes.empty()) return {};
  return {errors_table(graph, outcome, true, expand),
          errors_table(graph, outcome, false, expand)};
}

std::vector<Table> precision_tables(std::span<const Variant> variants) {
  if (std::ranges::none_of(variants, last_probe)) return {};
  return {variants_table(variants, true), variants_table(variants, false)};
}

std::string precision_line(const Graph& graph,
                           std::span<const Variant> variants) {
  std::vector<const Variant*> probed;
  for (const Variant& variant : variants) {
    if (last_probe(variant) != nullptr) probed.push_back(&variant);
  }
  if (probed.empty()) return "";
  const auto error = [](const Variant* v) { return error_of(*last_probe(*v)); };
  const Variant* least = *std::ranges::min_element(probed, {}, error);
  const Variant* most = *std::ranges::max_element(probed, {}, error);
  const ProbeError& last = *last_probe(*most);
  const auto text = [&](const Variant& variant) {
    const ProbeError& probe = *last_probe(variant);
    if (std::isnan(probe.sharded)) return number_text(probe.sharded);
    return fmt::format("{} ({} times)", number_text(probe.sharded),
                       number_text(amplification_of(probe)));
  };
  std::string line = fmt::format("error at `{}`: {} unsharded, {} sharded",
                                 name_of(graph, last),
                                 number_text(last.unsharded), text(*most));
  if (most == least) return line;
  return line + fmt::format(" with {}; lowest {} with {}",
                            variant_name(variants, *most), text(*least),
                            variant_name(variants, *least));
}

Plot error_plot(const Graph& graph, std::span<const Variant> variants) {
  Plot plot;
  plot.title = "Error by layer of " + graph.name;
  const Variant& first = variants[0];
  plot.subtitle =
      fmt::format("mesh {}, {}, sums in {}", mesh_text(first.mesh),
                  storage_name(first.storage), storage_name(first.reduce));
  if (variants.size() > 1) plot.subtitle += " unless a line says otherwise";
  plot.y_title = "relative error";
  std::vector<std::string> names;
  for (const ProbeError& probe : variants[0].outcome.probes) {
    names.push_back(name_of(graph, probe));
  }
  plot.x_labels = short_names(names);
  const bool numbered =
      std::ranges::all_of(plot.x_labels, [](const std::string& label) {
        return label.find_first_not_of("0123456789") == std::string::npos;
      });
  plot.x_title = numbered ? "layer" : "value";
  std::vector<Storage> seen;
  for (const Variant& variant : variants) {
    if (contains(seen, variant.storage)) continue;
    seen.push_back(variant.storage);
    std::string name = "unsharded";
    if (differ(variants, &Variant::storage)) {
      name += fmt::format(", stored in {}", storage_name(variant.storage));
    }
    plot.series.push_back(
        series_of(std::move(name), variant.outcome, &ProbeError::unsharded));
  }
  for (const Variant& variant : variants) {
    plot.series.push_back(series_of(variant_name(variants, variant),
                                    variant.outcome, &ProbeError::sharded));
  }
  return plot;
}

std::string verdict_line(const SimulateInput& input,
                         const Simulation& outcome) {
  if (outcome.mismatch) {
    return "mismatch: the sharded run computes a different result";
  }
  if (outcome.hooked && outcome.hooked->fault) {
    return "mismatch: run with hooks, the plan computes a different result";
  }
  if (outcome.non_finite) {
    return "inconclusive: the unsharded run itself is not finite";
  }
  if (has(outcome, Unseen::Kind::NotAsHooks)) {
    return "inconclusive: partitioned as by a compiler, not as the hooks run";
  }
  if (has(outcome, Unseen::Kind::PastBound)) {
    return "inconclusive: they agree in double precision, but rounding does "
           "not explain the error in the working precision";
  }
  if (!outcome.unseen.empty()) {
    return "inconclusive: they agree, but this run's values could not have "
           "exposed a fault";
  }
  if (input.source == ValueSource::Field) {
    return "ok: bitwise equal, for the whole graph and for every operation "
           "alone";
  }
  // More than 12 digits would differ between processors, as their rounding
  // does.
  const double digits =
      std::min(12.0, std::floor(-std::log10(outcome.structural_error)));
  const bool overflows = outcome.overflow || outcome.sharded_overflow;
  return fmt::format("ok: sharded and unsharded agree to {:.0f} digits{}",
                     digits, overflows ? " in double precision" : "");
}

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
    if (input.model->shrunk_by_default) {
      report.notes.emplace_back(
          "sizes are reduced but divide like the real ones; `--full` runs the "
          "real sizes");
    }
  } else {
    report.headline = {std::move(headline) + "; " + values};
  }
  report.tables = {collectives_table(program, outcome),
                   activations_table(input, program, options.output.expand)};
  if (!input.given.empty()) append_given(input, report);
  append_precision(input, runs, flags, !options.plots.empty(),
                   options.output.expand, report);
  report.closing.push_back(work_line(outcome));
  report.closing.push_back(outcome.collectives.empty()
                               ? "no communication"
                               : traffic_line(outcome, options.output.exact));
  if (input.source != ValueSource::Field) {
    report.closing.push_back(rounding_line(outcome, input));
  }
  if (!expected.empty()) append_expected(input, expected, report);
  report.closing.push_back(verdict_line(input, outcome));
  if (const int64_t errors = context.diags.count(Severity::Error);
      errors > 0 && report.closing.back().starts_with("ok")) {
    report.closing.back() +=
        fmt::format("; exit 1: the plan has {}", plural(errors, "error"));
  }
  add_topology(context, report);
  return report;
}

}  // namespace shardplan::cli
