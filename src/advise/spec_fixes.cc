// SPDX-License-Identifier: Apache-2.0
// Fixes for entries of specs: axes that do not exist, are used twice, are
// beyond the rank, or are missing where they would help.
#include <algorithm>
#include <map>
#include <utility>

#include "advise/possible_fixes.h"
#include "base/checked.h"
#include "base/text.h"
#include "base/words.h"

namespace shardplan {
namespace {

const PartitionSpec& spec_of(const Found& found) {
  return found.rule(found.diagnostic.subject.rule).spec;
}

// Changes the spec of the finding's rule. A rule that decides nothing has no
// parameters that need a rule of their own.
void respec(const Found& found, const PartitionSpec& spec, int tier,
            PossibleFixes& all) {
  const int rule = found.diagnostic.subject.rule;
  if (found.parameters.empty()) {
    add_spec_change(found, rule, spec, tier, all);
  } else {
    add_respec(found, rule, found.parameters, spec, tier, all);
  }
}

// SP201: uses the axis that was probably meant, or none.
void add_unknown(const Found& found, PossibleFixes& all) {
  const Plan& plan = found.planned.plan;
  const Subject& subject = found.diagnostic.subject;
  const PartitionSpec& asked = spec_of(found);
  const std::string& view = found.rule(subject.rule).view;
  std::vector<std::string> known = plan.mesh.has_view(view)
                                       ? all_names(plan.mesh.axes_of(view))
                                       : std::vector<std::string>();
  known.insert(known.end(), plan.declared_axes.begin(),
               plan.declared_axes.end());
  auto meant = nearest(subject.axis, known);
  if (known.size() == 1) meant = known.front();
  if (meant) {
    PartitionSpec spec = asked;
    std::ranges::replace(nth(spec.dims, subject.dim), AxisName(subject.axis),
                         *meant);
    respec(found, spec, 0, all);
  }
  PartitionSpec without = asked;
  erase_if(nth(without.dims, subject.dim), [&](const AxisName& axis) {
    return !plan.mesh.find(axis) && axis != kUnconstrained &&
           !contains(plan.declared_axes, axis);
  });
  respec(found, without, 2, all);
}

// SP202: removes the later use or the earlier one.
void add_repeated(const Found& found, PossibleFixes& all) {
  const size_t dim = to_size(found.diagnostic.subject.dim);
  const PartitionSpec& asked = spec_of(found);
  AxisNames earlier;
  for (size_t i = 0; i < dim; ++i) {
    earlier.insert(earlier.end(), asked.dims[i].begin(), asked.dims[i].end());
  }
  AxisNames distinct;
  for (const AxisName& axis : asked.dims[dim]) {
    if (!contains(distinct, axis)) distinct.push_back(axis);
  }
  PartitionSpec later_gone = asked;
  later_gone.dims[dim] = distinct;
  erase_if(later_gone.dims[dim],
           [&](const AxisName& axis) { return contains(earlier, axis); });
  respec(found, later_gone, 0, all);

  PartitionSpec earlier_gone = asked;
  earlier_gone.dims[dim] = distinct;
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
    const std::vector<PartitionSpec> specs =
        spread(planned, placement, *placement.requested,
               {found.diagnostic.subject.axis});
    if (!specs.empty()) add_spec_change(found, rule, specs.front(), 0, all);
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
  if (is_of_entry && code != Code::SpecLongerThanRank &&
      found.diagnostic.subject.dim >= std::ssize(spec_of(found).dims)) {
    return;
  }
  if (is_of_rule && !found.parameters.empty() &&
      !asks_by_axes(found.placement())) {
    return;
  }
  switch (code) {
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
