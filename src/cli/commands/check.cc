// SPDX-License-Identifier: Apache-2.0
// `shardplan check MODEL`: the problems, and nothing else.
#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "base/text.h"
#include "cli/budget.h"
#include "cli/budget_tables.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "cli/session.h"
#include "cli/tables.h"

namespace shardplan::cli {
namespace {

// "2 errors, 1 warning in 7 rules and 201 parameters"
std::string verdict(const Diagnostics& diags, const Session& session) {
  std::string found;
  const auto add = [&](Severity severity) {
    const int64_t count = diags.count(severity);
    if (count == 0) return;
    if (!found.empty()) found += ", ";
    found += plural(count, severity_name(severity));
  };
  add(Severity::Error);
  add(Severity::Warning);
  const bool clean = found.empty();
  if (clean) found = "No problems";
  found += " in " +
           plural(static_cast<int64_t>(session.plan.rules.size()), "rule") +
           " and " +
           plural(static_cast<int64_t>(session.manifest.size()), "parameter");
  if (diags.allowed() > 0) {
    found += "; " + plural(diags.allowed(), "finding") + " allowed";
  }
  return clean ? found + "." : found;
}

// The first of the most severe ones, with which the answer begins.
const Diagnostic* first_shown(const Diagnostics& diags) {
  const auto& all = diags.all();
  const auto first = std::max_element(
      all.begin(), all.end(), [](const Diagnostic& a, const Diagnostic& b) {
        return a.severity < b.severity;
      });
  return first == all.end() ? nullptr : &*first;
}

void add_budget(const Context& context, const BudgetAnswer& answer,
                Report& report) {
  for (auto& entry : budget_summary(answer.budget)) {
    report.summary.push_back(std::move(entry));
  }
  for (std::string& line : budget_notes(context, answer)) {
    report.notes.push_back(std::move(line));
  }
}

}  // namespace

Exit run_check(Context& context) {
  const std::optional<Session> session = open_session(context);
  if (!session) return Exit::CouldNotRun;
  if (!check_memory_flags(context.options, context.diags)) {
    return Exit::CouldNotRun;
  }
  // Only where it can be a finding: a million names take a while to read.
  std::optional<BudgetAnswer> answer;
  if (asks_for_budget(context.options)) {
    answer = answer_budget(context, session->manifest, session->plan);
    if (!answer) return Exit::CouldNotRun;
  }
  Report report;
  report.command = "check";
  report.diagnostics = &context.diags;
  report.diagnostics_are_the_answer = true;
  report.summary = summary_of(context, *session);
  report.tables = {placements_table(*session), corrections_table(*session),
                   rules_table(*session)};
  report.notes = remarks_of(*session);
  add_declared(*session, report);
  if (answer) add_budget(context, *answer, report);
  report.notes.push_back(verdict(context.diags, *session));
  if (const Diagnostic* first = first_shown(context.diags)) {
    report.next_step =
        "`shardplan explain " + code_id(first->code) + "` describes a code.";
  }
  return finish(context, std::move(report));
}

}  // namespace shardplan::cli
