// SPDX-License-Identifier: Apache-2.0
// `shardplan resolve MODEL`: the partition spec of every parameter.
#include "base/text.h"
#include "cli/commands.h"
#include "cli/flags.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/views/figures/plan_figures.h"
#include "cli/views/parameter_report.h"
#include "cli/views/tables.h"
#include "io/saved_plan.h"
#include "session/session.h"

namespace shardplan::cli {
namespace {

Report resolve_report(const Context& context, const Session& session) {
  Report report;
  report.summary = summary_of(context, session);
  report.headline = {headline_of(session, context.options.output.exact)};
  report.tables = {folded_placements(session, context.options.output.expand),
                   placements_table(session), corrections_table(session),
                   rules_table(session)};
  report.closing = {efficiency_line(session)};
  append(report.closing, correction_notes(session));
  add_declared(session, report);
  add_topology(context, report);
  add_plan_figures(session, nullptr, context.options.planning.mode, report);
  return report;
}

}  // namespace

Exit run_resolve(Context& context) {
  const std::optional<Session> session = open_session(context);
  if (!session) return Exit::CouldNotRun;
  if (asks_for_plan(context.options.output)) {
    return finish_with(context, [&](const TextSink& sink) {
      return write_plan(session->model.manifest, session->plan, sink);
    });
  }
  if (context.options.resolve.why) {
    return finish(context,
                  why_report(context, *session, *context.options.resolve.why));
  }
  return finish(context, resolve_report(context, *session));
}

std::vector<Flag> resolve_flags() {
  return {
      {"why", Takes::Text, "NAME", "Inputs",
       "show how one parameter got its spec", "resolve",
       [](auto& s, auto& o, auto&) { o.resolve.why = s.value; }, false, false},
  };
}

void validate_resolve(std::span<const Setting> /*given*/,
                      const Options& options, Diagnostics& diags) {
  if (!asks_for_plan(options.output) || !options.resolve.why) return;
  diags.error(Code::Usage, {},
              "`--why` shows one parameter, but " +
                  in_backticks(*options.output.file) + " is a plan file name");
}

}  // namespace shardplan::cli
