// SPDX-License-Identifier: Apache-2.0
#include "cli/why.h"

#include <algorithm>
#include <vector>

#include "base/text.h"
#include "cli/parameter_name.h"
#include "cli/tables.h"
#include "resolve/match.h"

namespace shardplan::cli {
namespace {

// Rules before and after the winner, equal outcomes in one row.
class RuleRows {
 public:
  RuleRows(const Session& session, std::vector<Row>& rows)
      : session_(session), rows_(rows) {}

  void not_found(int rule) {
    if (first_ == 0) first_ = rule;
    last_ = rule;
  }
  void flush() {
    if (first_ == 0) return;
    const std::string range =
        first_ == last_
            ? "rule " + std::to_string(first_)
            : "rules " + std::to_string(first_) + "-" + std::to_string(last_);
    rows_.push_back(
        {range, std::string("not found"), std::string(), std::string()});
    first_ = 0;
  }
  void found(int rule, std::string outcome) {
    flush();
    const PlanRule& of = session_.plan.rules[static_cast<size_t>(rule) - 1];
    const std::string place =
        of.file.empty() ? "" : of.file + ":" + std::to_string(of.line);
    rows_.push_back({"rule " + std::to_string(rule), of.pattern, place,
                     std::move(outcome)});
  }

 private:
  const Session& session_;
  std::vector<Row>& rows_;
  int first_ = 0;
  int last_ = 0;
};

void add_rules(const Session& session, size_t parameter,
               std::vector<Row>& rows) {
  RuleSet rules;
  for (const PlanRule& rule : session.plan.rules) {
    rules.rules.push_back({rule.pattern, rule.spec, {}, {}, {}, false});
  }
  Diagnostics ignored;  // they compiled before
  const auto matcher =
      Matcher::compile(rules, session.manifest.names_are_plain(), ignored);
  const Placement& placement = session.plan.of(parameter);
  if (!matcher) return;
  if (placement.rule == 0 && placement.requested) {
    rows.push_back({std::string("logical axes"), std::string("decide"),
                    std::string("no rule is found"), std::string()});
    return;
  }
  if (placement.rule == 0 && !session.plan.is_unmatched(placement)) {
    rows.push_back({std::string("scalar"), std::string("never sharded"),
                    std::string("no rule is asked"), std::string()});
    return;
  }
  std::vector<int> found;
  matcher->find_one_by_one(session.manifest.name(parameter), found);
  RuleRows out(session, rows);
  for (int rule = 1; rule <= static_cast<int>(session.plan.rules.size());
       ++rule) {
    if (!std::binary_search(found.begin(), found.end(), rule - 1)) {
      out.not_found(rule);
    } else {
      out.found(rule, rule == placement.rule ? "decides"
                                             : "found too, but comes later");
    }
  }
  out.flush();
}

std::string quotient(const Mesh& mesh, const AxisNames& axes) {
  std::string text;
  for (const AxisName& axis : axes) {
    text += " / " + axis +
            (mesh.find(axis) ? "=" + std::to_string(mesh.size_of(axis)) : "");
  }
  return text;
}

std::string dropped_text(const Correction& correction) {
  std::string text = correction.dropped.empty() ? "cut off" : "dropped ";
  for (size_t i = 0; i < correction.dropped.size(); ++i) {
    text += (i > 0 ? ", `" : "`") + correction.dropped[i] + "`";
  }
  return text + ": " + correction.reason + " (" + code_id(correction.code) +
         ")";
}

void add_dimensions(const Session& session, const Placement& p,
                    std::vector<Row>& rows) {
  if (!p.requested) {
    if (p.spec.dims.empty()) return;
    rows.push_back({std::string("by size"), spec_text(p.spec), std::string(),
                    std::string("no rule is found")});
    return;
  }
  rows.push_back({std::string("requested"), spec_text(*p.requested),
                  std::string(), std::string()});
  const Shape shape = stored_shape(p);
  if (p.meant && *p.meant != *p.requested) {
    rows.push_back({std::string("means"), spec_text(*p.meant), std::string(),
                    std::string()});
  }
  const PartitionSpec& meant = p.asked();
  const size_t dims = std::max(meant.dims.size(), shape.size());
  for (size_t dim = 0; dim < dims; ++dim) {
    const bool exists = dim < p.type.shape.size();
    const AxisNames asked =
        dim < meant.dims.size() ? meant.dims[dim] : AxisNames();
    std::string outcome = asked.empty() ? "whole" : "kept";
    if (!exists) outcome = "no such dimension";
    for (const Correction& c : p.corrections) {
      if (c.dim == static_cast<int>(dim)) outcome = dropped_text(c);
    }
    for (const StoredDim& stored : p.stored) {
      if (stored.dim != static_cast<int>(dim)) continue;
      const size_t colon = std::min(stored.why.find(": "), stored.why.size());
      const size_t after = std::min(colon + 2, stored.why.size());
      rows.push_back({"dimension " + std::to_string(dim),
                      std::to_string(p.type.shape[dim]) + " stored as " +
                          std::to_string(stored.size),
                      stored.why.substr(0, colon), stored.why.substr(after)});
    }
    rows.push_back({"dimension " + std::to_string(dim),
                    (exists ? std::to_string(shape[dim]) : std::string("-")) +
                        quotient(session.plan.mesh, asked),
                    exists ? std::to_string(p.local_shape[dim]) : std::string(),
                    outcome});
  }
}

}  // namespace

std::optional<Report> why_report(Context& context, const Session& session,
                                 const std::string& name) {
  const std::optional<size_t> parameter =
      find_parameter(session.manifest, session.folding, name, context.diags);
  if (!parameter) return std::nullopt;
  const Placement& p = session.plan.of(*parameter);

  std::vector<Row> rows;
  add_rules(session, *parameter, rows);
  add_dimensions(session, p, rows);
  rows.push_back({std::string("final"), spec_text(p.spec),
                  "local " + type_text({p.type.dtype, p.local_shape}),
                  bytes_text(static_cast<double>(p.bytes_per_device)) +
                      " on each of " +
                      plural(session.plan.mesh.devices(), "device") + ", " +
                      plural(p.replicas, "replica")});

  Table table;
  table.id = "why";
  table.columns = {{"step", ""},
                   {"subject", "", Align::Left, true},
                   {"detail", ""},
                   {"outcome", "", Align::Left, true}};
  table.show_header = false;
  table.rows = rows_of(std::move(rows));

  Report report;
  report.command = "resolve";
  report.diagnostics = &context.diags;
  report.summary = summary_of(context, session);
  report.headline = {printable(session.manifest.name(*parameter)) + "  " +
                     type_text(p.type) + "  " +
                     bytes_text(static_cast<double>(p.type.bytes()))};
  report.tables = {std::move(table), placements_table(session),
                   corrections_table(session), rules_table(session)};
  if (session.plan.declarations.any()) {
    report.tables.push_back(declared_table(session));
  }
  return report;
}

}  // namespace shardplan::cli
