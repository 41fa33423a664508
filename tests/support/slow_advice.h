// SPDX-License-Identifier: Apache-2.0
// Fixes by the slow way: for each candidate of each finding the whole model,
// with every parameter, is matched, resolved and judged anew. What the advisor
// says must be this.
#pragma once

#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "advise/possible_fixes.h"
#include "tests/support/advised.h"

namespace shardplan::testing {

inline bool is_known_error(const Diagnostic& error, const Plan& after,
                           const Advised& before) {
  const auto pattern = [](const Diagnostic& d, const Plan& plan) {
    return d.subject.rule == 0 || !d.parameters.empty()
               ? std::string()
               : plan.rules.at(static_cast<size_t>(d.subject.rule) - 1).pattern;
  };
  std::set<std::string> names;
  bool known = false;
  for (const Diagnostic& old : before.diags.all()) {
    if (old.severity != Severity::Error || old.code != error.code ||
        old.subject.dim != error.subject.dim ||
        old.subject.axis != error.subject.axis ||
        pattern(old, before.plan) != pattern(error, after)) {
      continue;
    }
    known = true;
    names.insert(old.parameters.begin(), old.parameters.end());
  }
  return known && std::all_of(error.parameters.begin(), error.parameters.end(),
                              [&](const std::string& name) {
                                return names.count(name) == 1;
                              });
}

// Empty where it cannot be made.
inline std::optional<Manifest> slowly_padded(const Manifest& manifest,
                                             const Padding& padding) {
  Manifest result;
  result.facts = manifest.facts;
  for (uint32_t i = 0; i < manifest.size(); ++i) {
    TensorType type = manifest.type(i);
    if (std::binary_search(padding.parameters.begin(), padding.parameters.end(),
                           i)) {
      type.shape.at(static_cast<size_t>(padding.dim)) = padding.size;
    }
    if (!result.add(manifest.name(i), type, {})) return std::nullopt;
    if (const AxisLabels* axes = manifest.axes(i)) result.set_axes(i, *axes);
  }
  return result;
}

inline std::optional<Effect> slow_effect(const Advised& before,
                                         const Placing& change,
                                         const Diagnostic& finding,
                                         std::span<const uint32_t> parameters) {
  const RuleSet rules = changed(before.rules, change.rules).rules;
  std::optional<Manifest> other;
  if (change.padding) {
    other = slowly_padded(before.manifest, *change.padding);
    if (!other) return std::nullopt;
  }
  const Manifest& manifest = other ? *other : before.manifest;
  ResolveOptions how = before.resolving;
  if (change.declared) how.declarations = *change.declared;
  Diagnostics diags = before.diags.fresh();
  const auto plan = resolve(
      manifest, rules, change.mesh ? *change.mesh : before.mesh, how, diags);
  if (!plan) return std::nullopt;
  const auto memory = device_memory(manifest, *plan, diags);
  if (!memory) return std::nullopt;
  const Folding folding =
      fold(plan->placement_of, [&](size_t i) { return manifest.name(i); });
  lint(make_lint_input(manifest, *plan, folding, &rules, *memory,
                       before.linting),
       kPlanSides, diags);
  if (finding_counts(diags) >= finding_counts(before.diags) ||
      !FindingsLeft(diags, *plan).is_gone(finding, before.plan)) {
    return std::nullopt;
  }
  for (const Diagnostic& error : diags.all()) {
    if (error.severity == Severity::Error &&
        !is_known_error(error, *plan, before)) {
      return std::nullopt;
    }
  }
  Effect effect{memory->max - before.fullest, 0};
  for (const uint32_t i : parameters) {
    effect.finding_bytes_per_device +=
        plan->of(i).bytes_per_device - before.plan.of(i).bytes_per_device;
  }
  return effect;
}

// A fix by what it says and costs.
using FixText = std::tuple<std::string, int64_t, int64_t>;

inline std::vector<FixText> fix_texts(const Diagnostic& finding) {
  std::vector<FixText> texts;
  for (const Fix& fix : finding.fixes) {
    texts.emplace_back(fix.text, fix.bytes_per_device,
                       fix.finding_bytes_per_device);
  }
  return texts;
}

// The fixes of one finding.
inline std::vector<FixText> slow_fixes(const Advised& before,
                                       const Diagnostic& finding) {
  constexpr size_t kTrials = 24;
  constexpr size_t kFixes = 8;
  std::vector<uint32_t> parameters;
  const std::set<std::string, std::less<>> names(finding.parameters.begin(),
                                                 finding.parameters.end());
  for (uint32_t i = 0; i < before.manifest.size(); ++i) {
    if (names.contains(before.manifest.name(i))) parameters.push_back(i);
  }
  const Folding folding = fold(before.plan.placement_of, [&](size_t i) {
    return before.manifest.name(i);
  });
  Diagnostics ignored;
  const auto memory = device_memory(before.manifest, before.plan, ignored);
  int64_t work = 0;
  PossibleFixes candidates =
      possible_fixes_for({{before.manifest, before.rules, before.plan, folding,
                           *memory, before.resolving, before.linting},
                          finding,
                          parameters,
                          work});
  if (candidates.size() > kTrials) candidates.resize(kTrials);
  std::vector<std::pair<int, FixText>> good;
  for (const PossibleFix& candidate : candidates) {
    const auto effect =
        slow_effect(before, candidate.change, finding, parameters);
    if (!effect) continue;
    const bool known =
        std::any_of(good.begin(), good.end(), [&](const auto& other) {
          return std::get<0>(other.second) == candidate.fix.text;
        });
    if (known) continue;
    good.push_back({candidate.tier,
                    {candidate.fix.text, effect->bytes_per_device,
                     effect->finding_bytes_per_device}});
  }
  std::stable_sort(good.begin(), good.end(), [](const auto& a, const auto& b) {
    return std::pair(a.first, std::get<1>(a.second)) <
           std::pair(b.first, std::get<1>(b.second));
  });
  std::vector<FixText> texts;
  for (size_t i = 0; i < std::min(kFixes, good.size()); ++i) {
    texts.push_back(good[i].second);
  }
  return texts;
}

}  // namespace shardplan::testing
