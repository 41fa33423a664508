// SPDX-License-Identifier: Apache-2.0
#include "cli/views/parameter_report.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "base/checked.h"
#include "base/text.h"
#include "base/words.h"
#include "cli/options.h"
#include "cli/views/columns.h"
#include "cli/views/tables.h"
#include "core/plan.h"
#include "core/rules.h"
#include "gate/changes.h"
#include "report/figures/shard_map.h"
#include "resolve/match.h"

namespace shardplan::cli {
namespace {

// Returns the parameters in whose names a pattern is found; none if the text is
// not a valid pattern.
std::vector<size_t> found_in(const Manifest& manifest,
                             const std::string& pattern) {
  RuleSet rules;
  rules.rules.emplace_back().pattern = pattern;
  Diagnostics ignored;  // a name need not be a valid pattern
  const auto matcher =
      Matcher::compile(rules, manifest.names_are_plain(), ignored);
  std::vector<size_t> parameters;
  if (!matcher) return parameters;
  std::vector<int> found;
  for (size_t i = 0; i < manifest.size(); ++i) {
    matcher->find_one_by_one(manifest.name(i), found);
    if (!found.empty()) parameters.push_back(i);
  }
  return parameters;
}

AxisNames axes_of_dim(const PartitionSpec& spec, size_t dim) {
  return dim < spec.dims.size() ? spec.dims[dim] : AxisNames();
}

// Returns the axes larger than 1 that no dimension names; all devices along
// them store the same slice.
AxisNames repeating_axes(const Mesh& mesh, const Placement& placement) {
  AxisNames axes;
  const AxisNames named = axes_in(placement.spec);
  for (const Axis& axis : mesh.axes_of(placement.view)) {
    const bool used = contains(named, axis.name) ||
                      (placement.dealt && placement.dealt->axis == axis.name);
    if (axis.size > 1 && !used) axes.push_back(axis.name);
  }
  return axes;
}

Table dimensions_table(const Placement& p, const Mesh& mesh,
                       OnIndivisible policy) {
  const Shape shape = stored_shape(p);
  std::vector<Row> rows;
  for (size_t dim = 0; dim < shape.size(); ++dim) {
    const AxisNames axes = axes_of_dim(p.spec, dim);
    const int64_t shards = shard_count(mesh, axes);
    int64_t stored = 0;  // over all shards
    for (const ShardSize& s :
         shard_sizes(mesh, axes, cut_of(policy), shape[dim])) {
      stored += s.rows * s.count;
    }
    rows.push_back({Count{static_cast<int64_t>(dim)}, Count{shape[dim]},
                    Names{texts_of(axes)}, Count{shards},
                    Count{p.local_shape[dim]}, Count{stored - shape[dim]}});
  }
  return {
      "dimensions",
      "",
      {right("dim", "dimension"), right("size"), left("axes"), right("shards"),
       right("local_size", "rows per shard"), right("padding")},
      rows_of(std::move(rows))};
}

// Returns the coordinates along the axes of the placement's view.
std::vector<int64_t> coordinates_in_view(const Placement& p, const Mesh& mesh,
                                         int64_t device) {
  std::vector<int64_t> result;
  const std::vector<int64_t> all = mesh.coordinates(device);
  for (const Axis& axis : mesh.axes_of(p.view)) {
    result.push_back(all[*mesh.find(axis.name)]);
  }
  return result;
}

// `rank`: the parameter's rank if it is placed whole on one rank of an axis.
Table shards_table(const Placement& p, const Mesh& mesh, OnIndivisible policy,
                   int64_t rank) {
  return {
      "shards",
      "",
      {left("device"), left("coordinates"), left("begin"), left("end"),
       left("padding")},
      [&p, &mesh, policy, rank](const RowSink& sink) {
        for (int64_t device = 0; device < mesh.devices(); ++device) {
          if (!is_held(p, mesh, rank, device)) continue;
          HeldSlice held = held_slice(p, mesh, policy, device);
          Numbers begin;
          Numbers end;
          for (const Slice& slice : held.slices) {
            begin.values.push_back(slice.begin);
            end.values.push_back(slice.end);
          }
          sink(Row{Count{device}, Numbers{coordinates_in_view(p, mesh, device)},
                   begin, end, Numbers{std::move(held.padding)}});
        }
      },
      Audience::Programs};
}

// Returns which dimensions are the rows and columns of the drawing.
std::string drawn_text(const DeviceSlices& map) {
  const DrawnDims dims = drawn_dims(map);
  if (dims.column < 0) return "a scalar has one box";
  std::string text = "columns are dimension " + std::to_string(dims.column);
  if (dims.row >= 0) {
    text = "rows are dimension " + std::to_string(dims.row) + ", " + text;
  }
  return text;
}

std::vector<std::string> notes_of_parameter(const Placement& p,
                                            const Plan& plan, int64_t rank) {
  std::vector<std::string> notes;
  if (p.dealt && p.dealt->size > 1) {
    notes.push_back("stored whole on rank " + std::to_string(rank) + " of " +
                    std::to_string(p.dealt->size) + " along " + p.dealt->axis);
  }
  const AxisNames repeating = repeating_axes(plan.mesh, p);
  if (!repeating.empty()) {
    const std::string axes = joined(texts_of(repeating), ", ");
    notes.push_back("every shard is on " + plural(p.replicas, "device") +
                    ", along " + axes);
  }
  for (const StoredDim& stored : p.stored_dims) {
    notes.push_back("dimension " + std::to_string(stored.dim) +
                    " is stored as " + std::to_string(stored.size) +
                    " rows: " + stored.why);
  }
  return notes;
}

// A step of a decision, as `--why` shows it.
struct WhyRow {
  std::string step;
  std::string subject;
  std::string detail = {};
  std::string outcome = {};
  // Why a dimension was corrected; "" if it was not. None: no dimension.
  std::optional<std::string> reason = {};
};

void add_rules(const Session& session, size_t parameter,
               std::vector<WhyRow>& rows) {
  RuleSet rules;
  for (const PlanRule& rule : session.plan.rules) {
    rules.rules.push_back({rule.pattern, rule.spec, {}, {}, {}, false});
  }
  Diagnostics ignored;  // the rules compiled before
  const auto matcher = Matcher::compile(
      rules, session.model.manifest.names_are_plain(), ignored);
  const Placement& placement = session.plan.of(parameter);
  if (!matcher) return;
  if (placement.rule == 0 && placement.requested) {
    rows.push_back({"logical axes", "decide", "no rule matches"});
    return;
  }
  if (placement.rule == 0 && !session.plan.is_unmatched(placement)) {
    rows.push_back({"scalar", "never sharded", "no rule applies"});
    return;
  }
  std::vector<int> found;
  matcher->find_one_by_one(session.model.manifest.name(parameter), found);
  int next = 1;  // the first rule that has no row
  // Adds a row for the rules before `end`, which do not match.
  const auto add_others = [&](int end) {
    if (next == end) return;
    const std::string range =
        next + 1 == end
            ? "rule " + std::to_string(next)
            : "rules " + std::to_string(next) + "-" + std::to_string(end - 1);
    rows.push_back({range, "not found"});
  };
  for (const int index : found) {
    add_others(index + 1);
    const PlanRule& of = nth(session.plan.rules, index);
    rows.push_back(
        {"rule " + std::to_string(index + 1), of.pattern,
         of.file.empty() ? "" : of.file + ":" + std::to_string(of.line),
         index + 1 == placement.rule ? "decides"
                                     : "also matches, but comes later"});
    next = index + 2;
  }
  add_others(static_cast<int>(session.plan.rules.size()) + 1);
}

std::string quotient(const Mesh& mesh, const AxisNames& axes) {
  std::string text;
  for (const AxisName& axis : axes) {
    text += " / " + axis +
            (mesh.find(axis) ? "=" + std::to_string(mesh.size_of(axis)) : "");
  }
  return text;
}

void add_dimensions(const Session& session, const Placement& p,
                    std::vector<WhyRow>& rows) {
  if (!p.requested) {
    if (p.spec.dims.empty()) return;
    rows.push_back({"by size", spec_text(p.spec), "", "no rule matches"});
    return;
  }
  rows.push_back({"requested", spec_text(*p.requested)});
  if (p.resolved && *p.resolved != *p.requested) {
    rows.push_back({"means", spec_text(*p.resolved)});
  }
  const Shape shape = stored_shape(p);
  const PartitionSpec& meant = p.requested_spec();
  const size_t dims = std::max(meant.dims.size(), shape.size());
  for (size_t dim = 0; dim < dims; ++dim) {
    const std::string step = "dimension " + std::to_string(dim);
    const bool exists = dim < p.type.shape.size();
    const AxisNames asked = axes_of_dim(meant, dim);
    std::string outcome = asked.empty() ? "whole" : "kept";
    std::string reason;
    if (!exists) outcome = "no such dimension";
    for (const Correction& c : p.corrections) {
      if (c.dim != static_cast<int>(dim)) continue;
      outcome = dropped_text(c);
      reason = correction_reason(c);
    }
    for (const StoredDim& stored : p.stored_dims) {
      if (stored.dim != static_cast<int>(dim)) continue;
      const size_t colon = std::min(stored.why.find(": "), stored.why.size());
      const size_t after = std::min(colon + 2, stored.why.size());
      rows.push_back({step,
                      std::to_string(p.type.shape[dim]) + " stored as " +
                          std::to_string(stored.size),
                      stored.why.substr(0, colon), stored.why.substr(after)});
    }
    rows.push_back({step,
                    (exists ? std::to_string(shape[dim]) : "-") +
                        quotient(session.plan.mesh, asked),
                    exists ? std::to_string(p.local_shape[dim]) : "", outcome,
                    reason});
  }
}

// For people, a reason is a sentence on its own line, which is never shortened.
Table why_table(const std::vector<WhyRow>& rows, bool for_people) {
  Column reason = elastic("reason", "");
  reason.below = true;
  Table table = table_of(
      for_people ? "why_shown" : "why", "", rows,
      {{left("step", ""), &WhyRow::step},
       {elastic("subject", ""), &WhyRow::subject},
       {left("detail", ""), &WhyRow::detail},
       {left("outcome", ""),
        [=](auto& row) {
          if (!row.reason) return Cell(row.outcome);
          const bool appends = !for_people && !row.reason->empty();
          return Cell(Prose{row.outcome + (appends ? ": " + *row.reason : "")});
        }},
       {reason, [](auto& row) { return optional_cell<Prose>(row.reason); },
        for_people}},
      audience_of(for_people));
  table.show_header = false;
  return table;
}

}  // namespace

std::optional<size_t> find_parameter(const Manifest& manifest,
                                     const Folding& folding,
                                     const std::string& name,
                                     Diagnostics& diags) {
  for (size_t i = 0; i < manifest.size(); ++i) {
    if (manifest.name(i) == name) return i;
  }
  const std::vector<size_t> found = found_in(manifest, name);
  if (found.size() == 1) return found.front();
  auto report = diags.error(Code::Usage, {},
                            "the model has no parameter " + in_backticks(name));
  if (!found.empty()) {
    report.fact("as a pattern it matches " + plural(std::ssize(found), "name"));
    report.help("there is a similar parameter: " +
                in_backticks(manifest.name(found.front())));
    return report;
  }
  // Names within a class differ only in numbers, so one name per class is
  // enough.
  std::vector<std::string> candidates;
  for (const ParameterClass& c : folding.classes) {
    candidates.emplace_back(manifest.name(c.first));
    if (contains(candidates.back(), name)) {
      report.help("there is a similar parameter: " +
                  in_backticks(candidates.back()));
      return report;
    }
  }
  suggest(report, name, candidates);
  return report;
}

std::optional<Report> shard_report(Context& context, const Session& session,
                                   const std::string& name) {
  const auto parameter = find_parameter(session.model.manifest, session.folding,
                                        name, context.diags);
  if (!parameter) return std::nullopt;
  const Mesh& mesh = session.plan.mesh;
  if (mesh.devices() > kMaxMappedDevices) {
    return context.diags
        .error(Code::Usage, {},
               "`--shard` lists at most " + count_text(kMaxMappedDevices) +
                   " devices")
        .fact("the mesh has " + count_text(mesh.devices()))
        .help("a smaller mesh shows the same pattern");
  }
  const Placement& p = session.plan.of(*parameter);
  const OnIndivisible policy = session.plan.on_indivisible;
  const std::string title(session.model.manifest.name(*parameter));
  const int64_t rank = p.dealt ? rank_of(*p.dealt, title) : 0;
  auto map = std::make_shared<const DeviceSlices>(
      device_slices(p, mesh, policy, rank));

  Report report;
  report.command = "inspect";
  report.diagnostics = &context.diags;
  report.summary = {
      {"parameter", title},
      {"dtype", std::string(dtype_name(p.type.dtype))},
      {"shape", Dims{p.type.shape}},
      {"spec", p.spec},
      {"local_shape", Dims{p.local_shape}},
      {"bytes_per_device", ByteSize{p.bytes_per_device}},
      {"shards", Count{p.shards}},
      {"replicas", Count{p.replicas}},
      {"devices", Count{mesh.devices()}},
      {"mesh", MeshCell{mesh}},
      {"views", ViewsCell{mesh.views()}},
      {"view", text_cell(p.view)},
      {"dealt",
       p.dealt ? Cell(WholePlacementCell{p.dealt->axis, rank}) : Cell()}};
  report.headline = {title + "  " + type_text(p.type) + "  " +
                         spec_text(p.spec) + "    mesh " + mesh_text(mesh) +
                         views_text(mesh) + ": " +
                         plural(mesh.devices(), "device"),
                     "device ids in boxes; " + drawn_text(*map)};
  report.figures = {{"shards", "Shards of " + title,
                     [map] { return ShardMap{map}; }, InText::Drawn}};
  report.tables = {dimensions_table(p, mesh, policy),
                   shards_table(p, mesh, policy, rank)};
  report.closing = notes_of_parameter(p, session.plan, rank);
  add_topology(context, report);
  return report;
}

std::optional<Report> why_report(Context& context, const Session& session,
                                 const std::string& name) {
  const std::optional<size_t> parameter = find_parameter(
      session.model.manifest, session.folding, name, context.diags);
  if (!parameter) return std::nullopt;
  const Placement& p = session.plan.of(*parameter);

  std::vector<WhyRow> rows;
  add_rules(session, *parameter, rows);
  add_dimensions(session, p, rows);
  int64_t holders = session.plan.mesh.devices();
  if (p.dealt) {
    holders /= p.dealt->size;
    rows.push_back(
        {"dealt", "over " + p.dealt->axis + "=" + std::to_string(p.dealt->size),
         std::to_string(p.dealt->experts) + " experts",
         "rank " + std::to_string(rank_of(
                       *p.dealt, session.model.manifest.name(*parameter)))});
  }
  rows.push_back({"final", spec_text(p.spec),
                  "local " + type_text({p.type.dtype, p.local_shape}),
                  bytes_text(p.bytes_per_device) + " on each of " +
                      plural(holders, "device") + ", " +
                      plural(p.replicas, "replica")});

  Report report;
  report.command = "resolve";
  report.diagnostics = &context.diags;
  report.summary = summary_of(context, session);
  report.headline = {std::string(session.model.manifest.name(*parameter)) +
                     "  " + type_text(p.type) + "  " +
                     bytes_text(p.type.bytes())};
  report.tables = {why_table(rows, true), why_table(rows, false),
                   placements_table(session), corrections_table(session),
                   rules_table(session)};
  if (session.plan.declarations.any()) {
    report.tables.push_back(declared_table(session));
  }
  add_topology(context, report);
  return report;
}

}  // namespace shardplan::cli
