// SPDX-License-Identifier: Apache-2.0
// Entries of specs: axes that do not exist, are used twice, stand beyond the
// rank, or are missing where they would help.
#include <algorithm>
#include <map>
#include <utility>

#include "advise/candidates.h"
#include "base/text.h"

namespace shardplan {
namespace {

bool is_known(const Plan& plan, const AxisName& axis) {
  const AxisNames& declared = plan.declared_axes;
  return plan.mesh.find(axis) || axis == kUnconstrained ||
         std::find(declared.begin(), declared.end(), axis) != declared.end();
}

const PartitionSpec& spec_of(const Found& found) {
  const auto rule = static_cast<size_t>(found.diagnostic.subject.rule);
  return found.planned.plan.rules[rule - 1].spec;
}

// A rule that decides nothing has no parameters to write another rule for.
void respec(const Found& found, const PartitionSpec& spec, int tier,
            Candidates& all) {
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

// SP201: the axis that was meant, or none.
void add_unknown(const Found& found, Candidates& all) {
  const Plan& plan = found.planned.plan;
  const Subject& subject = found.diagnostic.subject;
  const auto dim = static_cast<size_t>(subject.dim);
  const PartitionSpec& asked = spec_of(found);
  std::vector<std::string> known;
  for (const Axis& axis : plan.mesh.axes()) known.push_back(axis.name);
  known.insert(known.end(), plan.declared_axes.begin(),
               plan.declared_axes.end());
  std::vector<std::string> meant;
  if (const auto near = nearest(subject.axis, known)) meant.push_back(*near);
  if (known.size() == 1 && meant.empty()) meant.push_back(known.front());
  for (const std::string& axis : meant) {
    PartitionSpec spec = asked;
    std::replace(spec.dims[dim].begin(), spec.dims[dim].end(), subject.axis,
                 axis);
    respec(found, spec, 0, all);
  }
  PartitionSpec without = asked;
  std::erase_if(without.dims[dim],
                [&](const AxisName& axis) { return !is_known(plan, axis); });
  respec(found, without, 2, all);
}

// SP202: the later use goes, or the earlier one.
void add_repeated(const Found& found, Candidates& all) {
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
    if (std::none_of(earlier.begin(), earlier.end(), is_axis) &&
        std::none_of(kept.begin(), kept.end(), is_axis)) {
      kept.push_back(axis);
    }
  }
  later_gone.dims[dim] = kept;
  respec(found, later_gone, 0, all);

  PartitionSpec earlier_gone = asked;
  earlier_gone.dims[dim].clear();
  for (const AxisName& axis : asked.dims[dim]) {
    AxisNames& now = earlier_gone.dims[dim];
    if (std::find(now.begin(), now.end(), axis) == now.end()) {
      now.push_back(axis);
    }
  }
  for (size_t i = 0; i < dim; ++i) {
    std::erase_if(earlier_gone.dims[i], [&](const AxisName& axis) {
      return std::find(asked.dims[dim].begin(), asked.dims[dim].end(), axis) !=
             asked.dims[dim].end();
    });
  }
  if (earlier_gone != later_gone) respec(found, earlier_gone, 0, all);
}

// SP104: nothing beyond the rank.
void add_too_long(const Found& found, Candidates& all) {
  if (found.parameters.empty()) return;
  PartitionSpec spec = spec_of(found);
  spec.dims.resize(
      std::min(spec.dims.size(), found.placement().type.shape.size()));
  respec(found, spec, 0, all);
}

// SP302: the axes that are free, where they divide.
void add_replicated(const Found& found, Candidates& all) {
  if (found.parameters.empty() || !asks_by_axes(found.placement())) return;
  const Placement& placement = found.placement();
  const AxisNames free = free_axes(found.planned.plan, placement.spec);
  for (const PartitionSpec& spec :
       spread(found.planned, placement, *placement.requested, free)) {
    add_respec(found, placement.rule, found.parameters, spec, 0, all);
  }
}

// SP204, SP208: the axis in the rules whose parameters take the most.
void add_unused(const Found& found, Candidates& all) {
  // An axis that is meant for copies, or that is called otherwise in the rules.
  if (found.diagnostic.subject.axis.empty()) return;
  constexpr size_t kRules = 3;
  const Planned& planned = found.planned;
  found.work += static_cast<int64_t>(planned.folding.classes.size());
  std::map<int, int64_t> bytes;      // per device, by rule
  std::map<int, uint32_t> first_of;  // its largest placement
  for (const ParameterClass& c : planned.folding.classes) {
    const Placement& placement = planned.plan.placements[c.kind];
    if (!asks_by_axes(placement) || placement.type.shape.empty()) continue;
    bytes[placement.rule] += c.count * placement.bytes_per_device;
    const auto [entry, is_new] = first_of.try_emplace(placement.rule, c.kind);
    if (!is_new && planned.plan.placements[entry->second].bytes_per_device <
                       placement.bytes_per_device) {
      entry->second = c.kind;
    }
  }
  std::vector<std::pair<int64_t, int>> largest;
  for (const auto& [rule, held] : bytes) largest.emplace_back(-held, rule);
  std::sort(largest.begin(), largest.end());
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

void add_spec_candidates(const Found& found, Candidates& all) {
  // What logical or semantic axes ask for is changed where they are defined.
  const Code code = found.diagnostic.code;
  const bool is_of_entry = code == Code::UnknownAxis ||
                           code == Code::RepeatedAxis ||
                           code == Code::SpecLongerThanRank;
  const bool is_of_rule = found.diagnostic.subject.rule > 0;
  if (is_of_entry && !is_of_rule) return;
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
