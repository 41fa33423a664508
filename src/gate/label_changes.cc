// SPDX-License-Identifier: Apache-2.0
// Compares the rules of each label, and the labels that share an array.
#include "gate/label_changes.h"

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

#include "base/checked.h"
#include "base/text.h"
#include "base/words.h"
#include "core/partition_axis.h"
#include "gate/spec_changes.h"
#include "resolve/name_resolution.h"

namespace shardplan {
namespace {

using LabelName = std::optional<std::string>;

// The limit on pairs of labels to compare when no array is known. No framework
// has enough rules to reach it.
constexpr size_t kMostPairs = 50'000;

// The labels of one side.
struct Labels {
  explicit Labels(const RuleSet& side)
      : rules(side), index(side.logical_rules) {
    for (size_t i = 0; i < rules.logical_rules.size(); ++i) {
      const LogicalRule& rule = rules.logical_rules[i];
      auto& numbers = of[rule.name];
      if (numbers.empty()) order.push_back(rule.name);
      numbers.push_back(i);
    }
    for (const LabelName& label : order) {
      alone_axes[label] = map({label}).dims.front().axes;
    }
  }

  const LogicalRule* rule_of(const LabelName& label, size_t occurrence) const {
    const auto found = of.find(label);
    if (found == of.end() || occurrence >= found->second.size()) return nullptr;
    return &rules.logical_rules[found->second[occurrence]];
  }
  Span where(const LabelName& label) const {
    const LogicalRule* rule = rule_of(label, 0);
    return rule == nullptr ? Span() : rule->where;
  }
  LogicalMapping map(const AxisLabels& labels) const {
    return map_logical_axes(labels, rules.logical_rules, FlaxVersion::Current,
                            rules.logical_reading, {}, &index);
  }
  // Returns the axes of a label that has no other label beside it.
  const AxisNames& alone(const LabelName& label) const {
    static const AxisNames kNone;
    const auto found = alone_axes.find(label);
    return found == alone_axes.end() ? kNone : found->second;
  }

  const RuleSet& rules;
  LogicalIndex index;
  std::map<LabelName, std::vector<size_t>> of;  // rules, 0-based
  std::vector<LabelName> order;
  std::map<LabelName, AxisNames> alone_axes;
};

PartitionSpec one_dimension(const AxisNames& axes) { return {{axes}}; }

std::string label_text(const LabelName& label) {
  return label.value_or("None");
}

// Returns the axes of `axes` that `others` has as well.
AxisNames shared_axes(AxisNames axes, const AxisNames& others) {
  erase_if(axes, [&](const AxisName& axis) { return !contains(others, axis); });
  return axes;
}

// Compares the rules of one label by their order.
void add_own_changes(const LabelName& label, const Labels& before,
                     const Labels& after, std::vector<RuleSetChange>& changes) {
  for (size_t i = 0;; ++i) {
    const LogicalRule* old_rule = before.rule_of(label, i);
    const LogicalRule* new_rule = after.rule_of(label, i);
    if (old_rule == nullptr && new_rule == nullptr) return;
    if (old_rule != nullptr && new_rule != nullptr &&
        old_rule->axes == new_rule->axes) {
      continue;
    }
    RuleSetChange& change = changes.emplace_back();
    change.kind = ChangeKind::Label;
    change.how = i > 0                 ? ChangeHow::Fallback
                 : old_rule == nullptr ? ChangeHow::Added
                 : new_rule == nullptr ? ChangeHow::Removed
                                       : ChangeHow::Changed;
    change.what = label_text(label);
    change.occurrence = static_cast<int>(i);
    if (old_rule != nullptr) {
      change.before = one_dimension(old_rule->axes);
      change.before_where = old_rule->where;
    }
    if (new_rule != nullptr) {
      change.after = one_dimension(new_rule->axes);
      change.after_where = new_rule->where;
    }
    describe_difference(change.before, change.after, change);
  }
}

// Labels that occur in one array, and where the array is from.
struct LabelArray {
  AxisLabels labels;
  std::string witness;
  std::string witness_of;
  RuleSetChange::From from = RuleSetChange::From::Nowhere;
};

void add_array(AxisLabels labels, std::string_view witness,
               std::string_view witness_of, RuleSetChange::From from,
               std::set<AxisLabels>& seen, std::vector<LabelArray>& arrays) {
  std::erase_if(labels, [](const LabelName& label) { return !label; });
  const std::set<LabelName> distinct(labels.begin(), labels.end());
  if (labels.size() < 2 || distinct.size() != labels.size()) return;
  if (!seen.insert(labels).second) return;
  arrays.push_back(
      {std::move(labels), std::string(witness), std::string(witness_of), from});
}

std::vector<LabelArray> known_arrays(const RuleComparison& comparison) {
  std::vector<LabelArray> arrays;
  std::set<AxisLabels> seen;
  for (const Manifest* model : comparison.models) {
    for (size_t i = 0; i < model->size(); ++i) {
      if (model->axes(i) == nullptr) continue;
      add_array(*model->axes(i), model->name(i), model->title,
                RuleSetChange::From::Model, seen, arrays);
    }
  }
  for (const RuleSet* rules : {&comparison.after, &comparison.before}) {
    const SpecMeaning meaning(*rules);
    for (const std::vector<Rule>* list : {&rules->rules, &rules->activations}) {
      for (const Rule& rule : *list) {
        add_array(meaning.labels_of(rule), rule.pattern, "",
                  RuleSetChange::From::Patterns, seen, arrays);
      }
    }
  }
  return arrays;
}

// How one side maps one label of an array.
struct InArray {
  bool is_known = false;  // the side has rules for it
  AxisNames axes;
  AxisNames denied;  // axes that it has alone, but not here
  int blocked = 0;   // 1-based rule that was blocked first
};

InArray in_array(const Labels& side, const LogicalMapping& mapping,
                 const AxisLabels& labels, size_t i) {
  InArray here;
  here.is_known = side.of.contains(labels[i]);
  if (mapping.dims.empty()) return here;
  const LogicalDim& dim = mapping.dims[i];
  here.axes = dim.axes;
  here.denied = without(side.alone(labels[i]), dim.axes);
  if (!dim.blocked.empty()) here.blocked = dim.blocked.front();
  // In this reading every name means its axes, so the later of two dimensions
  // loses shared axes.
  if (side.rules.logical_reading == LogicalReading::Mapping) {
    for (size_t j = 0; j < i; ++j) {
      const AxisNames taken = shared_axes(dim.axes, mapping.dims[j].axes);
      here.denied.insert(here.denied.end(), taken.begin(), taken.end());
    }
    here.axes = without(here.axes, here.denied);
  }
  return here;
}

// The label that has an axis which label `i` asks for.
struct Rival {
  std::optional<size_t> label;
  AxisNames axes;
};

Rival rival_of(const Labels& side, const LogicalMapping& mapping, size_t i,
               const InArray& here) {
  const AxisNames& wanted =
      here.blocked > 0 ? nth(side.rules.logical_rules, here.blocked - 1).axes
                       : here.denied;
  for (size_t j = 0; j < mapping.dims.size(); ++j) {
    if (j == i) continue;
    AxisNames shared = shared_axes(wanted, mapping.dims[j].axes);
    if (!shared.empty()) return {j, std::move(shared)};
  }
  return {};
}

// The same contest in several arrays is reported once.
using ContestKey =
    std::tuple<std::string, std::string, AxisNames, AxisNames, AxisNames>;

void add_contests(const LabelArray& array, const Labels& before,
                  const Labels& after, std::set<ContestKey>& reported,
                  std::vector<RuleSetChange>& changes) {
  const LogicalMapping old_map = before.map(array.labels);
  const LogicalMapping new_map = after.map(array.labels);
  for (size_t i = 0; i < array.labels.size(); ++i) {
    const LabelName& label = array.labels[i];
    const InArray was = in_array(before, old_map, array.labels, i);
    const InArray is = in_array(after, new_map, array.labels, i);
    if (!is.is_known) continue;
    // Leave out what changes of the label's own rules explain, which is
    // reported.
    const AxisNames& alone_before = before.alone(label);
    const AxisNames& alone_after = after.alone(label);
    const AxisNames lost =
        without(without(was.axes, is.axes), without(alone_before, alone_after));
    const AxisNames gained =
        without(without(is.axes, was.axes), without(alone_after, alone_before));
    const AxisNames denied = without(without(is.denied, was.denied), lost);
    if (lost.empty() && gained.empty() && denied.empty()) continue;
    const bool won = lost.empty() && denied.empty();
    const Rival rival = won ? rival_of(before, old_map, i, was)
                            : rival_of(after, new_map, i, is);
    if (!rival.label) continue;
    const LabelName& other = array.labels[*rival.label];
    const bool is_new = reported
                            .insert({label_text(label), label_text(other), lost,
                                     gained, denied})
                            .second;
    if (!is_new) continue;
    RuleSetChange& change = changes.emplace_back();
    change.kind = ChangeKind::Label;
    change.how = ChangeHow::Contest;
    change.what = label_text(label);
    if (was.is_known) change.before = one_dimension(was.axes);
    change.after = one_dimension(is.axes);
    change.before_where = before.where(label);
    change.after_where = after.where(label);
    change.lost = lost;
    change.gained = gained;
    change.dims = {{0, lost, gained}};
    change.contested = rival.axes;
    for (const AxisNames* axes : {&lost, &gained, &denied}) {
      add_names(change.matters, *axes);
    }
    change.by = label_text(other);
    change.by_where = (won ? before : after).where(other);
    change.witness = array.witness;
    change.witness_of = array.witness_of;
    change.from = array.from;
  }
}

// Returns pairs of labels whose rules name a common axis, on either side.
std::set<std::pair<size_t, size_t>> rival_pairs(
    const std::vector<LabelName>& all, const Labels& before,
    const Labels& after) {
  std::map<LabelName, size_t> number_of;
  std::map<AxisName, std::set<size_t>> by_axis;
  for (size_t i = 0; i < all.size(); ++i) number_of[all[i]] = i;
  for (const Labels* side : {&before, &after}) {
    for (const LogicalRule& rule : side->rules.logical_rules) {
      if (!rule.name) continue;
      for (const AxisName& axis : rule.axes) {
        by_axis[axis].insert(number_of.at(rule.name));
      }
    }
  }
  std::set<std::pair<size_t, size_t>> pairs;
  for (const auto& [axis, labels] : by_axis) {
    for (auto a = labels.begin(); a != labels.end(); ++a) {
      for (auto b = std::next(a); b != labels.end(); ++b) {
        if (pairs.size() >= kMostPairs) return pairs;
        pairs.emplace(*a, *b);
      }
    }
  }
  return pairs;
}

void add_all_contests(const std::vector<LabelName>& all,
                      const RuleComparison& comparison, const Labels& before,
                      const Labels& after, RuleSetChanges& found) {
  std::vector<RuleSetChange>& changes = found.changes;
  std::set<ContestKey> reported;
  std::set<LabelName> placed;  // labels whose arrays are known
  std::set<std::pair<LabelName, LabelName>> together;
  for (const LabelArray& array : known_arrays(comparison)) {
    add_contests(array, before, after, reported, changes);
    for (const LabelName& a : array.labels) {
      if (array.from == RuleSetChange::From::Model) placed.insert(a);
      for (const LabelName& b : array.labels) together.emplace(a, b);
    }
  }
  const auto pairs = rival_pairs(all, before, after);
  if (pairs.size() >= kMostPairs) {
    found.notes.push_back(
        "only the first " + count_text(kMostPairs) +
        " pairs of labels were checked for axes that both claim");
  }
  for (const auto& [first, second] : pairs) {
    const LabelName& a = all[first];
    const LabelName& b = all[second];
    if (together.contains({a, b}) ||
        (placed.contains(a) && placed.contains(b))) {
      continue;
    }
    add_contests({{a, b}, "", "", RuleSetChange::From::Nowhere}, before, after,
                 reported, changes);
  }
}

PartitionAxis partition_axis_of(const RuleSet& rules) {
  if (rules.partition_axis) return *rules.partition_axis;
  Diagnostics none;
  auto axis = resolve_partition_axis(default_partition_axis(), none);
  SHARDPLAN_CHECK(axis.has_value());
  return *std::move(axis);
}

void add_semantic_changes(const RuleComparison& comparison,
                          std::vector<RuleSetChange>& changes) {
  // Tables that are derived from labels change with them.
  if (!comparison.before.partition_axis_where &&
      !comparison.after.partition_axis_where) {
    return;
  }
  const PartitionAxis before = partition_axis_of(comparison.before);
  const PartitionAxis after = partition_axis_of(comparison.after);
  for (size_t i = 0; i < kPartitionFields; ++i) {
    if (before.at(i) == after.at(i)) continue;
    RuleSetChange& change = changes.emplace_back();
    change.kind = ChangeKind::Label;
    change.what = partition_fields()[i].name;
    change.before = one_dimension(before.at(i)->axes);
    change.after = one_dimension(after.at(i)->axes);
    change.before_where = comparison.before.partition_axis_where;
    change.after_where = comparison.after.partition_axis_where;
    describe_difference(change.before, change.after, change);
  }
}

}  // namespace

void add_label_changes(const RuleComparison& comparison,
                       RuleSetChanges& found) {
  const Labels before(comparison.before);
  const Labels after(comparison.after);
  std::vector<LabelName> all = after.order;
  for (const LabelName& label : before.order) {
    if (!after.of.contains(label)) all.push_back(label);
  }
  for (const LabelName& label : all) {
    add_own_changes(label, before, after, found.changes);
  }
  add_all_contests(all, comparison, before, after, found);
  add_semantic_changes(comparison, found.changes);
}

}  // namespace shardplan
