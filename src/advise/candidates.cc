// SPDX-License-Identifier: Apache-2.0
#include "advise/candidates.h"

#include <algorithm>
#include <set>
#include <utility>

#include "advise/name_pattern.h"
#include "advise/rule_edit.h"
#include "base/text.h"
#include "resolve/correct.h"

namespace shardplan {
namespace {

// "rule 2", with its file when rules come from several.
std::string place_text(const Planned& planned, int rule) {
  return rule_text(planned.plan, rule);
}

std::string added_text(const Planned& planned, const RuleChange& change) {
  std::string text = "put ";
  for (size_t i = 0; i < change.added.size(); ++i) {
    if (i > 0) text += i + 1 == change.added.size() ? " and " : ", ";
    text += "`" +
            rule_source(change.added[i].pattern, change.added[i].spec, false) +
            "`";
  }
  const auto rules = static_cast<int>(planned.rules.rules.size());
  if (change.rule <= rules) {
    return text + " in front of " + place_text(planned, change.rule);
  }
  return text + " behind the last rule";
}

std::string text_of(const Planned& planned, const RuleChange& change) {
  const std::string rule = "rule " + std::to_string(change.rule);
  switch (change.kind) {
    case RuleChange::Kind::SetSpec:
      return "write `" + spec_source(change.spec, false) + "` as the spec of " +
             place_text(planned, change.rule);
    case RuleChange::Kind::SetPattern:
      return "write `" + printable(change.pattern) + "` as the pattern of " +
             place_text(planned, change.rule);
    case RuleChange::Kind::Remove:
      return "remove " + place_text(planned, change.rule);
    case RuleChange::Kind::Move:
      return "move " + rule + " above rule " + std::to_string(change.before);
    default:
      return added_text(planned, change);
  }
}

// Whether a rule decides other parameters than these.
bool has_others(const Planned& planned, int rule, size_t count) {
  return planned.plan.rules[static_cast<size_t>(rule) - 1].won !=
         static_cast<int64_t>(count);
}

// The next way to put each of several things into one of `choices` places.
bool next_choice(std::vector<size_t>& chosen, size_t choices) {
  for (size_t& choice : chosen) {
    if (++choice < choices) return true;
    choice = 0;
  }
  return false;
}

}  // namespace

void add_rule_change(const Found& found, RuleChange change, int tier,
                     Candidates& all) {
  Candidate candidate;
  candidate.tier = tier;
  candidate.fix.kind = FixKind::RuleEdit;
  candidate.fix.text = text_of(found.planned, change);
  candidate.change.rules = std::move(change);
  all.push_back(std::move(candidate));
}

bool asks_by_axes(const Placement& placement) {
  return placement.rule > 0 && placement.requested && !placement.meant;
}

void add_respec(const Found& found, int rule,
                std::span<const uint32_t> parameters, const PartitionSpec& spec,
                int tier, Candidates& all) {
  if (rule == 0) return;  // its size or its logical axes decide
  const Planned& planned = found.planned;
  const bool others = has_others(planned, rule, parameters.size());
  const bool own =
      is_editable(planned.rules.rules[static_cast<size_t>(rule) - 1]);
  RuleChange added;
  added.kind = RuleChange::Kind::Insert;
  added.rule = insertion_place(planned.rules, rule);
  const auto pattern = others || !own
                           ? pattern_before(found, parameters, added.rule)
                           : std::nullopt;
  if (pattern) {
    added.added = {{*pattern, spec}};
    add_rule_change(found, std::move(added), tier, all);
  }
  if (own) {
    RuleChange change;
    change.rule = rule;
    change.spec = spec;
    add_rule_change(found, std::move(change), tier, all);
  }
}

std::optional<std::string> pattern_before(const Found& found,
                                          std::span<const uint32_t> parameters,
                                          int before) {
  const Planned& planned = found.planned;
  const Folding& folding = planned.folding;
  found.work +=
      static_cast<int64_t>(parameters.size() + folding.classes.size());
  std::set<uint32_t> classes;
  for (const uint32_t i : parameters) classes.insert(folding.class_of[i]);
  std::set<std::string_view> targets;
  for (const uint32_t number : classes) {
    targets.insert(folding.folded_names[folding.classes[number].folded]);
  }
  std::vector<std::string_view> others;
  for (uint32_t i = 0; i < folding.classes.size(); ++i) {
    const ParameterClass& c = folding.classes[i];
    const Placement& placement = planned.plan.placements[c.kind];
    const bool taken = placement.rule > 0 && placement.rule < before;
    const bool never = planned.plan.strict && placement.type.shape.empty();
    if (taken || never || classes.contains(i)) continue;
    const std::string_view name = folding.folded_names[c.folded];
    if (targets.contains(name)) return std::nullopt;
    others.push_back(name);
  }
  return pattern_for(
      std::vector<std::string_view>(targets.begin(), targets.end()), others);
}

AxisNames free_axes(const Plan& plan, const PartitionSpec& spec) {
  AxisNames free;
  for (const Axis& axis : plan.mesh.axes()) {
    const bool used = std::any_of(
        spec.dims.begin(), spec.dims.end(), [&](const AxisNames& axes) {
          return std::find(axes.begin(), axes.end(), axis.name) != axes.end();
        });
    if (axis.size > 1 && !used) free.push_back(axis.name);
  }
  return free;
}

std::vector<PartitionSpec> spread(const Planned& planned,
                                  const Placement& placement,
                                  const PartitionSpec& base,
                                  const AxisNames& free) {
  constexpr size_t kMaxFree = 4;  // axes; 5 dimensions make 1,296 ways
  constexpr size_t kMaxRank = 5;
  constexpr size_t kKept = 4;
  const size_t rank = placement.type.shape.size();
  if (free.empty() || free.size() > kMaxFree || rank > kMaxRank) return {};
  const Plan& plan = planned.plan;
  Placement way = placement;
  way.spec = correct(base, way.type.shape, plan.mesh, plan.declared_axes,
                     plan.on_indivisible)
                 .spec;
  measure(way, plan.mesh, plan.on_indivisible);
  const int64_t most = way.bytes_per_device;

  std::vector<std::pair<int64_t, PartitionSpec>> ways;
  std::vector<size_t> chosen(free.size(), 0);  // a dimension, or none: `rank`
  do {
    PartitionSpec spec = base;
    spec.dims.resize(rank);
    for (size_t i = 0; i < free.size(); ++i) {
      if (chosen[i] < rank) spec.dims[chosen[i]].push_back(free[i]);
    }
    CorrectedSpec legal = correct(spec, way.type.shape, plan.mesh,
                                  plan.declared_axes, OnIndivisible::Drop);
    if (!legal.corrections.empty()) continue;
    way.spec = std::move(legal.spec);
    measure(way, plan.mesh, plan.on_indivisible);
    if (way.bytes_per_device < most) {
      ways.emplace_back(way.bytes_per_device, std::move(spec));
    }
  } while (next_choice(chosen, rank + 1));
  std::stable_sort(ways.begin(), ways.end(), [](const auto& a, const auto& b) {
    return a.first < b.first;
  });
  std::vector<PartitionSpec> specs;
  for (size_t i = 0; i < std::min(kKept, ways.size()); ++i) {
    specs.push_back(std::move(ways[i].second));
  }
  return specs;
}

Candidates candidates_for(const Found& found) {
  Candidates all;
  const int rule = found.diagnostic.subject.rule;
  if (rule > 0) {  // candidates are copies of its spec
    const auto index = static_cast<size_t>(rule) - 1;
    found.work +=
        static_cast<int64_t>(found.planned.plan.rules[index].spec.dims.size());
  }
  switch (found.diagnostic.code) {
    case Code::IndivisibleDimension:
    case Code::SplitUnit:
    case Code::UnevenShards:
      add_size_candidates(found, all);
      break;
    case Code::ShardingLost:
      add_loss_candidates(found, all);
      break;
    case Code::SpecLongerThanRank:
    case Code::UnknownAxis:
    case Code::RepeatedAxis:
    case Code::UnusedAxis:
    case Code::UnmentionedAxis:
    case Code::LargeReplicatedParameter:
      add_spec_candidates(found, all);
      break;
    default:
      add_rule_candidates(found, all);
  }
  return all;
}

}  // namespace shardplan
