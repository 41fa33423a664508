// SPDX-License-Identifier: Apache-2.0
// `diff --semantics A,B MODEL`.
#include "cli/commands/semantics.h"

#include <array>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/checked.h"
#include "base/text.h"
#include "base/words.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/views/tables.h"
#include "core/fold.h"
#include "report/report.h"
#include "resolve/framework_semantics.h"
#include "resolve/resolve.h"
#include "session/session.h"

namespace shardplan::cli {
namespace {

struct SemanticsSide {
  const FrameworkSemantics* semantics = nullptr;
  ReadOutcomes model;
  Int128 bytes = 0;  // per device, of the placed parameters
  int64_t refused = 0;
  int64_t not_read = 0;

  std::string name() const { return std::string(semantics->name); }
};

struct SemanticsComparison {
  const Manifest& manifest;
  const Plan& verbatim;
  std::array<SemanticsSide, 2> sides;
  std::vector<size_t> disagreements;  // indices of parameters
};

SemanticsSide read_semantics_side(const std::string& name, const Inputs& inputs,
                                  const Plan& verbatim) {
  SemanticsSide side;
  side.semantics = find_framework_semantics(name);
  SHARDPLAN_CHECK(side.semantics != nullptr);
  side.model =
      read_as(*side.semantics, inputs.model.manifest, inputs.rules, verbatim);
  for (const uint32_t outcome : side.model.outcome_of) {
    const ReadOutcome& read = side.model.outcomes[outcome];
    side.bytes += read.bytes_per_device;
    side.refused += read.kind == ReadKind::Refused ? 1 : 0;
    side.not_read += read.kind == ReadKind::NotRead ? 1 : 0;
  }
  return side;
}

// Reports an error if the reading supports none of the rules, so that there is
// nothing to compare.
bool reads_anything(const SemanticsSide& side, const Inputs& inputs,
                    const Plan& verbatim, Diagnostics& diags) {
  int64_t asked = 0;
  size_t first = 0;
  for (size_t i = 0; i < inputs.model.manifest.size(); ++i) {
    if (!verbatim.of(i).requested) continue;
    if (asked++ == 0) first = i;
  }
  if (asked == 0 || side.not_read < asked) return true;
  const std::vector<LogicalRule>& logical = inputs.rules.logical_rules;
  auto report = diags.error(Code::Inexpressible,
                            logical.empty() ? Span() : logical.front().where,
                            "`" + side.name() + "` reads none of these rules");
  report.fact(in_backticks(inputs.model.manifest.name(first)) + ": " +
              side.model.of(first).why.front());
  std::vector<std::string> able;
  for (const FrameworkSemantics& semantics : framework_semantics()) {
    if (logical.empty() ? semantics.semantic_axes : semantics.logical_axes) {
      able.emplace_back(semantics.name);
    }
  }
  report.help("readings that support them: " + quoted_names(able, ", "));
  return false;
}

std::string semantics_kind_name(ReadKind kind) {
  return kind == ReadKind::Placed    ? "placed"
         : kind == ReadKind::Refused ? "refused"
                                     : "not read";
}

// Returns the reasons of both readings: "eformer: dimension 0 stays whole: ..;
// flax: ..".
std::string why_text(const SemanticsComparison& comparison, size_t parameter) {
  std::vector<std::string> parts;
  for (const SemanticsSide& side : comparison.sides) {
    const ReadOutcome& read = side.model.of(parameter);
    if (!read.why.empty()) {
      parts.push_back(side.name() + ": " + joined(read.why, "; "));
    }
  }
  return joined(parts, "; ");
}

// Returns one row per parameter, for programs.
Table disagreements_table(const SemanticsComparison& comparison) {
  Table table = {.id = "disagreements", .audience = Audience::Programs};
  for (const char* id : {"parameter", "dtype", "shape", "rule", "requested",
                         "outcome_a", "spec_a", "bytes_per_device_a",
                         "outcome_b", "spec_b", "bytes_per_device_b", "why"}) {
    table.columns.push_back({id, id});
  }
  table.rows = [&comparison](const RowSink& sink) {
    for (const size_t i : comparison.disagreements) {
      const Placement& placement = comparison.verbatim.of(i);
      Row row = {std::string(comparison.manifest.name(i)),
                 std::string(dtype_name(placement.type.dtype)),
                 Dims{placement.type.shape},
                 placement.rule == 0 ? Cell() : Cell(Count{placement.rule}),
                 placement.requested ? Cell(*placement.requested) : Cell()};
      for (const SemanticsSide& side : comparison.sides) {
        const ReadOutcome& read = side.model.of(i);
        const bool placed = read.kind == ReadKind::Placed;
        row.push_back(semantics_kind_name(read.kind));
        row.push_back(placed ? Cell(read.spec) : Cell());
        row.push_back(placed ? Cell(ByteSize{read.bytes_per_device}) : Cell());
      }
      row.push_back(Prose{why_text(comparison, i)});
      sink(row);
    }
  };
  return table;
}

// Returns equal numbers for parameters that each side reads in the same way.
std::vector<uint32_t> semantics_kinds_of(
    const SemanticsComparison& comparison) {
  std::map<std::array<uint32_t, 3>, uint32_t> numbers;
  std::vector<uint32_t> kinds;
  for (const size_t i : comparison.disagreements) {
    const std::array<uint32_t, 3> key = {
        comparison.verbatim.placement_of[i],
        comparison.sides[0].model.outcome_of[i],
        comparison.sides[1].model.outcome_of[i]};
    const auto next = static_cast<uint32_t>(numbers.size());
    kinds.push_back(numbers.emplace(key, next).first->second);
  }
  return kinds;
}

// Returns "2048 × 256".
std::string shape_words(const Shape& shape) {
  if (shape.empty()) return "scalar";
  return joined_of(shape, " × ",
                   [](int64_t size) { return std::to_string(size); });
}

// Returns a small table below the requested spec, with a line per reading. The
// reasons are long, so parameter names have lines of their own.
Table semantics_table(const SemanticsComparison& comparison, size_t parameter,
                      const std::string& label, int64_t count) {
  const Placement& placement = comparison.verbatim.of(parameter);
  std::vector<Row> rows;
  for (const SemanticsSide& side : comparison.sides) {
    const ReadOutcome& read = side.model.of(parameter);
    const bool placed = read.kind == ReadKind::Placed;
    const auto bytes = static_cast<double>(read.bytes_per_device);
    rows.push_back(
        {side.name(),
         placed ? Cell(read.spec) : Cell(semantics_kind_name(read.kind)),
         placed ? Cell(MeanBytes{bytes * static_cast<double>(count)})
                : Cell(std::string()),
         Prose{joined(read.why, "; ")}});
  }
  return {.id = "folded_disagreements",
          .title = label + (count > 1 ? " ×" + std::to_string(count) : "") +
                   "  " + shape_words(placement.type.shape) + "  " +
                   (placement.requested
                        ? "requested " + spec_text(*placement.requested)
                        : "no rule"),
          .columns = {left("reading"), left("spec"),
                      right("bytes_per_device", "per device"), left("why")},
          .rows = rows_of(std::move(rows)),
          .audience = Audience::People,
          .show_header = false};
}

// Adds one table per class of parameters that are read in the same way, or,
// with `expand`, one per parameter.
void add_semantics_tables(const SemanticsComparison& comparison, bool expand,
                          Report& report) {
  const NameOf name = [&](size_t i) {
    return comparison.manifest.name(comparison.disagreements[i]);
  };
  if (expand) {
    for (size_t i = 0; i < comparison.disagreements.size(); ++i) {
      report.tables.push_back(semantics_table(
          comparison, comparison.disagreements[i], std::string(name(i)), 1));
    }
    return;
  }
  const Folding folding = fold(semantics_kinds_of(comparison), name);
  const std::vector<std::string> labels = class_labels(folding, name);
  for (size_t i = 0; i < labels.size(); ++i) {
    const ParameterClass& group = folding.classes[i];
    report.tables.push_back(
        semantics_table(comparison, comparison.disagreements[group.first],
                        labels[i], group.count));
  }
}

void add_semantics_summary(const SemanticsComparison& comparison,
                           Report& report) {
  const auto total = std::ssize(comparison.manifest);
  const auto disagree = std::ssize(comparison.disagreements);
  report.summary = {{"tensors", Count{total}},
                    {"disagree", Count{disagree}},
                    {"agree", Count{total - disagree}},
                    {"mesh", MeshCell{comparison.verbatim.mesh}}};
  for (size_t i = 0; i < comparison.sides.size(); ++i) {
    const SemanticsSide& side = comparison.sides.at(i);
    const std::string suffix = i == 0 ? "_a" : "_b";
    report.summary.emplace_back("semantics" + suffix, side.name());
    report.summary.emplace_back("bytes_per_device" + suffix,
                                MeanBytes{static_cast<double>(side.bytes)});
    report.summary.emplace_back("refused" + suffix, Count{side.refused});
    report.summary.emplace_back("not_read" + suffix, Count{side.not_read});
  }
}

// Returns "eformer 31.3 MiB per device, 2 refused".
std::string side_text(const SemanticsSide& side, bool exact) {
  const auto bytes = static_cast<double>(side.bytes);
  std::string text =
      side.name() + " " +
      (exact ? std::to_string(static_cast<int64_t>(side.bytes)) + " bytes"
             : bytes_text(bytes)) +
      " per device";
  if (side.refused > 0) text += ", " + count_text(side.refused) + " refused";
  if (side.not_read > 0) text += ", " + count_text(side.not_read) + " not read";
  return text;
}

std::string semantics_last_line(const SemanticsComparison& comparison,
                                bool exact) {
  const auto total = std::ssize(comparison.manifest);
  const auto disagree = std::ssize(comparison.disagreements);
  return count_text(disagree) + " placed differently, " +
         count_text(total - disagree) +
         " the same: " + side_text(comparison.sides[0], exact) + "; " +
         side_text(comparison.sides[1], exact) + ".";
}

Report report_of(const Context& context,
                 const SemanticsComparison& comparison) {
  const Mesh& mesh = comparison.verbatim.mesh;
  Report report;
  add_semantics_summary(comparison, report);
  report.headline = {comparison.manifest.title + ": " +
                     plural(std::ssize(comparison.manifest), "parameter") +
                     "    mesh " + mesh_text(mesh) + " (" +
                     plural(mesh.devices(), "device") + ")"};
  report.tables = {disagreements_table(comparison)};
  add_semantics_tables(comparison, context.options.output.expand, report);
  report.closing = {
      semantics_last_line(comparison, context.options.output.exact)};
  add_topology(context, report);
  return report;
}

}  // namespace

Exit diff_semantics(Context& context) {
  std::optional<Inputs> inputs = read_inputs(
      context.options.planning, context.host, context.diags, context.progress);
  if (!inputs) return Exit::CouldNotRun;
  if (!asked_views(context.options.planning).empty() ||
      !inputs->rules.views.empty()) {
    context.diags
        .error(Code::Usage, {},
               "`--semantics` compares how frameworks read a spec on one mesh, "
               "and none of them supports mesh views")
        .help("leave out `--view` and the rules' `views`");
    return Exit::CouldNotRun;
  }
  const std::optional<Mesh> mesh =
      planned_mesh(context.options.planning, *inputs, context.diags);
  if (!mesh) return Exit::CouldNotRun;
  context.progress.stage("matching rules");
  ResolveOptions how = inputs->how;
  how.strict = false;
  const auto verbatim =
      resolve(inputs->model.manifest, inputs->rules, *mesh, how, context.diags);
  if (!verbatim) return Exit::CouldNotRun;

  const std::vector<std::string>& names = context.options.diff.semantics;
  SemanticsComparison comparison{
      inputs->model.manifest,
      *verbatim,
      {read_semantics_side(names[0], *inputs, *verbatim),
       read_semantics_side(names[1], *inputs, *verbatim)},
      {}};
  bool fine = true;
  for (const SemanticsSide& side : comparison.sides) {
    fine = reads_anything(side, *inputs, *verbatim, context.diags) && fine;
  }
  if (!fine) return Exit::CouldNotRun;
  for (size_t i = 0; i < inputs->model.manifest.size(); ++i) {
    if (!agree(comparison.sides[0].model.of(i),
               comparison.sides[1].model.of(i))) {
      comparison.disagreements.push_back(i);
    }
  }
  return finish(
      context, report_of(context, comparison),
      context.options.diff.exit_code && !comparison.disagreements.empty());
}

}  // namespace shardplan::cli
