// SPDX-License-Identifier: Apache-2.0
// `shardplan check MODEL`: reports the problems and nothing else.
#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "advise/rule_edit.h"
#include "base/checked.h"
#include "base/parallel.h"
#include "base/text.h"
#include "base/words.h"
#include "cli/commands.h"
#include "cli/commands/fix.h"
#include "cli/commands/workload/step.h"
#include "cli/config.h"
#include "cli/flag_values.h"
#include "cli/flags.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/targets.h"
#include "cli/views/budget_tables.h"
#include "cli/views/columns.h"
#include "cli/views/engine/tables.h"
#include "cli/views/figures/plan_figures.h"
#include "cli/views/tables.h"
#include "gate/baseline.h"
#include "io/load.h"
#include "session/memory_request.h"
#include "session/serving.h"
#include "session/session.h"

namespace shardplan::cli {
namespace {

// Returns "7 rules" or "7 rules, 5 logical axis rules".
std::string rules_text(const Session& session) {
  const auto rules = std::ssize(session.plan.rules);
  const auto logical =
      session.rules ? std::ssize(session.rules->logical_rules) : 0;
  if (logical == 0) return plural(rules, "rule");
  return (rules > 0 ? plural(rules, "rule") + ", " : std::string()) +
         plural(logical, "logical axis rule");
}

// Returns "2 errors, 1 warning", or "".
std::string counts_text(const Diagnostics& diags) {
  std::vector<std::string> found;
  for (const Severity severity : {Severity::Error, Severity::Warning}) {
    const int64_t count = diags.count(severity);
    if (count > 0) found.push_back(plural(count, severity_name(severity)));
  }
  return joined(found, ", ");
}

// Returns "2 errors, 1 warning in 7 rules and 201 parameters".
std::string verdict(const Diagnostics& diags, const Session& session) {
  std::string found = counts_text(diags);
  const bool clean = found.empty();
  if (clean) found = "No problems";
  found += " in " + rules_text(session) + " and " +
           plural(std::ssize(session.model.manifest), "parameter");
  if (diags.allowed() > 0) {
    found += "; " + plural(diags.allowed(), "finding") + " allowed";
  }
  return clean ? found + "." : found;
}

// Returns the code of the first finding shown, with which the answer begins.
std::optional<Code> first_shown(const Diagnostics& diags, bool quiet) {
  for (const Diagnostic* each : ranked(diags)) {
    if (each->code == Code::Remark && each->severity == Severity::Note)
      continue;
    if (!quiet || each->severity == Severity::Error) return each->code;
  }
  return std::nullopt;
}

// The findings of one target.
struct NamedFindings {
  std::string target;  // "" for a model
  Diagnostics* diags = nullptr;
};
// Removes the findings that the baseline accepts, and warns about entries that
// accept nothing (SP605). Writes a new baseline if requested. Returns false,
// with the reason reported, if a baseline cannot be read or written.
bool use_baseline(Context& context, const std::vector<NamedFindings>& found) {
  const GateRequest& asked = context.options.gate;
  std::optional<Baseline> baseline;
  if (asked.baseline) {
    SourcePtr source =
        read_source(*asked.baseline, kWholeFile, context.host, context.diags);
    if (source == nullptr) return false;
    baseline = read_baseline(std::move(source), context.diags);
    if (!baseline) return false;
  }
  if (asked.new_baseline) {
    std::vector<TargetFindings> all;
    for (const NamedFindings& of : found) {
      all.push_back({of.target, of.diags});
    }
    if (!write_file(context, *asked.new_baseline,
                    baseline_text(all, "found when the baseline was made"))) {
      return false;
    }
  }
  if (!baseline) return true;
  std::vector<bool> used;
  for (const NamedFindings& of : found) {
    accept(*baseline, of.target, *of.diags, used);
  }
  // Unused entries may belong to targets that were not checked.
  if (asked.targets.empty()) report_stale(*baseline, used, context.diags);
  return true;
}

void add_answer(const Context& context, const MemoryAnswer& answer,
                Report& report) {
  const Mode mode = context.options.planning.mode;
  const std::optional<DeviceLimit>& limit = answer.budget.limit;
  append(report.summary, fit_summary(answer.fit));
  append(report.notes, budget_notes(context, answer));
  if (answer.serving) {
    add_engine_summary(*answer.serving, report.summary);
    append(report.notes, engine_notes(*answer.serving));
  }
  if (answer.step) {
    append(report.summary, step_summary(*answer.step));
    report.notes.push_back(answer.step->workload);
    if (limit) {
      report.closing.push_back(step_fit_text(*answer.step, answer.fit, *limit));
    }
    add_step_text(*answer.step, report);
  }
  if (answer.inference) {
    add_inference(answer, mode, TimeTables::LeftOut, report);
  }
  if (!limit) return;
  std::string each = stage_limits_text(*limit);
  if (!each.empty()) report.notes.push_back(std::move(each));
  if (!answer.step && !answer.serving) {
    report.closing.push_back(state_fit_text(answer, mode));
  }
}

// Returns empty if the budget is not known; the diagnostics explain why.
std::optional<Report> check_report(Context& context, const Session& session) {
  const Options& options = context.options;
  const MemoryQuestion question = {options.planning, options.memory,
                                   options.workload, options.engine};
  if (!check_question(question, context.diags)) return std::nullopt;
  // The budget is computed only if it can be a finding: reading a million names
  // takes a while.
  std::shared_ptr<const MemoryAnswer> answer;
  if (asks_for_budget(options.memory, options.planning.mode)) {
    auto found = answer_memory(question, session, Headroom::Leave, context.host,
                               context.diags);
    if (!found) return std::nullopt;
    answer = std::make_shared<const MemoryAnswer>(*std::move(found));
  }
  if (!use_baseline(context, {{"", &context.diags}})) return std::nullopt;
  Report report;
  report.diagnostics_are_the_answer = true;
  report.summary = summary_of(context, session);
  report.tables = {placements_table(session), corrections_table(session),
                   rules_table(session)};
  if (!options.engine.name) add_declared(session, report);
  if (session.slices) {
    const Mesh& mesh = session.plan.mesh;
    report.notes.push_back("mesh " + mesh_text(mesh) + ": " +
                           plural(mesh.devices(), "device") + " in " +
                           slices_text(mesh, *session.slices));
  }
  add_topology(context, report);
  if (answer) add_answer(context, *answer, report);
  report.owned.push_back(answer);
  add_plan_figures(session, answer.get(), options.planning.mode, report);
  report.headline = {verdict(context.diags, session)};
  if (const auto first = first_shown(context.diags, options.output.quiet)) {
    report.next_step =
        "`shardplan explain " + code_id(*first) + "` describes a code.";
  }
  return report;
}

// Returns one row per edit, for programs.
Table fixes_table(const std::vector<AppliedFix>& applied) {
  return table_of("fixes", "", applied,
                  {{left("code"), [](auto& f) { return code_id(f.code); }},
                   {left("file"), &AppliedFix::file},
                   {right("line"), [](auto& f) { return Count{f.line}; }},
                   {left("text", "fix"), [](auto& f) { return Prose{f.text}; }},
                   {right("bytes_per_device", "per device"),
                    [](auto& f) { return ByteSize{f.bytes_per_device}; }},
                   {left("applied"), [](auto&) { return YesNo{true}; }}},
                  Audience::Programs);
}

// Returns "fixed rules.yaml:3 SP103: move rule 2 above rule 1" for each fix,
// and which rules cannot be edited, whatever the fix.
std::vector<std::string> fix_notes(const std::vector<AppliedFix>& applied,
                                   const PlanRequest& planning) {
  std::vector<std::string> lines;
  for (const AppliedFix& fix : applied) {
    lines.push_back("fixed " + fix.file + ":" + std::to_string(fix.line) + " " +
                    code_id(fix.code) + ": " + fix.text);
  }
  if (lines.empty()) lines.emplace_back("No fix edits a rules file.");
  for (const std::string& rules : planning.rules) {
    if (rules.starts_with('@')) {
      lines.push_back("`" + rules + "` is a shipped set and cannot be edited.");
    } else if (rules == "-") {
      lines.emplace_back("Rules from standard input cannot be edited.");
    }
  }
  return lines;
}

// Escapes control characters, since anybody may have written the rules. A file
// or pipe receives the text unchanged.
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
  if (!report) {
    return finish_incomplete(context, plan_report(context, run->session));
  }
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
  if (!write_fixes(*run, context.host, context.diags)) return Exit::CouldNotRun;
  report->tables.push_back(fixes_table(run->applied));
  std::vector<std::string> notes =
      fix_notes(run->applied, context.options.planning);
  append(notes, std::move(report->notes));
  report->notes = std::move(notes);
  return finish(context, std::move(report));
}

// `check` without MODEL checks every target of the configuration.

Cell fullest_device(const CheckedTarget& target) {
  if (!target.session) return {};
  return ByteSize{target.memory && !target.memory->budget.classes.empty()
                      ? target.memory->budget.classes.front().total
                      : target.session->memory.max};
}

// Returns "2 errors, 1 warning in 3 of 12 targets".
std::string targets_verdict(const Diagnostics& diags,
                            const std::vector<CheckedTarget>& checked) {
  const auto all = std::ssize(checked);
  int64_t found = 0;
  int64_t broken = 0;
  int64_t allowed = 0;
  for (const CheckedTarget& target : checked) {
    found += counts_text(target.diags).empty() ? 0 : 1;
    broken += target.session ? 0 : 1;
    allowed += target.diags.allowed();
  }
  std::string text = counts_text(diags);
  text = text.empty() ? "No problems in " + plural(all, "target")
                      : text + " in " + count_text(found) + " of " +
                            plural(all, "target");
  if (broken > 0) text += "; " + count_text(broken) + " could not run";
  if (allowed > 0) text += "; " + plural(allowed, "finding") + " allowed";
  return text + ".";
}

// Puts a column `target` before the others.
Table with_targets(const std::vector<std::pair<std::string, Table>>& parts) {
  Table table = parts.front().second;
  table.columns.insert(table.columns.begin(), left("target"));
  table.named.reset();  // they lack that column
  table.rows = [parts](const RowSink& sink) {
    for (const auto& [target, part] : parts) {
      part.rows([&, &name = target](std::span<const Cell> cells) {
        Row row = {name};
        row.insert(row.end(), cells.begin(), cells.end());
        sink(row);
      });
    }
  };
  return table;
}

Table targets_table(const std::vector<CheckedTarget>& checked) {
  return table_of(
      "targets", "", checked,
      {{elastic("target"), &CheckedTarget::name},
       {right("devices"),
        [](auto& t) {
          return t.session ? Cell(Count{t.session->plan.mesh.devices()})
                           : Cell();
        }},
       {right("memory_per_device", "per device"), fullest_device},
       {right("errors"),
        [](auto& t) { return Count{t.diags.count(Severity::Error)}; }},
       {right("warnings"),
        [](auto& t) { return Count{t.diags.count(Severity::Warning)}; }},
       {left("failed"), [](auto& t) { return YesNo{t.diags.has_errors()}; }}});
}

// The configuration, and its targets that this run checks.
struct Asked {
  Config config;
  std::vector<Target> targets;
};
// Returns the requested targets; empty, with the reason reported, if there is
// none or the configuration cannot be read.
std::optional<Asked> asked_targets(Context& context) {
  const RunOptions& run = context.options.run;
  const auto path = run.isolated ? std::nullopt
                    : run.config ? run.config
                                 : find_config(context.host);
  std::optional<Config> config;
  if (path) {
    // run.cc already read it without errors, so new diagnostics are dropped.
    Diagnostics known;
    config =
        read_config(*path, run.config ? ConfigFrom::Named : ConfigFrom::Found,
                    context.host, known);
    context.diags.add_sources(known);
  }
  if (!config || config->targets.empty()) {
    return context.diags.error(Code::Usage, {}, "`check` needs MODEL")
        .fact(!path ? "no `shardplan.yaml` with targets was found"
                    : "`" + *path + "` has no targets")
        .help(
            "usage: `shardplan check MODEL`, or without MODEL for the "
            "`targets` in `shardplan.yaml`");
  }
  auto chosen = chosen_targets(config->targets, context.options.gate.targets,
                               context.diags);
  if (!chosen) return std::nullopt;
  return Asked{*std::move(config), *std::move(chosen)};
}

Exit check_targets(Context& context) {
  std::optional<Asked> asked = asked_targets(context);
  if (!asked) return Exit::CouldNotRun;
  const std::vector<Setting> severities = severity_settings(context.options);
  std::vector<CheckedTarget> checked(asked->targets.size());
  SharedHost host(context.host, std::make_shared<std::mutex>());
  WorkProgress work(context.progress, "target", checked.size());
  parallel_for(std::ssize(checked), thread_count(context.options.planning.jobs),
               [&](int64_t i) {
                 const Target& target = nth(asked->targets, i);
                 work.begin(target.name);
                 std::vector<Setting> settings =
                     target_settings(asked->config.settings, target.settings);
                 append(settings, severities);
                 nth(checked, i) =
                     check_target(target, settings, Fixes::Find, host);
               });
  std::vector<NamedFindings> named;
  std::vector<TargetFindings> found;
  for (CheckedTarget& target : checked) {
    named.push_back({target.name, &target.diags});
    found.push_back({target.name, &target.diags});
  }
  if (!use_baseline(context, named)) return Exit::CouldNotRun;
  add_findings_of(found, context.diags);

  Report report;
  report.main_file = asked->config.files.front();
  report.diagnostics_are_the_answer = true;
  const auto count = [&](auto&& is_one) {
    return Count{std::ranges::count_if(checked, is_one)};
  };
  report.summary = {
      {"targets", Count{std::ssize(checked)}},
      {"failed", count([](const CheckedTarget& target) {
         return target.diags.has_errors();
       })},
      {"errors", Count{context.diags.count(Severity::Error)}},
      {"warnings", Count{context.diags.count(Severity::Warning)}}};
  report.tables = {targets_table(checked)};
  for (auto* table_of_target :
       {placements_table, corrections_table, rules_table}) {
    std::vector<std::pair<std::string, Table>> parts;
    for (const CheckedTarget& target : checked) {
      if (!target.session) continue;
      parts.emplace_back(target.name, table_of_target(*target.session));
    }
    if (!parts.empty()) report.tables.push_back(with_targets(parts));
  }
  report.headline = {targets_verdict(context.diags, checked)};
  return finish_in_part(context, std::move(report));
}

// Reports flags of the command line that only a target may set.
void validate_targets(std::span<const Setting> given, Diagnostics& diags) {
  constexpr std::string_view kOfAll =
      "jobs deny allow exit-zero config isolated max-memory target baseline "
      "write-baseline";
  for (const Setting& setting : given) {
    if (setting.flag->group == "Output" ||
        has_word(kOfAll, setting.flag->name)) {
      continue;
    }
    diags
        .error(Code::Usage, {},
               title_of(setting) + " does not apply to `check` without MODEL")
        .help("set it for each target in `shardplan.yaml`");
  }
}

}  // namespace

Exit run_check(Context& context) {
  if (context.options.arguments.empty()) return check_targets(context);
  if (context.options.check.fix) return run_fix(context);
  const std::optional<Session> session = open_session(context);
  if (!session) return Exit::CouldNotRun;
  std::optional<Report> report = check_report(context, *session);
  if (report) return finish(context, std::move(report));
  return finish_incomplete(context, plan_report(context, *session));
}

std::vector<Flag> check_flags() {
  return {
      {"fix", Takes::Nothing, "", "Diagnostics",
       "apply fixes to the rules files", "check",
       [](auto&, auto& o, auto&) {
         o.check.fix = true;
         o.planning.fixes_together = true;
       },
       false, false},
      {"diff", Takes::Nothing, "", "Diagnostics",
       "with --fix: show the edits without writing", "check",
       [](auto&, auto& o, auto&) { o.check.diff = true; }, false, false},
  };
}

void validate_check(std::span<const Setting> given, const Options& options,
                    Diagnostics& diags) {
  if (options.arguments.empty()) {
    validate_targets(given, diags);
    return;
  }
  if (!options.gate.targets.empty()) {
    diags.error(Code::Usage, {}, "`--target` cannot be used with MODEL")
        .help("targets name their own models: leave MODEL out");
  }
  if (options.check.fix && options.planning.saved_plan) {
    diags.error(Code::Usage, {}, "`--fix` cannot be used with `--plan`")
        .help("a saved plan has no rules to edit: give `--rules`");
  }
  if (options.check.diff && !options.check.fix) {
    diags.error(Code::Usage, {}, "`--diff` shows what `--fix` would do")
        .help("give both: `--fix --diff`");
  }
  if (options.check.diff && options.output.format != "text") {
    diags
        .error(Code::Usage, {},
               "`--diff` shows edits, but `" + options.output.format +
                   "` is a report format")
        .help("without `--fix`, `--json` lists the edits of every fix");
  }
}

}  // namespace shardplan::cli
