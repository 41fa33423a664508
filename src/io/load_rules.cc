// SPDX-License-Identifier: Apache-2.0
// The part of io/load.h that reads rules: finds the dialect of each file, and
// joins the rules of several files.
#include <algorithm>
#include <array>
#include <iterator>
#include <set>
#include <utility>

#include "base/shipped.h"
#include "base/text.h"
#include "base/words.h"
#include "io/dialects.h"
#include "io/fence.h"
#include "io/load.h"
#include "io/maxtext/config.h"
#include "io/maxtext/dump.h"
#include "io/orbax/checkpoint.h"
#include "io/other_files.h"
#include "io/saved_plan.h"
#include "io/spec_node.h"

namespace shardplan {
namespace {

// Finds a shipped set by its name without the `@`.
SourcePtr shipped_source(const std::string& name, Diagnostics& diags) {
  std::vector<std::string> known;
  for (const std::string_view folder : kRuleFolders) {
    SourcePtr source = find_shipped(folder, name, diags);
    if (source != nullptr) return source;
    std::ranges::move(shipped_names(folder), std::back_inserter(known));
  }
  auto report = diags.error(Code::UnreadableFile, {},
                            "no shipped rules named `" + name + "`");
  if (const auto near = nearest(name, known)) {
    report.help("did you mean `@" + *near + "`?");
  }
  report.help("`shardplan list rules` shows all");
  return nullptr;
}

const RuleDialect* find_dialect(const std::string& name, Diagnostics& diags) {
  const RuleDialect* dialect = find_named(rule_dialects(), name);
  if (dialect != nullptr) return dialect;
  suggest(diags.error(Code::Usage, {}, "unknown rule dialect `" + name + "`"),
          name, all_names(rule_dialects()))
      .help("`shardplan list dialects` shows all");
  return nullptr;
}

const RuleDialect* recognize_dialect(const SourceFile& file,
                                     Diagnostics& diags) {
  const std::string_view head = file.text().substr(0, kHeadBytes);
  const std::string_view other = other_than_rules(head);
  if (!other.empty()) {
    auto report = diags.error(
        Code::UnrecognizedFormat, {},
        "`" + file.name() + "` is " + std::string(other) + ", not rules");
    if (is_plan(head)) report.help("give saved plans with `--plan`");
    return nullptr;
  }
  for (const RuleDialect& dialect : rule_dialects()) {
    const bool is_last = &dialect == &rule_dialects().back();
    // A Python file without a table is reported as Python, not as bad YAML.
    if (is_last && file.name().ends_with(".py")) return &kPythonRules;
    if (is_last && refuse_other_rules(file, diags)) return nullptr;
    if (dialect.recognize(head)) return &dialect;
  }
  diags
      .error(Code::UnrecognizedFormat, {}, "`" + file.name() + "` has no rules")
      .fact("dialects tried: " +
            joined_of(rule_dialects(), ", ", &RuleDialect::name));
  return nullptr;
}

// Adds the logical rules and semantic axes of one file to the earlier ones.
bool append_logical(RuleSet& more, RuleSet& rules, Diagnostics& diags) {
  std::vector<LogicalRule>& all = rules.logical_rules;
  if (more.logical_merge == LogicalMerge::ReplaceAll) all.clear();
  if (!all.empty() && !more.logical_rules.empty() &&
      rules.logical_reading != more.logical_reading) {
    diags
        .error(
            Code::Usage, more.logical_rules.front().where,
            "these files mix a mapping of logical axes with rules by priority")
        .label(all.front().where, "the earlier file")
        .help("use the logical axes of only one file");
    return false;
  }
  if (!more.logical_rules.empty()) rules.logical_reading = more.logical_reading;
  merge_logical_rules(std::move(more.logical_rules), more.logical_merge, all);
  if (more.architecture_labels && !rules.architecture_labels) {
    rules.architecture_labels = true;
    rules.architecture_labels_where = more.architecture_labels_where;
  }
  if (more.partition_axis && rules.partition_axis) {
    diags
        .report(Code::DuplicateKey, Severity::Warning,
                more.partition_axis_where, "this partition_axis is ignored")
        .label(rules.partition_axis_where, "an earlier file's is used");
  } else if (more.partition_axis) {
    rules.partition_axis = std::move(more.partition_axis);
    rules.partition_axis_where = more.partition_axis_where;
  }
  return true;
}

// Adds the mesh of one file to that of the earlier files.
bool append_mesh(RuleSet& more, RuleSet& rules, Diagnostics& diags) {
  const bool replaces = more.mesh_replaces && rules.mesh_replaces;
  if (more.mesh && rules.mesh && !replaces) {
    diags
        .report(Code::InvalidMesh, Severity::Warning, more.mesh_where,
                "this mesh is ignored")
        .label(rules.mesh_where, "the mesh of an earlier file is used")
        .help("give the mesh in one file, or with `--mesh`");
    return true;
  }
  if (more.mesh) {
    rules.mesh = std::move(more.mesh);
    rules.mesh_where = more.mesh_where;
    rules.mesh_recorded = more.mesh_recorded;
    rules.mesh_replaces = more.mesh_replaces;
    rules.dcn_mesh = std::move(more.dcn_mesh);
  }
  std::ranges::move(more.sizes, std::back_inserter(rules.sizes));
  return !rules.mesh || !rules.mesh_replaces || rules.sizes.empty() ||
         place_sizes(rules, diags);
}

// Adds views. The first file with a view of that name wins, as with the mesh.
void append_views(RuleSet& more, RuleSet& rules, Diagnostics& diags) {
  for (ViewRequest& view : more.views) {
    const ViewRequest* first = find_named(rules.views, view.name);
    if (first == nullptr) {
      rules.views.push_back(std::move(view));
      continue;
    }
    diags
        .report(Code::InvalidMesh, Severity::Warning, view.where,
                "this view `" + view.name + "` is ignored")
        .label(first->where, "the view of an earlier file is used")
        .help("give each view in one file, or with `--view`");
  }
}

// Appends the rules of one file to those of the earlier files.
bool append_rules(RuleSet more, bool shipped, RuleSet& rules,
                  Diagnostics& diags) {
  if (more.overrides && rules.sources.empty()) {
    diags
        .error(Code::UnrecognizedFormat, more.overrides->where,
               more.overrides->problem)
        .help(more.overrides->help);
    return false;
  }
  if (rules.sources.empty()) rules.form = more.form;
  for (Rule& rule : more.rules) {
    rule.shipped = rule.shipped || shipped;
    rule.form = more.form;
    rules.rules.push_back(std::move(rule));
  }
  for (LogicalRule& rule : more.logical_rules) rule.shipped = shipped;
  for (const auto& [view, names] : more.view_axes) {
    AxisNames& all = rules.view_axes[view];
    for (const AxisName& name : names) {
      if (!contains(all, name)) all.push_back(name);
    }
  }
  AxisNames& axes = rules.declared_axes;
  std::set<AxisName> known(axes.begin(), axes.end());
  for (const AxisName& axis : more.declared_axes) {
    if (known.insert(axis).second) axes.push_back(axis);
  }
  if (more.run_as == RunAs::Hooks) rules.run_as = RunAs::Hooks;
  if (rules.hook_axis.empty()) rules.hook_axis = more.hook_axis;
  const bool joined = append_logical(more, rules, diags);
  std::ranges::move(more.activations, std::back_inserter(rules.activations));
  const bool placed = append_mesh(more, rules, diags);
  append_views(more, rules, diags);
  std::ranges::move(more.sources, std::back_inserter(rules.sources));
  return joined && placed;
}

// Warns (SP007) when a config gives axis sizes separately, as MaxText's do, and
// no file has the `mesh_axes` that they belong to.
void report_unused_sizes(const RuleSet& rules, Diagnostics& diags) {
  if (rules.sizes.empty() || (rules.mesh && rules.mesh_replaces)) return;
  auto report = diags.report(
      Code::InvalidMesh, Severity::Warning, rules.sizes.front().axis.where,
      "the sizes in this config are ignored: no file has `mesh_axes`");
  if (rules.mesh) report.label(rules.mesh_where, "this mesh is used");
  report.help("give axis sizes with `--mesh`");
}

// Returns the rules file in a directory: a checkpoint's or a dump's.
std::string rules_file(const std::string& path, Host& host,
                       Diagnostics& diags) {
  const auto info = path == "-" ? std::nullopt : host.file_info(path);
  if (!info || !info->directory) return path;
  if (const auto item = find_orbax_item(path, host)) {
    if (!item->remark.empty()) {
      diags.report(Code::Usage, Severity::Note, {},
                   "`--rules " + path + "`: " + item->remark);
    }
    return path_in(item->path, kOrbaxSharding, host);
  }
  const std::string dump = path_in(path, kNamedShardings, host);
  return host.file_info(dump) ? dump : path;
}

bool read_rule_text(const SourcePtr& file, bool shipped,
                    const RuleDialect* forced, const RuleReading& reading,
                    RuleSet& rules, Diagnostics& diags) {
  const RuleDialect* dialect =
      forced != nullptr ? forced : recognize_dialect(*file, diags);
  if (dialect == nullptr) return false;
  RuleSet more;
  const bool good = dialect->read(file, reading, more, diags);
  std::ranges::move(more.questions, std::back_inserter(rules.questions));
  if (!good) return false;
  if (more.form == nullptr) more.form = dialect->form;
  more.sources.push_back(file);
  if (!check_axis_counts(more, diags)) return false;
  return append_rules(std::move(more), shipped, rules, diags);
}

bool load_rule_file(const std::string& path, const RuleDialect* forced,
                    const RuleReading& reading, RuleSet& rules, Host& host,
                    Diagnostics& diags) {
  const bool shipped = path.starts_with('@');
  const SourcePtr file = shipped ? shipped_source(path.substr(1), diags)
                                 : read_source(rules_file(path, host, diags),
                                               kWholeFile, host, diags);
  RuleReading here = reading;
  here.files = shipped ? nullptr : &host;
  return file != nullptr &&
         read_rule_text(file, shipped, forced, here, rules, diags);
}

}  // namespace

std::span<const RuleDialect> rule_dialects() {
  // Dialects are tried in this order: the last one accepts any text.
  static const std::array<RuleDialect, 10> kRuleDialects = {
      kOrbaxRules,  kMaxtextDumpRules, kShardy,   kHfTpPlan, kDtensor,
      kPythonRules, kMaxText,          kLevanter, kFlax,     kYamlRules};
  return kRuleDialects;
}

const RuleAnswer* RuleReading::find_answer(std::string_view name) const {
  return find_named(answers, name);
}

void check_answers(std::span<const RuleAnswer> answers,
                   std::span<const std::string> questions, Diagnostics& diags) {
  for (const RuleAnswer& answer : answers) {
    if (contains(questions, answer.name)) continue;
    auto report = diags.error(
        Code::Usage, answer.where,
        "`--set " + answer.name + "`: no rules depend on this name");
    const std::set<std::string> known(questions.begin(), questions.end());
    const std::vector<std::string> names(known.begin(), known.end());
    suggest(report, answer.name, names);
    if (names.empty()) {
      report.help("the rules have no such settings: remove `--set`");
    } else {
      report.help("the rules depend on " + quoted_names(names));
    }
  }
}

std::optional<RuleSet> read_rules(const SourcePtr& file,
                                  const std::optional<std::string>& dialect,
                                  const RuleReading& reading,
                                  Diagnostics& diags) {
  const auto* const forced = dialect ? find_dialect(*dialect, diags) : nullptr;
  if (dialect && forced == nullptr) return std::nullopt;
  RuleSet rules;
  if (!read_rule_text(file, false, forced, reading, rules, diags)) {
    return std::nullopt;
  }
  drop_unsized_mesh(rules);
  settle_activation_labels(rules);
  return rules;
}

std::optional<RuleSet> load_rules(std::span<const std::string> paths,
                                  const std::optional<std::string>& dialect,
                                  const RuleReading& reading, Host& host,
                                  Diagnostics& diags) {
  const auto* const forced = dialect ? find_dialect(*dialect, diags) : nullptr;
  if (dialect && forced == nullptr) return std::nullopt;
  if (std::ranges::count(paths, "-") > 1) {
    return diags.error(Code::Usage, {}, "`-` is given twice")
        .fact("standard input can be read only once");
  }
  RuleSet rules;
  bool good = true;
  for (const std::string& path : paths) {
    good = load_rule_file(path, forced, reading, rules, host, diags) && good;
  }
  if (!reading.answers_for_others) {
    const size_t errors = diags.all().size();
    check_answers(reading.answers, rules.questions, diags);
    good = good && diags.all().size() == errors;
  }
  if (!good) return std::nullopt;
  drop_unsized_mesh(rules);
  settle_activation_labels(rules);
  report_unused_sizes(rules, diags);
  return rules;
}

}  // namespace shardplan
