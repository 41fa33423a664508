// SPDX-License-Identifier: Apache-2.0
// `shardplan diff MODEL --before OLD --after NEW`.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/parallel.h"
#include "base/text.h"
#include "cli/commands/rule_diff.h"
#include "cli/commands/simulate/forward.h"
#include "cli/flags.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/targets.h"
#include "cli/views/gate_remarks.h"
#include "cli/views/gate_tables.h"
#include "cli/views/rule_changes_report.h"
#include "cli/views/tables.h"
#include "core/plan.h"
#include "gate/changes.h"
#include "gate/collective_changes.h"
#include "gate/fail_on.h"
#include "gate/rule_changes.h"
#include "io/load.h"
#include "io/saved_plan.h"
#include "session/session.h"

namespace shardplan::cli {
namespace {

// Everything known about the two sides.
struct BothSides {
  CheckedTarget before;
  CheckedTarget after;
  RuleSetChanges rules;
  std::vector<GateChange> rule_changes;
  std::vector<GateChange> changes;  // in the model's placements and memory
  CollectiveCoverage collectives;
  std::vector<CategoryChange> categories;  // of memory
  std::vector<TimeChange> times;           // parts of a step
};

// Rejects a saved plan: rules cannot change its placements.
bool is_no_plan(const std::string& path, Context& context, SourcePtr& file) {
  if (path == "-" || path.starts_with('@')) return true;
  Diagnostics unread;  // reading the model reports the error
  file = read_head(path, context.host, unread);
  if (file == nullptr || !is_plan(file->text())) return true;
  context.diags
      .error(Code::Usage, {},
             in_backticks(path) + " is a saved plan, not a MODEL")
      .help(
          "`--before` and `--after` re-plan a model; `shardplan diff A B` "
          "compares two saved plans");
  return false;
}

CheckedTarget judge_rules(const std::vector<std::string>& rules, bool is_after,
                          const Model& model, const Context& context,
                          Host& host, ProgressListener& progress) {
  CheckedTarget checked;
  checked.name = model.manifest.title;
  checked.options = context.options;
  PlanRequest& planning = checked.options.planning;
  planning.rules = rules;
  planning.pattern = nullptr;
  planning.other_side_asks = true;
  // Only the new side needs fixes: its new findings are shown with them.
  planning.find_fixes = is_after;
  apply_severities(checked.options, checked.diags);
  check_read_inputs(checked, {model, std::nullopt, {}}, host, progress);
  return checked;
}

bool is_same_finding(const Diagnostic& a, const Diagnostic& b) {
  return a.code == b.code && a.message == b.message &&
         places_text(a) == places_text(b);
}

// Reports why a side could not be checked; a reason that both sides share is
// reported once.
void add_reasons(const BothSides& diff, Diagnostics& diags) {
  std::vector<const Diagnostic*> reported;
  for (const CheckedTarget* side : {&diff.before, &diff.after}) {
    diags.add_sources(side->diags);
    for (const Diagnostic& diagnostic : side->diags.all()) {
      if (!prevents_running(diagnostic.code) ||
          std::ranges::any_of(reported, [&](const Diagnostic* other) {
            return is_same_finding(*other, diagnostic);
          })) {
        continue;
      }
      reported.push_back(&diagnostic);
      diags.add(diagnostic);
    }
  }
}

// Returns false if a pattern cannot be compiled.
bool compare(BothSides& diff, const FailOn& fail_on, Context& context) {
  const Session& before = *diff.before.session;
  const Session& after = *diff.after.session;
  const Manifest* const models[] = {&after.model.manifest};
  const int jobs = resolve_options(context.options.planning, context.host).jobs;
  auto found =
      compare_rules({*before.rules, *after.rules, models, jobs}, context.diags);
  if (!found) return false;
  diff.rules = *std::move(found);
  // Nothing shows that these labels ever meet in one array.
  std::erase_if(diff.rules.changes, [](const RuleSetChange& change) {
    return change.how == ChangeHow::Contest &&
           change.from == RuleSetChange::From::Nowhere;
  });
  for (const RuleSetChange& change : diff.rules.changes) {
    diff.rule_changes.push_back(gate_change(change));
  }
  ComparedCollectives collectives =
      compare_collectives(diff.before, diff.after);
  diff.collectives = std::move(collectives.coverage);
  const TargetSide was = side_of(diff.before);
  const TargetSide is = side_of(diff.after);
  diff.categories = category_changes(was, is);
  diff.times = time_part_changes(was, is);
  diff.changes = target_changes(after.model.manifest.title, was, is,
                                std::move(collectives.changes));
  for (auto* changes : {&diff.rule_changes, &diff.changes}) {
    for (GateChange& change : *changes) {
      change.fails = fails_gate(fail_on, change);
    }
  }
  return true;
}

void add_findings(const BothSides& diff, Diagnostics& diags) {
  diags.add_sources(diff.before.diags);
  diags.add_sources(diff.after.diags);
  for (const Diagnostic& diagnostic : diff.after.diags.all()) {
    if (auto shown = new_finding(diff.changes, diagnostic)) {
      diags.add(*std::move(shown));
    }
  }
  for (const auto* changes : {&diff.changes, &diff.rule_changes}) {
    for (const GateChange& change : *changes) {
      report_failure(change, true, diags);
    }
  }
}

// Returns false, with the reason reported, if a limit of time is set and there
// is no time estimate. Both sides have the same flags.
bool is_time_judged(const BothSides& diff, const FailOn& fail_on,
                    Diagnostics& diags) {
  const TargetSide was = side_of(diff.before);
  const TargetSide is = side_of(diff.after);
  const std::string why = unjudged_time(fail_on, was, is);
  if (why.empty()) return true;
  if (was.untimed.empty()) {
    diags
        .error(Code::Usage, {},
               "`time` in `--fail-on` needs the time of a " +
                   std::string(was.timed))
        .help(
            "add `--hardware`, `--batch` and `--seq`, for example `--hardware "
            "h100-sxm --batch 64 --seq 4096`");
    return false;
  }
  report_unjudged_time(why, diags);
  return true;
}

int64_t count_changes(const BothSides& diff, bool (*test)(const GateChange&)) {
  return std::ranges::count_if(diff.rule_changes, test) +
         std::ranges::count_if(diff.changes, test);
}

// Returns how many parameters of the model are placed differently.
int64_t moved_parameters(const BothSides& diff) {
  int64_t count = 0;
  for (const GateChange& change : diff.changes) {
    if (change.kind == GateKind::Placement) count += change.parameters;
  }
  return count;
}

int64_t count_failed(const BothSides& diff) {
  return count_changes(diff,
                       [](const GateChange& change) { return change.fails; });
}

// Returns "3 rule changes; 64 of 291 parameters are placed differently; 1
// change fails."
std::string model_diff_note(const BothSides& diff) {
  const auto rules = std::ssize(diff.rule_changes);
  const int64_t moved = moved_parameters(diff);
  const auto size = std::ssize(diff.after.session->model.manifest);
  std::string text =
      rules == 0 ? "No rule or label changed" : plural(rules, "rule change");
  text += "; " + count_text(moved) + " of " + plural(size, "parameter") +
          (moved == 1 ? " is placed differently" : " are placed differently");
  if (const int64_t failed = count_failed(diff); failed > 0) {
    text +=
        "; " + plural(failed, "change") + (failed == 1 ? " fails" : " fail");
  }
  return text + ".";
}

std::vector<std::string> headline_of_diff(const Context& context,
                                          const BothSides& diff) {
  const DiffRequest& request = context.options.diff;
  const Mesh& before = diff.before.session->plan.mesh;
  std::vector<std::string> lines = {
      joined(request.before, " + ") + " → " + joined(request.after, " + "),
      headline_of(*diff.after.session, context.options.output.exact)};
  if (before != diff.after.session->plan.mesh) {
    lines.push_back("mesh before: " + mesh_text(before) + views_text(before));
  }
  return lines;
}

// Returns null if no training step is requested.
const StepAnswer* step_of(const CheckedTarget& side) {
  return side.memory && side.memory->step ? &*side.memory->step : nullptr;
}

Cell bracket_cell(const CheckedTarget& side) {
  const StepAnswer* const step = step_of(side);
  if (step == nullptr) return {};
  const MemoryBracket& of = step->bracket;
  return ByteBracket{of.lower(), of.estimate(), of.upper()};
}

Cell time_cell(const TargetSide& side, std::string_view timed) {
  if (side.time == nullptr || side.timed != timed) return {};
  const Seconds& total = side.time->total;
  return DurationBracket{total.lower, total.estimate, total.upper};
}

void add_summary_of(const BothSides& diff, Report& report) {
  const Session& before = *diff.before.session;
  const Session& after = *diff.after.session;
  const StepAnswer* const step = step_of(diff.after);
  const TargetSide was = side_of(diff.before);
  const TargetSide is = side_of(diff.after);
  report.summary = {
      {"changes",
       Count{std::ssize(diff.rule_changes) + std::ssize(diff.changes)}},
      {"parameters", Count{moved_parameters(diff)}},
      {"lost_axes",
       Count{count_changes(diff, [](auto& c) { return !c.lost.empty(); })}},
      {"failed", Count{count_failed(diff)}},
      {"not_looked_at", Names{diff.rules.notes}},
      {"mesh_before", MeshCell{before.plan.mesh}},
      {"mesh_after", MeshCell{after.plan.mesh}},
      {"views_before", ViewsCell{before.plan.mesh.views()}},
      {"views_after", ViewsCell{after.plan.mesh.views()}},
      {"memory_per_device_before", ByteSize{before.memory.max}},
      {"memory_per_device_after", ByteSize{after.memory.max}},
      {"memory_bracket_before", bracket_cell(diff.before)},
      {"memory_bracket_after", bracket_cell(diff.after)},
      {"memory_bracket_from",
       step == nullptr ? Cell()
                       : Cell(std::string(bracket_source_name(step->from)))},
      {"step_time_before", time_cell(was, "step")},
      {"step_time_after", time_cell(is, "step")},
      {"fingerprint_before", fingerprint(before.model.manifest, before.plan)},
      {"fingerprint_after", fingerprint(after.model.manifest, after.plan)}};
  for (const auto& [timed, key] :
       {std::pair("prompt", "time_to_first_token"),
        std::pair("token", "time_per_output_token")}) {
    if (was.timed != timed && is.timed != timed) continue;
    report.summary.emplace_back(std::string(key) + "_before",
                                time_cell(was, timed));
    report.summary.emplace_back(std::string(key) + "_after",
                                time_cell(is, timed));
  }
}

GateView view_of_diff(const Context& context, const BothSides& diff) {
  GateView view;
  view.general = "Rules";
  view.changes = &diff.rule_changes;
  view.exact = context.options.output.exact;
  view.expand = context.options.output.expand;
  view.targets.push_back({.name = diff.after.session->model.manifest.title,
                          .changes = &diff.changes,
                          .errors = diff.after.diags.count(Severity::Error),
                          .warnings = diff.after.diags.count(Severity::Warning),
                          .collectives = diff.collectives,
                          .categories = diff.categories,
                          .times = diff.times});
  return view;
}

// Returns the gate's tables, and the changes of rules with the names that show
// their effect.
Report report_of_diff(const Context& context, const BothSides& diff,
                      const GateView& view, const FailOn& fail_on) {
  Report report = gate_report(view);
  for (Table& table : report.tables) table.folded = false;
  // Without a budget, the memory of the parameters is listed among the changes.
  if (diff.after.memory && !diff.categories.empty()) {
    report.tables.push_back(
        category_table(diff.categories, context.options.output.exact));
  }
  if (!diff.times.empty()) report.tables.push_back(time_table(diff.times));
  Table rules = rule_changes_table(diff.rules.changes, fail_on);
  rules.id = "rule_changes";
  report.tables.push_back(std::move(rules));
  add_summary_of(diff, report);
  report.headline = headline_of_diff(context, diff);
  report.closing.push_back(model_diff_note(diff));
  for (const std::string& note : diff.rules.notes) {
    report.notes.push_back("Not everything was compared: " + note + ".");
  }
  report.most_bytes = 0;
  add_topology(context, report);
  return report;
}

FailOn fail_on_of(const DiffRequest& request) {
  FailOn fail_on;
  add_fail_on(kDiffFailOn, fail_on);
  return request.fail_on.value_or(fail_on);
}

}  // namespace

Exit diff_model(Context& context) {
  const Options& options = context.options;
  PlanRequest request = options.planning;
  std::vector<std::string> paths = {options.planning.model};
  append(paths, options.diff.before);
  append(paths, options.diff.after);
  if (!is_stdin_read_once(paths, context.diags) ||
      !is_no_plan(options.planning.model, context, request.reading.file)) {
    return Exit::CouldNotRun;
  }
  const auto model =
      read_model(request, context.host, context.diags, context.progress);
  if (!model) return Exit::CouldNotRun;
  BothSides diff;
  count_lines(model->manifest.sources);
  SharedHost host(context.host, std::make_shared<std::mutex>());
  SharedProgress progress(context.progress);
  parallel_for(2, thread_count(options.planning.jobs), [&](int64_t side) {
    const bool is_after = side == 1;
    (is_after ? diff.after : diff.before) =
        judge_rules(is_after ? options.diff.after : options.diff.before,
                    is_after, *model, context, host, progress);
  });
  for (const CheckedTarget* side : {&diff.before, &diff.after}) {
    if (side->session && !side->diags.cannot_run()) continue;
    add_reasons(diff, context.diags);
    return Exit::CouldNotRun;
  }
  if (options.memory.state_rules.empty()) {
    std::vector<std::string> questions = diff.before.session->rules->questions;
    append(questions, diff.after.session->rules->questions);
    check_answers(options.planning.answers, questions, context.diags);
    if (context.diags.cannot_run()) return Exit::CouldNotRun;
  }
  const FailOn fail_on = fail_on_of(options.diff);
  context.progress.stage("comparing rules");
  if (!compare(diff, fail_on, context)) return Exit::CouldNotRun;
  if (!is_time_judged(diff, fail_on, context.diags)) return Exit::CouldNotRun;
  add_findings(diff, context.diags);
  const GateView view = view_of_diff(context, diff);
  Report report = report_of_diff(context, diff, view, fail_on);
  const Diagnostics remarks = gate_remarks(view);
  report.remarks = &remarks;
  const bool differ = !diff.changes.empty() || !diff.rule_changes.empty();
  return finish(context, std::move(report), differ && options.diff.exit_code);
}

}  // namespace shardplan::cli
