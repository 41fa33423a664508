// SPDX-License-Identifier: Apache-2.0
#include "gate/rule_changes.h"

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "base/words.h"
#include "gate/label_changes.h"
#include "gate/spec_changes.h"
#include "gate/winner_changes.h"
#include "io/formats.h"

namespace shardplan {
namespace {

// The names of enumerators, in order.
constexpr std::array<std::string_view, 4> kKinds = {"label", "rule", "axis",
                                                    "reading"};
constexpr std::array<std::string_view, 7> kHows = {
    "added", "removed", "changed", "fallback", "contest", "takeover", "moved"};

// A rule set's statement about one axis.
struct KnownAxis {
  std::string text;
  Span where;
};

std::map<AxisName, KnownAxis> known_axes(const RuleSet& rules) {
  std::map<AxisName, KnownAxis> axes;
  for (const AxisName& axis : rules.declared_axes)
    axes[axis] = {"declared", {}};
  for (size_t i = 0; rules.mesh && i < rules.mesh->size(); ++i) {
    const AxisRequest& axis = (*rules.mesh)[i];
    std::string text = "size " + std::to_string(axis.size);
    const bool is_sliced =
        i < rules.dcn_mesh.size() && rules.dcn_mesh[i].size != 1;
    if (is_sliced) {
      text += ", over " + std::to_string(rules.dcn_mesh[i].size) + " slices";
    }
    axes[axis.name] = {std::move(text), axis.where};
  }
  return axes;
}

// Returns the views by name: "ep=8,edp=4".
std::map<std::string, KnownAxis> known_views(const RuleSet& rules) {
  std::map<std::string, KnownAxis> views;
  for (const ViewRequest& view : rules.views) {
    const std::string text = joined_of(view.axes, ",", [](const auto& axis) {
      return axis.name + "=" + std::to_string(axis.size);
    });
    views["view " + view.name] = {text, view.where};
  }
  return views;
}

AxisNames axis_order(const RuleSet& rules) {
  AxisNames names;
  if (!rules.mesh) return names;
  for (const AxisRequest& axis : *rules.mesh) names.push_back(axis.name);
  return names;
}

RuleSetChange axis_change(std::string what, std::string before,
                          std::string after) {
  RuleSetChange change;
  change.kind = ChangeKind::Axis;
  change.how = before.empty()  ? ChangeHow::Added
               : after.empty() ? ChangeHow::Removed
                               : ChangeHow::Changed;
  change.what = std::move(what);
  change.text_before = std::move(before);
  change.text_after = std::move(after);
  return change;
}

template <typename Name>
void add_differences(const std::map<Name, KnownAxis>& before,
                     const std::map<Name, KnownAxis>& after,
                     RuleSetChanges& found) {
  std::map<Name, std::pair<KnownAxis, KnownAxis>> both;
  for (const auto& [name, known] : before) both[name].first = known;
  for (const auto& [name, known] : after) both[name].second = known;
  for (const auto& [name, sides] : both) {
    if (sides.first.text == sides.second.text) continue;
    RuleSetChange change =
        axis_change(name, sides.first.text, sides.second.text);
    change.before_where = sides.first.where;
    change.after_where = sides.second.where;
    found.changes.push_back(std::move(change));
  }
}

void add_axis_changes(const RuleComparison& comparison, RuleSetChanges& found) {
  add_differences(known_axes(comparison.before), known_axes(comparison.after),
                  found);
  add_differences(known_views(comparison.before), known_views(comparison.after),
                  found);
  const AxisNames old_order = axis_order(comparison.before);
  const AxisNames new_order = axis_order(comparison.after);
  const AxisNames stayed = without(old_order, without(old_order, new_order));
  if (stayed != without(new_order, without(new_order, old_order))) {
    RuleSetChange change =
        axis_change("mesh", axes_text(old_order), axes_text(new_order));
    change.how = ChangeHow::Moved;
    change.before_where = comparison.before.mesh_where;
    change.after_where = comparison.after.mesh_where;
    found.changes.push_back(std::move(change));
  }
}

std::string reading_text(const RuleSet& rules) {
  std::string text = rules.logical_reading == LogicalReading::Priority
                         ? "by priority"
                         : "as a mapping";
  if (rules.architecture_labels) text += ", plus architecture labels";
  return text;
}

void add_reading_change(const RuleComparison& comparison,
                        RuleSetChanges& found) {
  const RuleSet& before = comparison.before;
  const RuleSet& after = comparison.after;
  if (reading_text(before) == reading_text(after) ||
      before.logical_rules.empty() || after.logical_rules.empty()) {
    return;
  }
  RuleSetChange change;
  change.kind = ChangeKind::Reading;
  change.what = "logical axes";
  change.text_before = reading_text(before);
  change.text_after = reading_text(after);
  change.before_where = before.logical_rules.front().where;
  change.after_where = after.logical_rules.front().where;
  found.changes.push_back(std::move(change));
}

}  // namespace

std::string_view kind_name(ChangeKind kind) {
  return kKinds.at(static_cast<size_t>(kind));
}

std::string_view how_name(ChangeHow how) {
  return kHows.at(static_cast<size_t>(how));
}

std::optional<RuleSetChanges> compare_rules(const RuleComparison& comparison,
                                            Diagnostics& diags) {
  RuleSetChanges found;
  add_label_changes(comparison, found);
  const SpecMeaning means_before(comparison.before);
  const SpecMeaning means_after(comparison.after);
  const std::vector<Manifest>& families = family_samples();
  const KnownNames names = {comparison.models, families, comparison.jobs};
  bool fine = add_rule_changes({comparison.before.rules, comparison.after.rules,
                                means_before, means_after, false},
                               names, found, diags);
  // Graph values have separate names.
  fine = add_rule_changes(
             {comparison.before.activations, comparison.after.activations,
              means_before, means_after, true},
             {}, found, diags) &&
         fine;
  if (!fine) return std::nullopt;
  add_reading_change(comparison, found);
  add_axis_changes(comparison, found);
  return found;
}

bool is_same_text(const RuleSet& a, const RuleSet& b) {
  return std::ranges::equal(a.sources, b.sources,
                            [](const SourcePtr& one, const SourcePtr& other) {
                              return one->text() == other->text();
                            });
}

}  // namespace shardplan
