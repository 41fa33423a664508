// SPDX-License-Identifier: Apache-2.0
// Fixes for rules: one that is missing, unused, in the wrong place, or matches
// too much. Then fixes for entries of specs.
#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "advise/name_pattern.h"
#include "advise/possible_fixes.h"
#include "base/text.h"
#include "base/words.h"

namespace shardplan {
namespace {

// The most groups of names for which separate rules are written.
constexpr size_t kMaxAdded = 6;

const PlanRule& rule_of(const Found& found, int rule) {
  return found.planned.plan.rules[static_cast<size_t>(rule) - 1];
}

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
        known->second,
        [](const auto& a, const auto& b) { return a.second < b.second; });
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
  const auto widest = std::ranges::max_element(
      ways,
      [&](const auto& a, const auto& b) { return sharded(a) < sharded(b); });
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
  const auto index = static_cast<size_t>(rule) - 1;
  if (!is_editable(found.planned.rules.rules[index])) return;
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
  const auto index = static_cast<size_t>(rule) - 1;
  const std::vector<std::string>& names = found.planned.folding.folded_names;
  const auto work = std::ssize(names);
  if (is_editable(found.planned.rules.rules[index]) &&
      found.work + work <= kMostWork) {
    found.work += work;
    if (auto meant = spelling_corrected(rule_of(found, rule).pattern, names)) {
      RuleChange change;
      change.kind = RuleChange::Kind::SetPattern;
      change.rule = rule;
      change.pattern = std::move(*meant);
      add_rule_change(found, std::move(change), 0, all);
    }
  }
  add_remove(found, rule, 2, all);
}

// Limits the pattern to whole components or to an end of names. Only for
// patterns of plain words, since others may depend on numbers, which a trial
// must not.
void add_anchored(const Found& found, int rule, PossibleFixes& all) {
  const std::string& pattern = rule_of(found, rule).pattern;
  const bool plain = std::ranges::all_of(pattern, [](char c) {
    return is_letter(c) || c == '_' || c == '/' || c == '-';
  });
  const auto index = static_cast<size_t>(rule) - 1;
  if (!plain || pattern.empty() ||
      !is_editable(found.planned.rules.rules[index])) {
    return;
  }
  for (const std::string& anchored :
       {"(^|[./])" + pattern + "([./]|$)", pattern + "$", "^" + pattern}) {
    RuleChange change;
    change.kind = RuleChange::Kind::SetPattern;
    change.rule = rule;
    change.pattern = anchored;
    add_rule_change(found, std::move(change), 0, all);
  }
}

// SP103: moves the rule above those that decide its names, or narrows one of
// these.
void add_shadowed(const Found& found, PossibleFixes& all) {
  if (found.diagnostic.severity == Severity::Note) return;  // a spare catch-all
  const int rule = found.diagnostic.subject.rule;
  const std::vector<int>& takers = rule_of(found, rule).shadowed_by;
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
      bytes, [](const auto& a, const auto& b) { return a.second < b.second; });
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
  const auto index = static_cast<size_t>(rule) - 1;
  if (found.planned.rules.rules[index].by_dialect) return;
  const PartitionSpec& spec = rule_of(found, rule).spec;
  const int place = insertion_place(found.planned.rules, rule);
  std::vector<NewRule> rules =
      rules_for(found, found.parameters, place, [&](uint32_t) { return spec; });
  if (rules.size() == 1 && is_editable(found.planned.rules.rules[index])) {
    RuleChange change;
    change.kind = RuleChange::Kind::SetPattern;
    change.rule = rule;
    change.pattern = rules.front().pattern;
    add_rule_change(found, std::move(change), 0, all);
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

// Fixes for entries of specs: axes that do not exist, are used twice, are
// beyond the rank, or are missing where they would help.

namespace {

bool is_known(const Plan& plan, const AxisName& axis) {
  const AxisNames& declared = plan.declared_axes;
  return plan.mesh.find(axis) || axis == kUnconstrained ||
         contains(declared, axis);
}

const PartitionSpec& spec_of(const Found& found) {
  const auto rule = static_cast<size_t>(found.diagnostic.subject.rule);
  return found.planned.plan.rules[rule - 1].spec;
}

// Changes the spec of the finding's rule. A rule that decides nothing has no
// parameters that need a rule of their own.
void respec(const Found& found, const PartitionSpec& spec, int tier,
            PossibleFixes& all) {
  const int rule = found.diagnostic.subject.rule;
  if (!found.parameters.empty()) {
    add_respec(found, rule, found.parameters, spec, tier, all);
    return;
  }
  if (!is_editable(found.planned.rules.rules[static_cast<size_t>(rule) - 1])) {
    return;
  }
  RuleChange change;
  change.rule = rule;
  change.spec = spec;
  add_rule_change(found, std::move(change), tier, all);
}

// SP201: uses the axis that was probably meant, or none.
void add_unknown(const Found& found, PossibleFixes& all) {
  const Plan& plan = found.planned.plan;
  const Subject& subject = found.diagnostic.subject;
  const auto dim = static_cast<size_t>(subject.dim);
  const PartitionSpec& asked = spec_of(found);
  const auto rule = static_cast<size_t>(subject.rule) - 1;
  const std::string& view = plan.rules[rule].view;
  std::vector<std::string> known = plan.mesh.has_view(view)
                                       ? all_names(plan.mesh.axes_of(view))
                                       : std::vector<std::string>();
  known.insert(known.end(), plan.declared_axes.begin(),
               plan.declared_axes.end());
  std::vector<std::string> meant;
  if (const auto near = nearest(subject.axis, known)) meant.push_back(*near);
  if (known.size() == 1 && meant.empty()) meant.push_back(known.front());
  for (const std::string& axis : meant) {
    PartitionSpec spec = asked;
    std::ranges::replace(spec.dims[dim], AxisName(subject.axis), axis);
    respec(found, spec, 0, all);
  }
  PartitionSpec without = asked;
  erase_if(without.dims[dim],
           [&](const AxisName& axis) { return !is_known(plan, axis); });
  respec(found, without, 2, all);
}

// SP202: removes the later use or the earlier one.
void add_repeated(const Found& found, PossibleFixes& all) {
  const auto dim = static_cast<size_t>(found.diagnostic.subject.dim);
  const PartitionSpec& asked = spec_of(found);
  AxisNames earlier;
  for (size_t i = 0; i < dim; ++i) {
    earlier.insert(earlier.end(), asked.dims[i].begin(), asked.dims[i].end());
  }
  PartitionSpec later_gone = asked;
  AxisNames kept;
  for (const AxisName& axis : asked.dims[dim]) {
    const auto is_axis = [&](const AxisName& other) { return other == axis; };
    if (std::ranges::none_of(earlier, is_axis) &&
        std::ranges::none_of(kept, is_axis)) {
      kept.push_back(axis);
    }
  }
  later_gone.dims[dim] = kept;
  respec(found, later_gone, 0, all);

  PartitionSpec earlier_gone = asked;
  earlier_gone.dims[dim].clear();
  for (const AxisName& axis : asked.dims[dim]) {
    AxisNames& now = earlier_gone.dims[dim];
    if (!contains(now, axis)) now.push_back(axis);
  }
  for (size_t i = 0; i < dim; ++i) {
    erase_if(earlier_gone.dims[i], [&](const AxisName& axis) {
      return contains(asked.dims[dim], axis);
    });
  }
  if (earlier_gone != later_gone) respec(found, earlier_gone, 0, all);
}

// SP104: removes the entries beyond the rank.
void add_too_long(const Found& found, PossibleFixes& all) {
  if (found.parameters.empty()) return;
  PartitionSpec spec = spec_of(found);
  spec.dims.resize(
      std::min(spec.dims.size(), found.placement().type.shape.size()));
  respec(found, spec, 0, all);
}

// SP302: shards over the free axes where they divide.
void add_replicated(const Found& found, PossibleFixes& all) {
  if (found.parameters.empty() || !asks_by_axes(found.placement())) return;
  const Placement& placement = found.placement();
  const AxisNames free =
      free_axes(found.planned.plan, placement, placement.spec);
  for (const PartitionSpec& spec :
       spread(found.planned, placement, *placement.requested, free)) {
    add_respec(found, placement.rule, found.parameters, spec, 0, all);
  }
}

// SP204, SP208: adds the axis to the rules whose parameters have the most
// bytes.
void add_unused(const Found& found, PossibleFixes& all) {
  // The axis is meant for copies, or has another name in the rules.
  if (found.diagnostic.subject.axis.empty()) return;
  constexpr size_t kRules = 3;
  const Planned& planned = found.planned;
  found.work += std::ssize(planned.folding.classes);
  std::map<int, int64_t> bytes;      // per device, by rule
  std::map<int, uint32_t> first_of;  // its largest placement
  for (const ParameterClass& c : planned.folding.classes) {
    const Placement& placement = planned.plan.placements[c.kind];
    if (!asks_by_axes(placement) || placement.type.shape.empty()) continue;
    bytes[placement.rule] +=
        most_held(placement.dealt, c.count) * placement.bytes_per_device;
    const auto [entry, is_new] = first_of.try_emplace(placement.rule, c.kind);
    if (!is_new && planned.plan.placements[entry->second].bytes_per_device <
                       placement.bytes_per_device) {
      entry->second = c.kind;
    }
  }
  std::vector<std::pair<int64_t, int>> largest;
  for (const auto& [rule, held] : bytes) largest.emplace_back(-held, rule);
  std::ranges::sort(largest);
  for (size_t i = 0; i < std::min(kRules, largest.size()); ++i) {
    const int rule = largest[i].second;
    const Placement& placement = planned.plan.placements[first_of.at(rule)];
    RuleChange change;
    change.rule = rule;
    const std::vector<PartitionSpec> specs =
        spread(planned, placement, *placement.requested,
               {found.diagnostic.subject.axis});
    if (specs.empty() ||
        !is_editable(planned.rules.rules[static_cast<size_t>(rule) - 1])) {
      continue;
    }
    change.spec = specs.front();
    add_rule_change(found, std::move(change), 0, all);
  }
}

}  // namespace

void add_spec_fixes(const Found& found, PossibleFixes& all) {
  // Specs of logical or semantic axes are changed where those are defined.
  const Code code = found.diagnostic.code;
  const bool is_of_entry = code == Code::UnknownAxis ||
                           code == Code::RepeatedAxis ||
                           code == Code::SpecLongerThanRank;
  const bool is_of_rule = found.diagnostic.subject.rule > 0;
  if (is_of_entry && !is_of_rule) return;
  // A dimension beyond the spec stands for the axis of `deal`.
  if (is_of_entry && code != Code::SpecLongerThanRank) {
    const auto& [rule, dim, axis] = found.diagnostic.subject;
    const auto& spec =
        found.planned.plan.rules[static_cast<size_t>(rule) - 1].spec;
    if (dim >= std::ssize(spec.dims)) return;
  }
  if (is_of_rule && !found.parameters.empty() &&
      !asks_by_axes(found.placement())) {
    return;
  }
  switch (found.diagnostic.code) {
    case Code::UnknownAxis:
      return add_unknown(found, all);
    case Code::RepeatedAxis:
      return add_repeated(found, all);
    case Code::SpecLongerThanRank:
      return add_too_long(found, all);
    case Code::LargeReplicatedParameter:
      return add_replicated(found, all);
    default:
      return add_unused(found, all);
  }
}

}  // namespace shardplan
