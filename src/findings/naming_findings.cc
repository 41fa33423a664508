// SPDX-License-Identifier: Apache-2.0
// Naming mismatches: rules for the names of another scheme, or for logical axes
// that the model lacks.
#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/checked.h"
#include "base/text.h"
#include "base/words.h"
#include "core/fold.h"
#include "findings/checks.h"
#include "findings/findings.h"
#include "model/from_config.h"
#include "resolve/correct.h"
#include "resolve/match.h"
#include "resolve/resolve.h"

namespace shardplan {
namespace {

// Names of parameters in several schemes.

enum class Scheme : uint8_t { Dots, Slashes, KeyPath };

struct SplitName {
  Scheme scheme = Scheme::Dots;
  std::vector<std::string> parts;
};

SplitName split_at(Scheme scheme, std::string_view text,
                   std::string_view separator) {
  SplitName split{scheme, {}};
  for (size_t at = 0; at <= text.size();) {
    const size_t end = std::min(text.find(separator, at), text.size());
    split.parts.emplace_back(text.substr(at, end - at));
    at = end + separator.size();
  }
  return split;
}

SplitName split_name(std::string_view name) {
  if (name.size() > 4 && name.starts_with("['") && name.ends_with("']")) {
    return split_at(Scheme::KeyPath, name.substr(2, name.size() - 4), "']['");
  }
  return !contains(name, '/') ? split_at(Scheme::Dots, name, ".")
                              : split_at(Scheme::Slashes, name, "/");
}

std::string name_in(Scheme scheme, const std::vector<std::string>& parts) {
  if (scheme == Scheme::KeyPath) return "['" + joined(parts, "']['") + "']";
  return joined_of(parts, scheme == Scheme::Dots ? "." : "/", std::identity());
}

// Flax's names for what PyTorch calls a weight.
constexpr std::array<std::string_view, 3> kFlaxLeaves = {"kernel", "embedding",
                                                         "scale"};
constexpr const char* kFlaxNames = "Flax names";

// Returns the names that other schemes give to the same parameter.
std::vector<std::string> other_names(std::string_view name) {
  const SplitName split = split_name(name);
  const std::string& leaf = split.parts.back();
  std::vector<std::string> leaves;
  if (leaf == "weight") {
    leaves.assign(kFlaxLeaves.begin(), kFlaxLeaves.end());
  } else if (contains(kFlaxLeaves, leaf)) {
    leaves.emplace_back("weight");
  }
  leaves.push_back(leaf);
  std::vector<std::string> names;
  for (const Scheme scheme : {Scheme::Slashes, Scheme::Dots, Scheme::KeyPath}) {
    for (const std::string& other : leaves) {
      std::vector<std::string> parts = split.parts;
      parts.back() = other;
      std::string text = name_in(scheme, parts);
      if (text != name) names.push_back(std::move(text));
    }
  }
  return names;
}

std::string scheme_word(std::string_view name) {
  const SplitName split = split_name(name);
  const std::string& leaf = split.parts.back();
  if (split.scheme == Scheme::KeyPath) return "JAX key paths";
  if (split.scheme == Scheme::Slashes) {
    return contains(kFlaxLeaves, leaf) ? kFlaxNames : "names with `/`";
  }
  return leaf == "weight" ? "Hugging Face names" : "names with `.`";
}

// Returns the last parts, which patterns refer to: "self_attn/q_proj/kernel".
std::string end_of(std::string_view name) {
  constexpr size_t kParts = 3;
  SplitName split = split_name(name);
  if (split.parts.size() > kParts) {
    split.parts.erase(split.parts.begin(), split.parts.end() - kParts);
  }
  return name_in(split.scheme, split.parts);
}

// Rules.

// Returns the rules (1-based) that shard, except those that match every name.
std::vector<int> sharding_rules(const LintInput& input) {
  const Plan& plan = input.plan;
  std::vector<int> numbers;
  for (size_t i = 0; i < plan.rules.size(); ++i) {
    if (!names_no_axis(plan.rules[i].spec) &&
        plan.mesh.has_view(plan.rules[i].view) &&
        !matches_every_name(input, plan.rules[i])) {
      numbers.push_back(static_cast<int>(i) + 1);
    }
  }
  return numbers;
}

// Returns whether a rule matches a name, except those that match every name.
bool has_found_rule(const LintInput& input) {
  return std::ranges::any_of(input.plan.rules, [&](const PlanRule& rule) {
    return rule.matched > 0 && !matches_every_name(input, rule);
  });
}

bool asks_for_shards(const Plan& plan) {
  return std::ranges::any_of(plan.placements, [](const Placement& placement) {
    return placement.requested && !names_no_axis(placement.requested_spec());
  });
}

// Finds a parameter that one of the rules would match under its name in another
// scheme. Called only if no rule matches, and limited to some names and rules,
// since one match is enough.
void find_other_scheme(const LintInput& input, const std::vector<int>& rules,
                       NamingMismatch& naming) {
  constexpr size_t kMaxRules = 1000;
  constexpr size_t kMaxClasses = 1000;
  RuleSet few;
  for (size_t i = 0; i < std::min(kMaxRules, rules.size()); ++i) {
    few.rules.emplace_back().pattern = rule_of(input.plan, rules[i]).pattern;
  }
  Diagnostics ignored;
  const auto matcher =
      Matcher::compile(few, input.manifest.names_are_plain(), ignored);
  if (!matcher) return;
  std::vector<int> found;
  const auto& classes = input.folding.classes;
  for (size_t i = 0; i < std::min(kMaxClasses, classes.size()); ++i) {
    const size_t parameter = classes[i].first;
    for (std::string& name : other_names(input.manifest.name(parameter))) {
      matcher->find(name, found);
      if (found.empty()) continue;
      naming.other_rule = nth(rules, found.front());
      naming.other_parameter = parameter;
      naming.other_name = std::move(name);
      return;
    }
  }
}

// Returns whether no entry of a tensor-parallel plan for layers (with a `*`)
// matches. Other entries do not count: heads have the same name in all models.
bool misses_layers(const Plan& plan, const std::vector<int>& rules) {
  bool any = false;
  for (const int number : rules) {
    const PlanRule& rule = rule_of(plan, number);
    const auto key = key_of_pattern(rule.pattern);
    if (!key || key->find('*') == std::string::npos) continue;
    if (rule.matched > 0) return false;
    any = true;
  }
  return any;
}

// Finds rules for other names: no rule that shards matches anything. Three
// signs show that they were meant for this model: they would match the names of
// another scheme; or nothing is sharded although every parameter has a rule; or
// there are more of them than slips would explain.
void find_name_mismatch(const LintInput& input, NamingMismatch& naming) {
  constexpr size_t kSlips = 2;
  const Plan& plan = input.plan;
  const std::vector<int> rules = sharding_rules(input);
  const auto is_found = [&](int r) { return rule_of(plan, r).matched > 0; };
  if (rules.empty() || input.manifest.size() == 0) return;
  naming.of_names = misses_layers(plan, rules);
  if (naming.of_names || std::ranges::any_of(rules, is_found)) return;
  find_other_scheme(input, rules, naming);
  naming.of_names = naming.other_rule > 0;
  if (naming.of_names || has_found_rule(input) || asks_for_shards(plan)) return;
  const bool has_unmatched = std::ranges::any_of(
      plan.placements, [&](const auto& p) { return plan.is_unmatched(p); });
  naming.of_names = !has_unmatched || rules.size() > kSlips;
}

// Returns the logical axes of the model.
std::set<std::string> model_labels(const Manifest& manifest) {
  std::set<std::string> labels;
  for (size_t i = 0; i < manifest.size(); ++i) {
    const AxisLabels* axes = manifest.axes(i);
    if (axes == nullptr) continue;
    for (const auto& label : *axes) {
      if (label) labels.insert(*label);
    }
  }
  return labels;
}

// Finds logical axis rules that do not apply to any label of the model.
void find_label_mismatch(const LintInput& input, NamingMismatch& naming) {
  if (input.rules == nullptr || asks_for_shards(input.plan)) return;
  std::set<std::string_view> placed;
  bool shards = false;
  for (const LogicalRule& rule : input.rules->logical_rules) {
    if (rule.name) placed.insert(*rule.name);
    shards = shards || !rule.axes.empty();
  }
  if (!shards || input.manifest.size() == 0) return;
  for (const std::string& label : model_labels(input.manifest)) {
    if (placed.contains(label)) return;
  }
  naming.of_labels = !has_found_rule(input) && !naming.of_names;
}

// Reporting of the mismatches.

// Adds facts about the parameters that are placed by none of the rules that
// shard.
void report_outcome(const LintInput& input, Diagnostics::Builder& report) {
  struct Share {
    int64_t parameters = 0;
    PerDevice bytes;
  };
  std::map<int, Share> shares;  // by catch-all; 0: no rule
  for (size_t i = 0; i < input.plan.placements.size(); ++i) {
    const Placement& placement = input.plan.placements[i];
    const bool caught =
        placement.rule > 0 &&
        matches_every_name(input, rule_of(input.plan, placement.rule));
    if (!caught && !input.plan.is_unmatched(placement)) continue;
    Share& share =
        shares.try_emplace(placement.rule, Share{0, PerDevice(input)})
            .first->second;
    share.parameters += std::ssize(input.of_placement.of(i));
    share.bytes.add(input.of_placement.of(i), placement.bytes_per_device);
  }
  double bytes = 0;
  for (const auto& [rule, share] : shares) {
    const auto held = static_cast<double>(share.bytes.most());
    bytes += held;
    report.fact((rule > 0 ? "only the catch-all " +
                                rule_text(input.plan, rule) + " matches "
                          : std::string("no rule matches ")) +
                plural(share.parameters, "parameter") + ": " +
                bytes_text(held) + " per device");
  }
  report.bytes(bytes);
}

std::string rules_found_nowhere(const LintInput& input) {
  const int64_t count =
      std::ranges::count_if(input.plan.rules, [&](const PlanRule& rule) {
        return input.plan.mesh.has_view(rule.view) && rule.matched == 0 &&
               !matches_every_name(input, rule);
      });
  return plural(count, "rule") + (count == 1 ? " matches" : " match") +
         " no name";
}

void report_other_scheme(const LintInput& input, Diagnostics& diags) {
  const NamingMismatch& naming = input.naming;
  const std::string_view name = input.manifest.name(naming.other_parameter);
  const std::string theirs = scheme_word(naming.other_name);
  const std::string ours = scheme_word(name);
  auto report = diags.report(Code::RulesForOtherNames, {},
                             "these rules are for " + theirs + " (" +
                                 in_backticks(end_of(naming.other_name)) +
                                 "), but the model has " + ours + " (" +
                                 in_backticks(end_of(name)) + ")");
  report.label(rule_span(input, naming.other_rule),
               "would match " + in_backticks(end_of(naming.other_name)));
  report.fact(rules_found_nowhere(input) + ", among them " +
              rule_text(input.plan, naming.other_rule));
  report_outcome(input, report);
  help_with_other_set(input, report);
  report.help("rewrite the rules for " + ours +
              ", or rename the model's parameters to those of the rules");
  // With a config, `--scheme` selects the names.
  if (input.manifest.format == kConfigFormat) {
    report.help(
        "`--scheme` gives them another framework's names and shapes: "
        "`shardplan list schemes`");
    return;
  }
  if ((theirs == kFlaxNames) != (ours == kFlaxNames)) {
    report.help(
        "renaming is not enough: a Flax kernel is [in, out] and a PyTorch "
        "weight [out, in], so swap the entries of each spec");
    report.help("the shipped sets handle both: `shardplan list rules`");
  }
}

void report_missed_names(const LintInput& input, Diagnostics& diags) {
  const std::vector<int> rules = sharding_rules(input);
  const int first = *std::ranges::find_if(
      rules, [&](int rule) { return rule_of(input.plan, rule).matched == 0; });
  auto report =
      diags.report(Code::RulesForOtherNames, {},
                   "the rules are for different names than the model's");
  report.label(rule_span(input, first), "matches no name");
  report.fact(rules_found_nowhere(input) + "; " + rule_text(input.plan, first) +
              " looks for " + in_backticks(rule_of(input.plan, first).pattern) +
              ", the model's first name is " +
              in_backticks(input.manifest.name(0)));
  report_outcome(input, report);
  help_with_other_set(input, report);
  report.help("`shardplan inspect` lists the model's names");
}

// Returns whether a logical axis has several mesh axes, as a spec's entries
// have.
bool has_many_axes(const RuleSet& rules) {
  return std::ranges::any_of(rules.logical_rules, [](const LogicalRule& rule) {
    return rule.axes.size() > 1;
  });
}

void report_missed_labels(const LintInput& input, Diagnostics& diags) {
  const std::set<std::string> labels = model_labels(input.manifest);
  std::vector<std::string> placed;
  Span where;
  for (const LogicalRule& rule : input.rules->logical_rules) {
    if (!rule.name || contains(placed, *rule.name)) continue;
    if (placed.empty()) where = rule.where;
    placed.push_back(*rule.name);
  }
  auto report = diags.report(
      Code::RulesForOtherNames, where,
      labels.empty() ? "the rules place logical axes, but the model has none"
                     : "the rules and the model use different logical axes");
  report.fact("the rules place " + quoted_list(placed));
  if (labels.empty()) {
    report.fact("no parameter of the model has `axes` (dimension labels)");
  } else {
    report.fact("the model has " + quoted_list({labels.begin(), labels.end()}));
  }
  report_outcome(input, report);
  const RuleForm* const form = form_of(input);
  if (labels.empty() && form != nullptr && !form->scheme.empty() &&
      input.manifest.format == kConfigFormat) {
    report.help("`--scheme " + std::string(form->scheme) +
                "` gives the parameters the names and logical axes that these "
                "rules expect; in `shardplan.yaml`, `scheme: " +
                std::string(form->scheme) + "`");
    return;
  }
  if (labels.empty() && has_many_axes(*input.rules)) {
    report.help(
        "if the names are patterns and each axis shards one dimension, write "
        "the second part of a rule as PartitionSpec(\"axis\", ..)");
  }
  if (labels.empty() && input.manifest.kinds != nullptr) {
    report.help("add `labels: architecture` to " +
                std::string(form_of(input) == nullptr
                                ? "the rules"
                                : "a second, YAML rules file") +
                " to label them by the model's architecture; `--rules "
                "@all_models` places all such labels");
    return;
  }
  report.help(labels.empty()
                  ? "give the parameters `axes` in a manifest, or write rules "
                    "for their names"
                  : "use the model's logical axes in the rules");
}

}  // namespace

std::string quoted_list(std::vector<std::string> names) {
  constexpr size_t kShown = 5;
  const bool has_more = names.size() > kShown;
  if (has_more) names.resize(kShown);
  return quoted_names(names, ", ") + (has_more ? ", .." : "");
}

void help_with_other_set(const LintInput& input, Diagnostics::Builder& report) {
  if (input.options.other_set.empty()) return;
  report.help("use `--rules " + input.options.other_set +
              "`, the shipped set for this model type");
}

NamingMismatch naming_mismatch(const LintInput& input) {
  NamingMismatch naming;
  find_name_mismatch(input, naming);
  find_label_mismatch(input, naming);
  naming.axes = unmentioned_axes(input);
  return naming;
}

void check_other_names(const LintInput& input, Diagnostics& diags) {
  const NamingMismatch& naming = input.naming;
  if (naming.other_rule > 0) {
    report_other_scheme(input, diags);
  } else if (naming.of_names) {
    report_missed_names(input, diags);
  }
  if (naming.of_labels) report_missed_labels(input, diags);
}

}  // namespace shardplan
