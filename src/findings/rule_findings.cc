// SPDX-License-Identifier: Apache-2.0
// Findings about rules: unmatched, unused, shadowed, too broad, catch-all.
#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/checked.h"
#include "base/text.h"
#include "base/words.h"
#include "core/fold.h"
#include "findings/checks.h"
#include "findings/findings.h"
#include "resolve/correct.h"
#include "resolve/match.h"
#include "resolve/name_resolution.h"

namespace shardplan {
namespace {

// Returns a pattern for the end of a name: its last two components.
std::string suggested_pattern(std::string_view name) {
  size_t at = name.find_last_of("/.");
  if (at != std::string_view::npos && at > 0) {
    at = name.find_last_of("/.", at - 1);
  }
  return escape_pattern(at == std::string_view::npos ? name
                                                     : name.substr(at + 1)) +
         "$";
}

// Uses the syntax of the file that has the last rule.
std::string help_to_replicate(const LintInput& input,
                              const std::string& pattern,
                              const std::string& name, bool many) {
  std::string text = "[\"" + pattern + "\", []]";
  const RuleForm* form =
      input.rules == nullptr
          ? nullptr
          : form_at(*input.rules,
                    static_cast<int>(input.rules->rules.size()) + 1);
  if (form != nullptr) {
    const std::vector<std::string> names = {name};
    const PartitionSpec whole;
    const auto written = form->rule == nullptr
                             ? std::nullopt
                             : form->rule(*input.rules, {pattern, whole, names,
                                                         input.plan.mesh});
    if (!written) return std::string(form->instead);
    text = *written;
  }
  return "a rule `" + text + "` would replicate " + (many ? "them" : "it");
}

// Returns whether the rule is an entry of a file whose entries have no order.
bool is_entry(const LintInput& input, int number) {
  if (input.rules == nullptr) return false;
  const Rule& rule = nth(input.rules->rules, number - 1);
  return rule.form != nullptr && !rule.form->unordered.empty() &&
         rule.where.file != nullptr;
}

// Returns "rule 3 (rules.yaml:7)"; an entry is named by its key.
std::string subject_text(const LintInput& input, int number) {
  const std::string text = rule_text(input.plan, number);
  if (!is_entry(input, number)) return text;
  std::string key(rule_span(input, number).text());
  std::erase_if(key, [](char c) { return c == '"' || c == '\''; });
  const size_t place = text.find(" (");
  return "the entry " + in_backticks(key) +
         (place == std::string::npos ? "" : text.substr(place));
}

// Other shipped rules do not help users who wrote their own.
bool all_are_shipped(const Plan& plan) {
  return std::ranges::all_of(plan.rules, &PlanRule::shipped);
}

// Returns whether a rule may place nothing without a finding: entries of a
// Hugging Face table may exist for what a module does, and a dialect may have a
// default for parameters without an entry.
bool may_idle(const LintInput& input, size_t number) {
  const PlanRule& rule = input.plan.rules[number];
  return names_no_axis(rule.spec) &&
         (key_of_pattern(rule.pattern).has_value() ||
          is_of_dialect(input, static_cast<int>(number) + 1));
}

// Returns the keys of such tables that matched. Each gives a rule for a
// module's weights and one for its bias; it is unused only if both are.
std::set<std::string> used_keys(const Plan& plan) {
  std::set<std::string> used;
  for (const PlanRule& rule : plan.rules) {
    const auto key = key_of_pattern(rule.pattern);
    if (key && rule.matched > 0) used.insert(*key);
  }
  return used;
}

// The parameters of each placement whose names a shadowed rule matches. No
// value if finding them would take too long.
using FoundIn = std::vector<std::vector<uint32_t>>;
std::optional<FoundIn> found_by_placement(const LintInput& input,
                                          const PlanRule& rule) {
  constexpr size_t kMaxNames = 100000;  // at most one second, over all rules
  const Manifest& manifest = input.manifest;
  if (manifest.size() > kMaxNames) return std::nullopt;
  FoundIn names(input.plan.placements.size());
  if (rule.matched == std::ssize(manifest)) {
    for (size_t i = 0; i < names.size(); ++i) {
      const std::span<const uint32_t> all = input.of_placement.of(i);
      names[i].assign(all.begin(), all.end());
    }
    return names;
  }
  RuleSet alone;
  alone.rules.push_back({rule.pattern, rule.spec, {}, {}, {}, false});
  Diagnostics ignored;
  const std::optional<Matcher> matcher =
      Matcher::compile(alone, manifest.names_are_plain(), ignored);
  if (!matcher) return std::nullopt;
  // Other rules decided every name that rules may decide.
  const std::set<int> takers(rule.shadowed_by.begin(), rule.shadowed_by.end());
  std::vector<int> found;
  for (size_t number = 0; number < names.size(); ++number) {
    const int winner = input.plan.placements[number].rule;
    if (winner > 0 && !takers.contains(winner)) continue;
    for (const uint32_t i : input.of_placement.of(number)) {
      matcher->find_one_by_one(manifest.name(i), found);
      if (!found.empty()) names[number].push_back(i);
    }
  }
  return names;
}

// Returns how the bytes per device would differ if its spec placed all names
// that a rule matches; "" if that is not known.
std::string comparison_text(const LintInput& input, const PlanRule& rule) {
  const auto names = found_by_placement(input, rule);
  if (!names) return "";
  PerDevice by_its_spec(input);
  PerDevice as_placed(input);
  for (size_t number = 0; number < names->size(); ++number) {
    const std::vector<uint32_t>& found = (*names)[number];
    if (found.empty()) continue;
    const Placement& placed = input.plan.placements[number];
    Placement other = placed;
    AxisNames taken;
    if (rule.deal.empty()) {
      other.dealt.reset();
    } else if (placed.dealt && placed.dealt->axis == rule.deal) {
      taken.push_back(rule.deal);
    } else {
      return "";  // the number on each rank is unknown
    }
    other.spec = correct(rule.spec, stored_shape(other), input.plan.mesh,
                         input.plan.declared_axes, input.plan.on_indivisible,
                         taken, rule.view)
                     .spec;
    measure(other, input.plan.mesh, input.plan.on_indivisible);
    by_its_spec.add(found, other.bytes_per_device, other.dealt);
    as_placed.add(found, placed.bytes_per_device);
  }
  return "with its spec they would take " + bytes_text(by_its_spec.most()) +
         " per device instead of " + bytes_text(as_placed.most());
}

// A shipped rule that only the user's own rules shadow is overridden on
// purpose.
bool is_overridden(const Plan& plan, const PlanRule& rule) {
  return rule.shipped &&
         std::ranges::none_of(rule.shadowed_by, [&](int winner) {
           return rule_of(plan, winner).shipped;
         });
}

// A rule of the mesh that only rules of views shadow is for meshes without
// them.
bool is_for_other_meshes(const Plan& plan, const PlanRule& rule) {
  return rule.view.empty() &&
         std::ranges::none_of(rule.shadowed_by, [&](int winner) {
           return rule_of(plan, winner).view.empty();
         });
}

// Returns the classes that each rule decided.
std::map<int, std::vector<uint32_t>> classes_by_rule(const LintInput& input) {
  std::map<int, std::vector<uint32_t>> result;
  for (size_t i = 0; i < input.folding.classes.size(); ++i) {
    const int rule = input.plan.placements[input.folding.classes[i].kind].rule;
    if (rule > 0) result[rule].push_back(static_cast<uint32_t>(i));
  }
  return result;
}

// Returns entries for parameters without one, if an entry is sure to be right.
std::vector<std::string> helps_for_entries(
    const LintInput& input, int rule, const std::vector<uint32_t>& classes) {
  constexpr size_t kMostEntries = 3;
  std::vector<std::string> helps;
  const RuleForm* form =
      input.rules == nullptr ? nullptr : form_at(*input.rules, rule);
  if (form != nullptr && form->rule != nullptr) {
    const AxisNames axis = {input.plan.mesh.axes().front().name};
    for (const PartitionSpec& spec :
         {PartitionSpec{{axis, {}}}, PartitionSpec{{{}, axis}}}) {
      for (const uint32_t number : classes) {
        const std::vector<std::string> names = {
            input.folding.folded_names[input.folding.classes[number].folded]};
        const auto entry =
            form->rule(*input.rules, {"", spec, names, input.plan.mesh});
        if (!entry || helps.size() == kMostEntries) continue;
        std::string help = "add `" + *entry + "` to " +
                           std::string(form->unordered) +
                           ", which already shards the rest of that block";
        if (!contains(helps, help)) {
          helps.push_back(std::move(help));
        }
      }
    }
  }
  const bool has_matrix = std::ranges::any_of(classes, [&](uint32_t number) {
    const ParameterClass& c = input.folding.classes[number];
    return input.plan.placements[c.kind].type.shape.size() > 1;
  });
  if (helps.empty() && form != nullptr && has_matrix) {
    helps.emplace_back(form->instead);
  }
  helps.emplace_back("`--allow SP107` if they are meant to be replicated");
  return helps;
}

// Returns whether a spec shards only over axes of FSDP. That suits every
// parameter, so the rule is a catch-all on purpose.
bool is_fsdp(const PartitionSpec& spec) {
  return !names_no_axis(spec) &&
         std::ranges::all_of(axes_in(spec), is_gathered_axis);
}

// One finding covers all parameters that lose the same label for the same
// reason.
struct LostLabel {
  Code code;
  std::string label;
  std::string reason;
  int rule;
  auto operator<=>(const LostLabel&) const = default;  // NOLINT: no pointer
};
struct Losers {
  PerDevice held;    // bytes
  PerDevice copied;  // bytes of `held` beyond an even share of each parameter
  int dim = 0;
  Span where = {};
  std::vector<std::string> names = {};
  int64_t count = 0;  // of parameters
};

// Returns the last rule of that name, after which another would be added.
Span last_rule_of(const LintInput& input, const std::string& label) {
  Span where;
  if (input.rules == nullptr) return where;
  for (const LogicalRule& rule : input.rules->logical_rules) {
    if (rule.name && *rule.name == label) where = rule.where;
  }
  return where;
}

void report_lost(const LintInput& input, const LostLabel& lost, Losers losers,
                 Diagnostics& diags) {
  const bool repeats = lost.code == Code::RepeatedLogicalAxis;
  const Severity severity = !repeats && input.options.raise_unplaced
                                ? Severity::Error
                                : code_info(lost.code).severity;
  auto report = diags.report(
      lost.code, severity, losers.where,
      repeats ? "the logical axes of " + names_text(losers.names) +
                    " are not unique"
              : "logical axis " + in_backticks(lost.label) + " of " +
                    names_text(losers.names) + " is not placed");
  const Span last = last_rule_of(input, lost.label);
  if (last && !repeats) report.label(last, "the last rule for it");
  // An unplaced label costs nothing if other labels shard the array.
  report.bytes(static_cast<double>(losers.copied.most()));
  report.fact(lost.reason);
  report.fact("dimension " + std::to_string(losers.dim) +
              " becomes unsharded: " + bytes_text(losers.held.most()) +
              " per device");
  if (repeats) {
    report.help("give each dimension of an array its own name");
  } else if (last) {
    report.help("add a later rule that maps " + in_backticks(lost.label) +
                " to other axes, or to none to leave it unsharded on purpose");
  } else {
    const RuleForm* form = form_of(input);
    report.help(form != nullptr && form->logical != nullptr
                    ? form->logical(lost.label)
                    : "add a rule `[" + lost.label +
                          ", null]`, or with axes instead of "
                          "`null`");
  }
  report.parameters(std::move(losers.names)).findings(losers.count);
}

}  // namespace

void check_unmatched(const LintInput& input, Diagnostics& diags) {
  for (size_t i = 0; i < input.folding.classes.size(); ++i) {
    const ParameterClass& c = input.folding.classes[i];
    const Placement& placement = input.plan.placements[c.kind];
    if (!input.plan.is_unmatched(placement)) continue;
    std::vector<std::string> names =
        names_of(input.manifest, input.of_class.of(i));
    const std::string suggestion = suggested_pattern(names.front());
    const bool many = names.size() > 1;
    const bool by_size = !placement.spec.dims.empty();
    auto report =
        diags.report(Code::UnmatchedParameter,
                     input.options.accept_unmatched
                         ? Severity::Note
                         : code_info(Code::UnmatchedParameter).severity,
                     input.manifest.where(c.first),
                     (many ? "parameters " : "parameter ") + names_text(names) +
                         (many ? " match no rule" : " matches no rule"));
    report.parameters(std::move(names)).findings(c.count);
    if (input.summary != nullptr) continue;  // the rest is never shown
    const auto bytes = static_cast<double>(
        per_device(input, input.of_class.of(i), placement.bytes_per_device));
    report.bytes(bytes);
    report.fact((by_size ? "placed by size: " + spec_text(placement.spec) + ", "
                         : std::string(many ? "they are " : "it is ") +
                               "replicated: ") +
                bytes_text(bytes) + " per device");
    if (input.rules != nullptr && !input.rules->logical_rules.empty()) {
      report.fact("the manifest gives no logical axes for " +
                  std::string(many ? "them" : "it") +
                  ", so the logical axis rules do not apply");
    }
    if (!input.options.accept_unmatched) {
      report.help(help_to_replicate(
          input, suggestion, input.folding.folded_names[c.folded], many));
    }
    if (all_are_shipped(input.plan)) help_with_other_set(input, report);
  }
}

void check_unused_rules(const LintInput& input, Diagnostics& diags) {
  std::set<std::string> reported = used_keys(input.plan);
  for (size_t i = 0; i < input.plan.rules.size(); ++i) {
    const PlanRule& rule = input.plan.rules[i];
    const int number = static_cast<int>(i) + 1;
    // Without a winner, none of the names that it matches could be decided.
    const bool only_scalars =
        rule.matched > 0 && rule.decided == 0 && rule.shadowed_by.empty();
    if (rule.shipped || (rule.matched > 0 && !only_scalars)) continue;
    if (!input.plan.mesh.has_view(rule.view)) continue;
    // This is reported once for all rules (SP115).
    if (input.naming.of_names && !only_scalars) continue;
    if (may_idle(input, i)) continue;
    const auto key = key_of_pattern(rule.pattern);
    if (key && !reported.insert(*key).second) continue;
    auto report = diags.report(
        Code::UnusedRule, rule_span(input, number),
        subject_text(input, number) +
            (only_scalars ? " matches scalars only, which are never sharded"
                          : " matches no parameter"));
    report.about({number, -1, ""});
    if (input.summary != nullptr) continue;
    report.fact("it places 0 bytes" +
                (is_entry(input, number)
                     ? ""
                     : "; pattern " + in_backticks(rule.pattern)));
    report.help("remove it");
    report.help("`shardplan inspect` lists the model's names");
  }
}

void check_shadowed_rules(const LintInput& input, Diagnostics& diags) {
  constexpr int kMaxCompared = 10;
  int compared = 0;
  for (size_t i = 0; i < input.plan.rules.size(); ++i) {
    const PlanRule& rule = input.plan.rules[i];
    if (rule.shadowed_by.empty() || is_overridden(input.plan, rule) ||
        is_for_other_meshes(input.plan, rule)) {
      continue;
    }
    if (may_idle(input, i)) continue;
    const int number = static_cast<int>(i) + 1;
    const int winner = rule.shadowed_by.front();
    // Many tables end in a rule for parameters that later models add.
    const bool is_spare = i + 1 == input.plan.rules.size() && i > 0 &&
                          matches_every_name(input, rule);
    auto report = diags.report(
        Code::ShadowedRule, is_spare ? Severity::Note : Severity::Warning, {},
        rule_text(input.plan, number) + " never applies");
    report.about({number, -1, ""});
    if (input.summary != nullptr) continue;
    std::string takers = "rule " + std::to_string(winner);
    if (rule.shadowed_by.size() > 1) {
      takers =
          "rules " + list_text(std::vector<int64_t>(rule.shadowed_by.begin(),
                                                    rule.shadowed_by.end()));
    }
    const std::string taken = "matches " + plural(rule.matched, "parameter") +
                              ", all placed by " + takers;
    if (const Span where = rule_span(input, number)) {
      report.label(where, taken);
      report.label(rule_span(input, winner),
                   "rule " + std::to_string(winner) +
                       " comes first and matches the same names");
    } else {
      report.fact(taken);
    }
    if (compared++ < kMaxCompared) {
      const std::string text = comparison_text(input, rule);
      if (!text.empty()) report.fact(text);
    }
    if (is_spare) {
      report.help(
          "no change needed: the final catch-all is for parameters that no "
          "other rule matches, and here there are none");
    } else {
      report.help("move rule " + std::to_string(number) + " above " + takers);
    }
  }
}

void check_broad_patterns(const LintInput& input, Diagnostics& diags) {
  for (const auto& [rule, classes] : classes_by_rule(input)) {
    std::set<size_t> ranks;
    int64_t parameters = 0;
    PerDevice bytes(input);
    for (const uint32_t number : classes) {
      const ParameterClass& c = input.folding.classes[number];
      const Placement& placement = input.plan.placements[c.kind];
      ranks.insert(placement.type.shape.size());
      parameters += c.count;
      bytes.add(input.of_class.of(number), placement.bytes_per_device);
    }
    if (ranks.size() > 1 && !is_of_dialect(input, rule)) {
      auto report =
          diags.report(Code::OverlyBroadPattern, rule_span(input, rule),
                       rule_text(input.plan, rule) + " matches parameters of " +
                           std::to_string(ranks.size()) + " different ranks");
      report.fact(plural(parameters, "parameter") + ", " +
                  bytes_text(bytes.most()) + " per device");
      report.help("one spec rarely suits several ranks: write a rule for each");
      report.about({rule, -1, ""});
    }
  }
}

void check_catch_alls(const LintInput& input, Diagnostics& diags) {
  if (input.naming.of_names || input.naming.of_labels) return;
  for (const auto& [rule, classes] : classes_by_rule(input)) {
    const PlanRule& asked = rule_of(input.plan, rule);
    if (!matches_every_name(input, asked) || is_fsdp(asked.spec)) continue;
    std::vector<std::string> names;
    PerDevice held(input);
    int64_t count = 0;
    for (const uint32_t number : classes) {
      const ParameterClass& c = input.folding.classes[number];
      count += c.count;
      append_names(input.manifest, input.of_class.of(number), names);
      held.add(input.of_class.of(number),
               input.plan.placements[c.kind].bytes_per_device);
    }
    const auto bytes = static_cast<double>(held.most());
    const bool is_default = is_of_dialect(input, rule);
    auto report = diags.report(
        Code::CatchAllOnly, rule_span(input, rule),
        (is_default ? "no entry of the plan names "
                    : "only the catch-all " + rule_text(input.plan, rule) +
                          " matches ") +
            names_text(names));
    report.bytes(bytes);
    report.about({rule, -1, ""});
    report.parameters(std::move(names)).findings(count);
    if (input.summary != nullptr) continue;
    if (is_default) {
      report.fact("they take " + bytes_text(bytes) +
                  " per device: modules without an entry are replicated");
      for (const std::string& help : helps_for_entries(input, rule, classes)) {
        report.help(help);
      }
    } else {
      report.fact("they take " + bytes_text(bytes) + " per device, with spec " +
                  spec_text(asked.spec));
      report.help(
          "write a rule for them, so that a new or misspelt name is "
          "noticed");
    }
  }
}

void check_lost_labels(const LintInput& input, Diagnostics& diags) {
  std::map<LostLabel, Losers> all;
  for (size_t i = 0; i < input.plan.placements.size(); ++i) {
    const Placement& placement = input.plan.placements[i];
    const std::span<const uint32_t> members = input.of_placement.of(i);
    // A repeated label gives one finding for all the labels of an array.
    bool repeats = false;
    for (const Correction& c : placement.corrections) {
      const bool is_repeat = c.code == Code::RepeatedLogicalAxis;
      if (!is_repeat && c.code != Code::UnplacedLogicalAxis) continue;
      if (is_repeat && std::exchange(repeats, true)) continue;
      // This is reported once for all labels (SP115).
      if (!is_repeat && input.naming.of_labels) continue;
      const std::string label = c.dropped.empty() ? "" : c.dropped.front();
      const auto [entry, is_new] =
          all.try_emplace({c.code, label, c.reason, placement.rule},
                          Losers{PerDevice(input), PerDevice(input)});
      Losers& losers = entry->second;
      if (is_new) {
        losers.dim = c.dim;
        losers.where = placement.rule > 0
                           ? spec_span(input, placement.rule, c.dim)
                           : input.manifest.where(members.front());
      }
      losers.count += count_of(input, members);
      losers.held.add(members, placement.bytes_per_device);
      losers.copied.add(members, placement.bytes_per_device -
                                     ceil_div(placement.type.bytes(),
                                              input.plan.mesh.devices()));
      append_names(input.manifest, members, losers.names);
    }
  }
  for (auto& [lost, losers] : all) {
    report_lost(input, lost, std::move(losers), diags);
  }
}

void check_ambiguous_axes(const LintInput& input, Diagnostics& diags) {
  if (input.rules == nullptr || input.rules->logical_rules.empty()) return;
  const Vocabulary names(*input.rules, input.plan.mesh, {});
  for (const Rule& rule : input.rules->rules) {
    for (size_t dim = 0; dim < rule.spec.dims.size(); ++dim) {
      for (const AxisName& name : rule.spec.dims[dim]) {
        if (!names.is_ambiguous(name)) continue;
        const Span where =
            dim < rule.dim_where.size() ? rule.dim_where[dim] : rule.spec_where;
        auto report = diags.error(
            Code::AmbiguousAxis, where,
            in_backticks(name) + " is a mesh axis and a logical axis");
        report.label(last_rule_of(input, name), "the logical axis");
        report.fact("it is read as the mesh axis, of size " +
                    std::to_string(input.plan.mesh.size_of(name)));
        report.help("write `mesh:" + name + "` or `logical:" + name + "`");
      }
    }
  }
}

void check_overridden_labels(const LintInput& input, Diagnostics& diags) {
  if (input.rules == nullptr || input.rules->logical_rules.empty()) return;
  std::map<int, std::vector<uint32_t>> labelled;  // parameters by their rule
  for (size_t i = 0; i < input.manifest.size(); ++i) {
    const int rule = input.plan.of(i).rule;
    if (rule < 1 || input.manifest.axes(i) == nullptr) continue;
    labelled[rule].push_back(static_cast<uint32_t>(i));
  }
  for (const auto& [rule, parameters] : labelled) {
    if (!matches_every_name(input, rule_of(input.plan, rule))) continue;
    std::vector<std::string> names = names_of(input.manifest, parameters);
    auto report =
        diags.report(Code::OverriddenLogicalAxes, rule_span(input, rule),
                     "the catch-all " + rule_text(input.plan, rule) +
                         " overrides the logical axes of " + names_text(names));
    report.fact(
        "rules that match names take precedence over logical axis rules");
    report.help(is_of_dialect(input, rule)
                    ? "give the plan alone: it replicates every parameter it "
                      "does not name, so logical axis rules never apply"
                    : "remove the catch-all: parameters that no rule matches "
                      "are then placed by their logical axes");
    report.about({rule, -1, ""});
    report.parameters(std::move(names)).findings(count_of(input, parameters));
  }
}

void check_merged_layouts(const LintInput& input, Diagnostics& diags) {
  for (const auto& [rule, classes] : classes_by_rule(input)) {
    const PlanRule& of = rule_of(input.plan, rule);
    const auto key = key_of_pattern(of.pattern);
    if (!key || !contains(*key, '*')) continue;
    // Keyed by a name with every digit folded: the names, with only whole
    // numbers between dots folded, that it covers, each with its first class.
    std::map<std::string, std::map<std::string, uint32_t>> merged;
    for (const uint32_t number : classes) {
      const std::string& name =
          input.folding.folded_names[input.folding.classes[number].folded];
      merged[fold_digits(name, DigitFolding::EveryRun)].emplace(name, number);
    }
    for (const auto& [folded, kinds] : merged) {
      const auto type_of = [&](uint32_t number) -> const TensorType& {
        return input.plan.placements[input.folding.classes[number].kind].type;
      };
      const Shape& first = type_of(kinds.begin()->second).shape;
      const bool differ = std::ranges::any_of(kinds, [&](const auto& kind) {
        return type_of(kind.second).shape != first;
      });
      if (!differ) continue;
      auto report = diags.report(
          Code::MergedLayouts, rule_span(input, rule),
          in_backticks(*key) + " covers parameters of different types");
      std::vector<std::string> names;
      constexpr size_t kShown = 4;
      size_t shown = 0;
      for (const auto& [name, number] : kinds) {
        if (shown++ < kShown) {
          report.fact(in_backticks(name) + " is " + type_text(type_of(number)));
        }
        append_names(input.manifest, input.of_class.of(number), names);
      }
      report.fact("all are sharded as " + spec_text(of.spec) +
                  ", since `*` stands for any number in a name");
      report.help(
          "transformers 5.2 and later tell such names apart: give each an "
          "entry, and add `\"transformers_version\": \"5.2.0\"` next to the "
          "plan");
      report.about({rule, -1, ""});
      report.parameters(std::move(names)).findings(1);
    }
  }
}

}  // namespace shardplan
