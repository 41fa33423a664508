// SPDX-License-Identifier: Apache-2.0
// Compares two rule sets: labels, rules, axes, and how logical rules are read.
#include "gate/rule_changes.h"

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "base/checked.h"
#include "base/words.h"
#include "gate/label_changes.h"
#include "gate/spec_changes.h"
#include "gate/winner_changes.h"
#include "io/formats.h"

namespace shardplan {
namespace {

// A rule set's statement about one axis.
struct KnownAxis {
  std::string text;
  Span where;
};

using KnownAxes = std::map<std::string, KnownAxis>;

KnownAxes known_axes(const RuleSet& rules) {
  KnownAxes axes;
  for (const AxisName& axis : rules.declared_axes)
    axes[axis] = {"declared", {}};
  for (size_t i = 0; rules.mesh && i < rules.mesh->size(); ++i) {
    const AxisRequest& axis = (*rules.mesh)[i];
    std::string text = "size " + std::to_string(axis.size);
    if (i < rules.dcn_mesh.size() && rules.dcn_mesh[i].size != 1) {
      text += ", over " + std::to_string(rules.dcn_mesh[i].size) + " slices";
    }
    axes[axis.name] = {std::move(text), axis.where};
  }
  return axes;
}

// Returns the views by name: "ep=8,edp=4".
KnownAxes known_views(const RuleSet& rules) {
  KnownAxes views;
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

RuleSetChange& add_axis_change(std::string what, KnownAxis before,
                               KnownAxis after, RuleSetChanges& found) {
  RuleSetChange& change = found.changes.emplace_back();
  change.kind = ChangeKind::Axis;
  change.how = before.text.empty()  ? ChangeHow::Added
               : after.text.empty() ? ChangeHow::Removed
                                    : ChangeHow::Changed;
  change.what = std::move(what);
  change.text_before = std::move(before.text);
  change.text_after = std::move(after.text);
  change.before_where = before.where;
  change.after_where = after.where;
  return change;
}

void add_differences(const KnownAxes& before, const KnownAxes& after,
                     RuleSetChanges& found) {
  std::map<std::string, std::pair<KnownAxis, KnownAxis>> both;
  for (const auto& [name, known] : before) both[name].first = known;
  for (const auto& [name, known] : after) both[name].second = known;
  for (const auto& [name, sides] : both) {
    if (sides.first.text != sides.second.text) {
      add_axis_change(name, sides.first, sides.second, found);
    }
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
    add_axis_change("mesh",
                    {axes_text(old_order), comparison.before.mesh_where},
                    {axes_text(new_order), comparison.after.mesh_where}, found)
        .how = ChangeHow::Moved;
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
  RuleSetChange& change = found.changes.emplace_back();
  change.kind = ChangeKind::Reading;
  change.what = "logical axes";
  change.text_before = reading_text(before);
  change.text_after = reading_text(after);
  change.before_where = before.logical_rules.front().where;
  change.after_where = after.logical_rules.front().where;
}

}  // namespace

std::string_view kind_name(ChangeKind kind) {
  constexpr std::array<std::string_view, 4> kKinds = {"label", "rule", "axis",
                                                      "reading"};
  return nth(kKinds, kind);
}

std::string_view how_name(ChangeHow how) {
  constexpr std::array<std::string_view, 7> kHows = {
      "added",   "removed",  "changed", "fallback",
      "contest", "takeover", "moved"};
  return nth(kHows, how);
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
  const auto text = [](const SourcePtr& source) { return source->text(); };
  return std::ranges::equal(a.sources, b.sources, {}, text, text);
}

}  // namespace shardplan
