// SPDX-License-Identifier: Apache-2.0
#include "resolve/resolve.h"

#include <algorithm>
#include <string>
#include <unordered_map>
#include <utility>

#include "base/text.h"
#include "resolve/correct.h"
#include "resolve/match.h"

namespace shardplan {
namespace {

// A shape whose product exceeds 63 bits is larger than any limit.
bool is_small(const Shape& shape, const ResolveOptions& options) {
  const std::optional<int64_t> elements = element_count(shape);
  return options.strict && elements && *elements < options.min_size;
}

PlanRule plan_rule(const Rule& rule, const RuleUse& use) {
  PlanRule result;
  result.pattern = rule.pattern;
  result.spec = rule.spec;
  result.shipped = rule.shipped;
  if (rule.where) {
    result.file = rule.where.file->name();
    result.line = rule.where.file->position(rule.where.begin).line;
  }
  result.found = use.found;
  result.won = use.won;
  if (use.won == 0) {
    for (const int winner : use.winners) {
      result.shadowed_by.push_back(winner + 1);
    }
  }
  return result;
}

Placement place(const TensorType& type, int rule, const RuleSet& rules,
                const Mesh& mesh, const ResolveOptions& options) {
  Placement placement;
  placement.type = type;
  placement.rule = rule;
  if (rule > 0) {
    const PartitionSpec& asked =
        rules.rules[static_cast<size_t>(rule) - 1].spec;
    placement.requested = asked;
    if (is_small(type.shape, options)) {
      for (size_t dim = 0; dim < asked.dims.size(); ++dim) {
        if (asked.dims[dim].empty()) continue;
        placement.corrections.push_back(
            {static_cast<int>(dim), Code::SmallParameter, asked.dims[dim],
             plural(type.elements(), "element") +
                 (type.elements() == 1 ? " is" : " are") + " fewer than " +
                 std::to_string(options.min_size)});
      }
    } else {
      CorrectedSpec corrected = correct(
          asked, type.shape, mesh, rules.declared_axes, options.on_indivisible);
      placement.spec = std::move(corrected.spec);
      placement.corrections = std::move(corrected.corrections);
    }
  }
  measure(placement, mesh, options.on_indivisible);
  return placement;
}

}  // namespace

PartitionSpec matched_spec(const PartitionSpec& rule, const Shape& shape,
                           const ResolveOptions& options) {
  if (!options.strict) return rule;
  if (is_small(shape, options)) return {};
  PartitionSpec cut = rule;
  if (cut.dims.size() > shape.size()) cut.dims.resize(shape.size());
  return cut;
}

std::optional<Plan> resolve(const Manifest& manifest, const RuleSet& rules,
                            const Mesh& mesh, const ResolveOptions& options,
                            Diagnostics& diags) {
  const std::optional<Matcher> matcher =
      Matcher::compile(rules, manifest.names_are_plain(), diags);
  if (!matcher) return std::nullopt;
  const Matches matches = match(
      *matcher, manifest,
      [&](size_t i) {
        return !options.strict || !manifest.type(i).shape.empty();
      },
      options.jobs);

  Plan plan{
      mesh, options.on_indivisible, options.strict, rules.declared_axes, {}, {},
      {}};
  for (size_t i = 0; i < rules.rules.size(); ++i) {
    plan.rules.push_back(plan_rule(rules.rules[i], matches.rules[i]));
  }
  // Equal type, equal rule: equal placement.
  std::unordered_map<uint64_t, uint32_t> known;
  plan.placement_of.reserve(manifest.size());
  for (size_t i = 0; i < manifest.size(); ++i) {
    const auto rule = static_cast<uint32_t>(matches.winner[i] + 1);
    const uint64_t key = (uint64_t{manifest.type_number(i)} << 32U) | rule;
    const auto [entry, is_new] =
        known.try_emplace(key, static_cast<uint32_t>(plan.placements.size()));
    if (is_new) {
      plan.placements.push_back(place(manifest.type(i), static_cast<int>(rule),
                                      rules, mesh, options));
    }
    plan.placement_of.push_back(entry->second);
  }
  return plan;
}

}  // namespace shardplan
