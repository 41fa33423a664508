// SPDX-License-Identifier: Apache-2.0
// `shardplan check MODEL`: the problems, and nothing else.
#include "cli/commands/check.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "advise/rule_edit.h"
#include "base/text.h"
#include "cli/commands.h"
#include "cli/commands/fix.h"
#include "cli/flags.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/views/budget_tables.h"
#include "cli/views/tables.h"
#include "session/budget.h"
#include "session/session.h"

namespace shardplan::cli {
namespace {

// "7 rules", "7 rules, 5 logical axis rules"
std::string rules_text(const Session& session) {
  const auto rules = static_cast<int64_t>(session.plan.rules.size());
  const auto logical =
      session.rules ? static_cast<int64_t>(session.rules->logical_rules.size())
                    : 0;
  if (logical == 0) return plural(rules, "rule");
  return (rules > 0 ? plural(rules, "rule") + ", " : std::string()) +
         plural(logical, "logical axis rule");
}

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
  found += " in " + rules_text(session) + " and " +
           plural(static_cast<int64_t>(session.manifest.size()), "parameter");
  if (diags.allowed() > 0) {
    found += "; " + plural(diags.allowed(), "finding") + " allowed";
  }
  return clean ? found + "." : found;
}

// The first of the most severe ones, with which the answer begins.
const Diagnostic* first_shown(const Diagnostics& diags, bool quiet) {
  const auto& all = diags.all();
  const auto first = std::max_element(
      all.begin(), all.end(), [](const Diagnostic& a, const Diagnostic& b) {
        return a.severity < b.severity;
      });
  const bool none =
      first == all.end() || (quiet && first->severity != Severity::Error);
  return none ? nullptr : &*first;
}

void add_checked_budget(const Context& context, const BudgetAnswer& answer,
                        Report& report) {
  for (auto& entry : budget_summary(answer.budget)) {
    report.summary.push_back(std::move(entry));
  }
  for (std::string& line : budget_notes(context, answer)) {
    report.notes.push_back(std::move(line));
  }
}

// Empty when the budget is not known; the diagnostics say why.
std::optional<Report> check_report(Context& context, const Session& session) {
  const Options& options = context.options;
  if (!check_memory_request(options.memory, options.planning.mode,
                            context.diags))
    return std::nullopt;
  // Only where it can be a finding: a million names take a while to read.
  std::optional<BudgetAnswer> answer;
  if (asks_for_budget(options.memory, options.planning.mode)) {
    answer = answer_budget(options.memory, options.planning, session.manifest,
                           session.plan, context.host, context.diags);
    if (!answer) return std::nullopt;
  }
  Report report;
  report.command = "check";
  report.diagnostics = &context.diags;
  report.diagnostics_are_the_answer = true;
  report.summary = summary_of(context, session);
  report.tables = {placements_table(session), corrections_table(session),
                   rules_table(session)};
  report.notes = remarks_of(session);
  add_declared(session, report);
  if (session.slices) {
    const Mesh& mesh = session.plan.mesh;
    report.notes.push_back("mesh " + mesh_text(mesh) + ": " +
                           plural(mesh.devices(), "device") + " in " +
                           slices_text(mesh, *session.slices));
  }
  add_topology(context, report);
  if (answer) add_checked_budget(context, *answer, report);
  report.notes.push_back(verdict(context.diags, session));
  if (const Diagnostic* first =
          first_shown(context.diags, options.output.quiet)) {
    report.next_step =
        "`shardplan explain " + code_id(first->code) + "` describes a code.";
  }
  return report;
}

// One row per edit, for programs.
Table fixes_table(const std::vector<AppliedFix>& applied) {
  std::vector<Row> rows;
  for (const AppliedFix& fix : applied) {
    rows.push_back({code_id(fix.code), fix.file, Count{fix.line},
                    Prose{fix.text}, ByteSize{fix.bytes_per_device},
                    YesNo{true}});
  }
  Table table{"fixes",
              "",
              {{"code", "code"},
               {"file", "file"},
               {"line", "line", Align::Right},
               {"text", "fix"},
               {"bytes_per_device", "per device", Align::Right},
               {"applied", "applied"}},
              rows_of(std::move(rows))};
  table.audience = Audience::Programs;
  return table;
}

// Rules that could not be edited whatever the fix.
std::vector<std::string> uneditable(const PlanRequest& planning) {
  std::vector<std::string> lines;
  for (const std::string& rules : planning.rules) {
    if (rules.starts_with('@')) {
      lines.push_back("`" + rules + "` is a shipped set, which is not edited.");
    } else if (rules == "-") {
      lines.emplace_back("Rules from standard input are not edited.");
    }
  }
  return lines;
}

// "fixed rules.yaml:3 SP103: move rule 2 above rule 1"
std::vector<std::string> fixed_lines(const std::vector<AppliedFix>& applied) {
  std::vector<std::string> lines;
  for (const AppliedFix& fix : applied) {
    lines.push_back("fixed " + fix.file + ":" + std::to_string(fix.line) + " " +
                    code_id(fix.code) + ": " + fix.text);
  }
  return lines;
}

// Of a plan whose budget is not known.
Exit finish_without_budget(Context& context, const Session& session) {
  return finish_incomplete(context, plan_report(context, session, "check"));
}

// Rules may come from anybody; into a file or pipe they go as they are.
std::string for_terminal(std::string_view text) {
  std::string shown;
  while (!text.empty()) {
    const size_t end = std::min(text.find_first_of("\t\n"), text.size());
    shown += printable(text.substr(0, end));
    if (end < text.size()) shown += text[end];
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return shown;
}

Exit run_fix(Context& context) {
  std::optional<FixRun> run = find_fixes(context);
  if (!run) return Exit::CouldNotRun;
  context.diags = std::move(run->diags);
  std::optional<Report> report = check_report(context, run->session);
  if (!report) return finish_without_budget(context, run->session);
  if (context.options.check.diff) {
    const bool terminal = context.options.output.file.value_or("-") == "-" &&
                          context.host.is_terminal(Stream::Out);
    return finish_with(context, [&](const TextSink& sink) {
      for (const auto& [path, file] : run->files) {
        const std::string text = unified_diff(path, file.before, file.after);
        if (!sink(terminal ? for_terminal(text) : text)) return false;
      }
      return true;
    });
  }
  if (!write_fixes(*run, context.host, context.diags)) {
    return Exit::CouldNotRun;
  }
  report->tables.push_back(fixes_table(run->applied));
  std::vector<std::string> lines = fixed_lines(run->applied);
  if (lines.empty()) lines.emplace_back("No fix is an edit of a rules file.");
  for (std::string& line : uneditable(context.options.planning)) {
    lines.push_back(std::move(line));
  }
  report->notes.insert(report->notes.begin(), lines.begin(), lines.end());
  return finish(context, *std::move(report));
}

}  // namespace

Exit run_check(Context& context) {
  if (context.options.check.fix) return run_fix(context);
  const std::optional<Session> session =
      open_session(context.options.planning, context.options.memory,
                   context.host, context.diags, context.progress);
  if (!session) return Exit::CouldNotRun;
  std::optional<Report> report = check_report(context, *session);
  if (!report) return finish_without_budget(context, *session);
  return finish(context, *std::move(report));
}

const std::vector<Flag>& check_flags() {
  static const std::vector<Flag> kFlags = {
      {"fix", 0, Takes::Nothing, "", "Diagnostics",
       "apply the fixes that are edits of the rules files", "check", false,
       false, nullptr,
       [](const Setting&, Options& o, Diagnostics&) { o.check.fix = true; }},
      {"diff", 0, Takes::Nothing, "", "Diagnostics",
       "with --fix: show the edits, and write nothing", "check", false, false,
       nullptr,
       [](const Setting&, Options& o, Diagnostics&) { o.check.diff = true; }},
  };
  return kFlags;
}

void validate_check(std::span<const Setting> /*given*/, const Options& options,
                    Diagnostics& diags) {
  if (options.check.fix && options.planning.saved_plan) {
    diags.error(Code::Usage, {}, "`--fix` cannot be used with `--plan`")
        .help("a saved plan has no rules to edit: `--rules` names them");
  }
  if (options.check.diff && !options.check.fix) {
    diags.error(Code::Usage, {}, "`--diff` shows what `--fix` would do")
        .help("give both: `--fix --diff`");
  }
  if (options.check.diff && options.output.format != "text") {
    diags
        .error(Code::Usage, {},
               "`--diff` shows edits, and `" + options.output.format +
                   "` is a format of reports")
        .help("without `--fix`, `--json` lists the edits of every fix");
  }
}

}  // namespace shardplan::cli
