// SPDX-License-Identifier: Apache-2.0
// Fixes for rules: one that is missing, unused, in the wrong place, or matches
// too much.
#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "advise/name_pattern.h"
#include "advise/possible_fixes.h"
#include "base/checked.h"
#include "base/text.h"
#include "base/words.h"

namespace shardplan {
namespace {

// The most groups of names for which separate rules are written.
constexpr size_t kMaxAdded = 6;

// Returns new rules before `place` for the parameters: one if a single pattern
// suits all of them, else one per group of names that differ only in numbers.
// Each has the spec that `spec` returns for a parameter, which is the same for
// all parameters of a class. Empty if there are no such rules.
template <typename SpecOf>
std::vector<NewRule> rules_for(const Found& found,
                               std::span<const uint32_t> parameters, int place,
                               const SpecOf& spec) {
  if (parameters.empty()) return {};
  const Folding& folding = found.planned.folding;
  std::set<uint32_t> folded_names;
  std::set<PartitionSpec> specs;
  for (const uint32_t number : classes_of(found, parameters)) {
    const ParameterClass& c = folding.classes[number];
    folded_names.insert(c.folded);
    specs.insert(spec(static_cast<uint32_t>(c.first)));
  }
  if (specs.size() == 1) {
    if (const auto pattern = pattern_before(found, parameters, place)) {
      return {{*pattern, spec(parameters.front()),
               folded_names_of(found, parameters, place)}};
    }
  }
  if (folded_names.size() > kMaxAdded) return {};
  std::map<uint32_t, std::vector<uint32_t>> by_name;  // folded
  for (const uint32_t i : parameters) {
    by_name[folding.classes[folding.class_of[i]].folded].push_back(i);
  }
  std::vector<NewRule> rules;
  for (const auto& [folded, members] : by_name) {
    const auto pattern = pattern_before(found, members, place);
    if (!pattern) return {};
    rules.push_back(
        {*pattern, spec(members.front()), {folding.folded_names[folded]}});
  }
  return rules;
}

void add_insert(const Found& found, std::vector<NewRule> rules, int place,
                int tier, PossibleFixes& all) {
  if (rules.empty()) return;
  RuleChange change;
  change.kind = RuleChange::Kind::Insert;
  change.rule = place;
  change.added = std::move(rules);
  add_rule_change(found, std::move(change), tier, all);
}

// Returns the specs that rules give to parameters of the same shape, else of
// the same rank and the same last component of the name; that with the most
// bytes first.
std::vector<PartitionSpec> specs_by_analogy(const Found& found) {
  const Planned& planned = found.planned;
  const TensorType& type = found.placement().type;
  const auto leaf = [](std::string_view name) {
    return name.substr(name.find_last_of("/.") + 1);  // npos + 1 is 0
  };
  const std::string_view own =
      leaf(planned.manifest.name(found.parameters.front()));
  std::map<PartitionSpec, int64_t> same_shape;
  std::map<PartitionSpec, int64_t> same_role;
  found.work += std::ssize(planned.folding.classes);
  for (const ParameterClass& c : planned.folding.classes) {
    const Placement& other = planned.plan.placements[c.kind];
    if (other.rule == 0 || !other.corrections.empty()) continue;
    if (other.type.shape == type.shape) {
      same_shape[other.spec] += c.count * type.bytes();
    } else if (other.type.shape.size() == type.shape.size() &&
               leaf(planned.manifest.name(c.first)) == own) {
      same_role[other.spec] += c.count * other.type.bytes();
    }
  }
  std::vector<std::pair<int64_t, PartitionSpec>> ranked;
  for (const auto& [spec, bytes] :
       same_shape.empty() ? same_role : same_shape) {
    ranked.emplace_back(-bytes, spec);
  }
  std::ranges::sort(ranked);
  std::vector<PartitionSpec> specs;
  for (size_t i = 0; i < std::min<size_t>(2, ranked.size()); ++i) {
    specs.push_back(ranked[i].second);
  }
  return specs;
}

// Returns the architecture's labels of a class's dimensions; null if there are
// none.
const ParameterKind* kind_of(const Planned& planned, const ParameterClass& c) {
  const auto& kinds = planned.manifest.kinds;
  if (kinds == nullptr) return nullptr;
  const auto found = kinds->find({planned.folding.folded_names[c.folded],
                                  planned.plan.placements[c.kind].type.shape});
  return found == kinds->end() ? nullptr : &found->second;
}

// Returns the spec that follows from what rules do with dimensions of the same
// labels: a matrix from `mlp` to `hidden` gets the axes for its inputs that
// `mlp` has elsewhere, so that products fit together. Axes that remain are
// given to dimensions without any. Returns no value if no label is known.
std::optional<PartitionSpec> spec_by_labels(const Found& found) {
  const Planned& planned = found.planned;
  const Folding& folding = planned.folding;
  const ParameterKind* own =
      kind_of(planned, folding.classes[folding.class_of[found.parameters[0]]]);
  if (own == nullptr || own->size() < 2) return std::nullopt;
  std::map<std::string_view, std::map<AxisNames, int64_t>> by_label;
  found.work += std::ssize(folding.classes);
  for (const ParameterClass& c : folding.classes) {
    const Placement& other = planned.plan.placements[c.kind];
    if (other.rule == 0 || !other.corrections.empty()) continue;
    const ParameterKind* kind = kind_of(planned, c);
    if (kind == nullptr || kind->size() < 2) continue;
    for (size_t d = 0; d < std::min(kind->size(), other.spec.dims.size());
         ++d) {
      const std::string& label = (*kind)[d].axis;
      if (!label.empty() && !other.spec.dims[d].empty()) {
        by_label[label][other.spec.dims[d]] += c.count * other.type.bytes();
      }
    }
  }
  PartitionSpec spec;
  spec.dims.resize(own->size());
  AxisNames used;
  for (size_t d = 0; d < own->size(); ++d) {
    const auto known = by_label.find((*own)[d].axis);
    if (known == by_label.end()) continue;
    const auto most = std::ranges::max_element(
        known->second, {}, [](const auto& entry) { return entry.second; });
    const bool taken = std::ranges::any_of(
        most->first,
        [&](const AxisName& axis) { return contains(used, axis); });
    if (taken) continue;
    spec.dims[d] = most->first;
    used.insert(used.end(), most->first.begin(), most->first.end());
  }
  if (used.empty()) return std::nullopt;
  const auto sharded = [](const PartitionSpec& each) {
    return std::ranges::count_if(
        each.dims, [](const AxisNames& axes) { return !axes.empty(); });
  };
  const std::vector<PartitionSpec> ways =
      spread(planned, found.placement(), spec,
             free_axes(planned.plan, found.placement(), spec));
  const auto widest = std::ranges::max_element(ways, {}, sharded);
  return widest == ways.end() ? spec : *widest;
}

// SP101: places parameters like similar ones, else over all axes; or replicates
// them.
void add_unmatched(const Found& found, PossibleFixes& all) {
  const auto rules = static_cast<int>(found.planned.rules.rules.size());
  const int place = insertion_place(found.planned.rules, rules + 1);
  const auto append = [&](const PartitionSpec& spec, int tier) {
    add_insert(found,
               rules_for(found, found.parameters, place,
                         [&](uint32_t) { return spec; }),
               place, tier, all);
  };
  std::vector<PartitionSpec> specs = specs_by_analogy(found);
  if (auto spec = spec_by_labels(found)) {
    std::erase(specs, *spec);
    specs.insert(specs.begin(), std::move(*spec));
  }
  if (specs.empty() && found.placement().type.shape.size() > 1) {
    specs = spread(found.planned, found.placement(), {},
                   free_axes(found.planned.plan, found.placement(), {}));
    if (!specs.empty()) specs.resize(1);
  }
  const PartitionSpec replicated;
  for (const PartitionSpec& spec : specs) append(spec, 0);
  if (!contains(specs, replicated)) {
    append(replicated, specs.empty() ? 0 : 2);
  }
}

void add_remove(const Found& found, int rule, int tier, PossibleFixes& all) {
  if (!found.is_editable(rule)) return;
  RuleChange change;
  change.kind = RuleChange::Kind::Remove;
  change.rule = rule;
  add_rule_change(found, std::move(change), tier, all);
}

// SP102: replaces misspelt words of the pattern, or removes the rule. There may
// be many rules that match nothing and many names, so words are compared only
// for the first rules.
void add_unused_rule(const Found& found, PossibleFixes& all) {
  constexpr int64_t kMostWork = 200000;  // names compared, over all findings
  const int rule = found.diagnostic.subject.rule;
  if (rule < 1) return;
  const std::vector<std::string>& names = found.planned.folding.folded_names;
  const auto work = std::ssize(names);
  if (found.is_editable(rule) && found.work + work <= kMostWork) {
    found.work += work;
    if (auto meant = spelling_corrected(found.rule(rule).pattern, names)) {
      add_pattern_change(found, rule, *std::move(meant), all);
    }
  }
  add_remove(found, rule, 2, all);
}

// Limits the pattern to whole components or to an end of names. Only for
// patterns of plain words, since others may depend on numbers, which a trial
// must not.
void add_anchored(const Found& found, int rule, PossibleFixes& all) {
  const std::string& pattern = found.rule(rule).pattern;
  const bool plain = std::ranges::all_of(pattern, [](char c) {
    return is_letter(c) || c == '_' || c == '/' || c == '-';
  });
  if (!plain || pattern.empty()) return;
  for (const std::string& anchored :
       {"(^|[./])" + pattern + "([./]|$)", pattern + "$", "^" + pattern}) {
    add_pattern_change(found, rule, anchored, all);
  }
}

// SP103: moves the rule above those that decide its names, or narrows one of
// these.
void add_shadowed(const Found& found, PossibleFixes& all) {
  if (found.diagnostic.severity == Severity::Note) return;  // a spare catch-all
  const int rule = found.diagnostic.subject.rule;
  const std::vector<int>& takers = found.rule(rule).shadowed_by;
  RuleChange change;
  change.kind = RuleChange::Kind::Move;
  change.rule = rule;
  change.before = takers.front();
  add_rule_change(found, change, 0, all);
  if (takers.size() == 1) add_anchored(found, takers.front(), all);
  add_remove(found, rule, 2, all);
}

// SP106: writes separate rules for all ranks but the one with the most bytes,
// with the specs that they have.
void add_broad(const Found& found, PossibleFixes& all) {
  const int rule = found.diagnostic.subject.rule;
  const Plan& plan = found.planned.plan;
  std::map<size_t, int64_t> bytes;  // by rank
  found.work += std::ssize(plan.placement_of);
  for (const ParameterClass& c : found.planned.folding.classes) {
    const Placement& placement = plan.placements[c.kind];
    if (placement.rule != rule) continue;
    bytes[placement.type.shape.size()] += c.count * placement.type.bytes();
  }
  const auto largest = std::ranges::max_element(
      bytes, {}, [](const auto& entry) { return entry.second; });
  std::vector<uint32_t> others;
  for (uint32_t i = 0; i < plan.placement_of.size(); ++i) {
    const Placement& placement = plan.of(i);
    if (placement.rule == rule &&
        placement.type.shape.size() != largest->first) {
      others.push_back(i);
    }
  }
  const int place = insertion_place(found.planned.rules, rule);
  add_insert(found,
             rules_for(found, others, place,
                       [&](uint32_t i) { return plan.of(i).spec; }),
             place, 0, all);
  add_anchored(found, rule, all);
}

// SP107: replaces the catch-all's pattern by the names, or writes rules for
// them before it.
void add_catch_all(const Found& found, PossibleFixes& all) {
  const int rule = found.diagnostic.subject.rule;
  if (nth(found.planned.rules.rules, rule - 1).by_dialect) return;
  const PartitionSpec& spec = found.rule(rule).spec;
  const int place = insertion_place(found.planned.rules, rule);
  std::vector<NewRule> rules =
      rules_for(found, found.parameters, place, [&](uint32_t) { return spec; });
  if (rules.size() == 1) {
    add_pattern_change(found, rule, rules.front().pattern, all);
  }
  add_insert(found, std::move(rules), place, 0, all);
}

}  // namespace

void add_rule_fixes(const Found& found, PossibleFixes& all) {
  switch (found.diagnostic.code) {
    case Code::UnmatchedParameter:
      if (!found.parameters.empty()) add_unmatched(found, all);
      return;
    case Code::UnusedRule:
      return add_unused_rule(found, all);
    case Code::ShadowedRule:
      return add_shadowed(found, all);
    case Code::OverlyBroadPattern:
      return add_broad(found, all);
    case Code::CatchAllOnly:
      return add_catch_all(found, all);
    default:
      return;
  }
}

}  // namespace shardplan
