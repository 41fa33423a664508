// SPDX-License-Identifier: Apache-2.0
// `shardplan diff OLD.yaml NEW.yaml`.
#include "cli/commands/rule_diff.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "base/text.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/views/rule_changes_report.h"
#include "gate/fail_on.h"
#include "gate/rule_changes.h"
#include "io/load.h"
#include "report/report.h"
#include "session/plan_request.h"

namespace shardplan::cli {
namespace {

std::optional<RuleSet> read_rule_side(const RuleSide& side, Context& context) {
  context.progress.stage("reading " + side.path);
  const PlanRequest& request = context.options.planning;
  RuleReading reading = rule_reading(request);
  reading.files = &context.host;
  reading.answers_for_others = true;
  if (side.file != nullptr) {
    return read_rules(side.file, request.dialect, reading, context.diags);
  }
  const std::vector<std::string> paths = {side.path};
  return load_rules(paths, request.dialect, reading, context.host,
                    context.diags);
}

std::optional<std::vector<Manifest>> read_named_models(Context& context) {
  const std::vector<std::string>& paths = context.options.diff.names;
  std::vector<Manifest> models;
  for (const std::string& path : paths) {
    context.progress.stage("reading " + path);
    auto model = load_manifest(path, context.options.planning.reading,
                               context.host, context.diags);
    if (model) models.push_back(*std::move(model));
  }
  if (models.size() < paths.size()) return std::nullopt;
  return models;
}

// Without a model only some kinds of changes can be detected.
bool check_fail_on(const FailOn& fail_on, Diagnostics& diags) {
  const std::vector<std::string> others = without_meaning_for_rules(fail_on);
  for (const std::string& name : others) {
    diags.error(Code::Usage, {}, "`" + name + "` in `--fail-on` needs a model")
        .help(
            "without a model only `lost-axes` and `any-change` can be judged");
  }
  return others.empty();
}

// Returns "rules: 5 → 6; logical axis rules: 7 → 7".
std::string counts_text(const RuleSet& before, const RuleSet& after) {
  std::vector<std::string> parts;
  const auto add = [&](const std::string& what, const auto& was,
                       const auto& is) {
    if (was.empty() && is.empty()) return;
    parts.push_back(what + ": " + count_text(std::ssize(was)) + " → " +
                    count_text(std::ssize(is)));
  };
  add("rules", before.rules, after.rules);
  add("logical axis rules", before.logical_rules, after.logical_rules);
  add("activation rules", before.activations, after.activations);
  return joined(parts, "; ");
}

int64_t count_of(const std::vector<RuleSetChange>& changes, ChangeKind kind) {
  return std::ranges::count(changes, kind, &RuleSetChange::kind);
}

int64_t count_lost(const std::vector<RuleSetChange>& changes) {
  return std::ranges::count_if(changes, [](const RuleSetChange& change) {
    return !change.lost.empty();
  });
}

// Returns "Changes: 3 labels, 2 rules; 1 loses axes."
std::string rule_diff_note(const std::vector<RuleSetChange>& changes,
                           int64_t failing) {
  if (changes.empty()) return "No rule or label changed.";
  const int64_t labels = count_of(changes, ChangeKind::Label);
  const int64_t rules = count_of(changes, ChangeKind::Rule);
  const int64_t others = std::ssize(changes) - labels - rules;
  std::vector<std::string> parts;
  if (labels > 0) parts.push_back(plural(labels, "label"));
  if (rules > 0) parts.push_back(plural(rules, "rule"));
  if (others > 0) parts.push_back(plural(others, "axis"));
  std::string text = "Changes: " + joined(parts, ", ");
  const int64_t lost = count_lost(changes);
  text += "; " + count_text(lost) + (lost == 1 ? " loses" : " lose") + " axes";
  if (failing > 0) {
    text += ", " + count_text(failing) + (failing == 1 ? " fails" : " fail");
  }
  return text + ".";
}

}  // namespace

bool is_stdin_read_once(const std::vector<std::string>& paths,
                        Diagnostics& diags) {
  if (std::ranges::count(paths, "-") <= 1) return true;
  diags.error(Code::Usage, {}, "standard input can be read only once")
      .help("use files for the others");
  return false;
}

Exit diff_rules(Context& context, const std::array<RuleSide, 2>& sides) {
  const DiffRequest& request = context.options.diff;
  const FailOn fail_on = request.fail_on.value_or(FailOn());
  const bool is_meant = check_fail_on(fail_on, context.diags);
  const auto before = read_rule_side(sides[0], context);
  const auto after = read_rule_side(sides[1], context);
  const auto models = read_named_models(context);
  if (before && after) {
    std::vector<std::string> questions = before->questions;
    append(questions, after->questions);
    check_answers(context.options.planning.answers, questions, context.diags);
    if (context.diags.has_errors()) return Exit::CouldNotRun;
  }
  if (!is_meant || !before || !after || !models) return Exit::CouldNotRun;
  std::vector<const Manifest*> named;
  for (const Manifest& model : *models) named.push_back(&model);
  context.progress.stage("comparing rules");
  const int jobs = resolve_options(context.options.planning, context.host).jobs;
  const auto found =
      compare_rules({*before, *after, named, jobs}, context.diags);
  if (!found) return Exit::CouldNotRun;
  const std::vector<RuleSetChange>& changes = found->changes;
  const int64_t failing = std::ranges::count_if(
      changes,
      [&](const RuleSetChange& change) { return fails(change, fail_on); });

  Report report;
  report.summary = {{"changes", Count{std::ssize(changes)}},
                    {"labels", Count{count_of(changes, ChangeKind::Label)}},
                    {"rules", Count{count_of(changes, ChangeKind::Rule)}},
                    {"lost_axes", Count{count_lost(changes)}},
                    {"failed", Count{failing}},
                    {"not_looked_at", Names{found->notes}}};
  report.headline = {sides[0].path + " → " + sides[1].path,
                     counts_text(*before, *after)};
  if (!changes.empty()) {
    const bool expand = context.options.output.expand;
    report.figures = {{"changes", "Changes of the rules",
                       [list = ChangeList{change_texts(
                            changes, fail_on, expand)}] { return list; },
                       InText::Drawn}};
  }
  report.tables = {rule_changes_table(changes, fail_on)};
  report.closing = {rule_diff_note(changes, failing)};
  for (const std::string& note : found->notes) {
    report.notes.push_back("Not everything was compared: " + note + ".");
  }
  return finish(context, std::move(report),
                failing > 0 || (request.exit_code && !changes.empty()));
}

}  // namespace shardplan::cli
