// SPDX-License-Identifier: Apache-2.0
// `shardplan resolve MODEL`: the partition spec of every parameter.
#include "base/text.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "cli/session.h"
#include "cli/views/parameter_report.h"
#include "cli/views/tables.h"
#include "io/plan/plan_file.h"

namespace shardplan::cli {
namespace {

Report resolve_report(const Context& context, const Session& session) {
  Report report;
  report.command = "resolve";
  report.diagnostics = &context.diags;
  report.summary = summary_of(context, session);
  report.headline = {headline_of(session, context.options.exact)};
  report.tables = {folded_placements(session, context.options.expand),
                   placements_table(session), corrections_table(session),
                   rules_table(session)};
  report.notes = correction_notes(session);
  report.notes.insert(report.notes.begin(), efficiency_line(session));
  add_declared(session, report);
  for (std::string& line : remarks_of(session)) {
    report.notes.push_back(std::move(line));
  }
  return report;
}

}  // namespace

Exit run_resolve(Context& context) {
  const std::optional<Session> session = open_session(context);
  if (!session) return Exit::CouldNotRun;
  if (asks_for_plan(context.options)) {
    return finish_with(context, [&](const TextSink& sink) {
      return write_plan(session->manifest, session->plan, sink);
    });
  }
  if (context.options.why) {
    std::optional<Report> report =
        why_report(context, *session, *context.options.why);
    if (!report) return Exit::CouldNotRun;
    return finish(context, std::move(*report));
  }
  return finish(context, resolve_report(context, *session));
}

}  // namespace shardplan::cli
