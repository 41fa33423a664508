// SPDX-License-Identifier: Apache-2.0
// Plans and budgets in one line, for tests of memory.
#pragma once

#include <stdexcept>
#include <string>
#include <vector>

#include "core/plan.h"
#include "memory/budget.h"
#include "resolve/resolve.h"
#include "tests/support/builders.h"

namespace shardplan::testing {

inline Plan placed(const Manifest& manifest, const RuleSet& rules,
                   const std::string& mesh_text,
                   OnIndivisible policy = OnIndivisible::Drop) {
  Diagnostics diags;
  ResolveOptions how;
  how.on_indivisible = policy;
  auto plan = resolve(manifest, rules, mesh(mesh_text), how, diags);
  if (!plan) throw std::invalid_argument("no plan");
  return *std::move(plan);
}

// A placement of one tensor.
inline Placement placement(const std::string& type_text,
                           const std::string& spec_text, const Mesh& mesh,
                           OnIndivisible policy = OnIndivisible::Drop) {
  Placement result;
  result.type = type(type_text);
  result.spec = spec(spec_text);
  measure(result, mesh, policy);
  return result;
}

inline int64_t category_bytes(const Budget& budget, Category category,
                              size_t number = 0) {
  return budget.classes[number].bytes[static_cast<size_t>(category)];
}

inline const CategoryTotal& total_of(const Budget& budget, Category category) {
  return budget.totals[static_cast<size_t>(category)];
}

// The first message, or "" where nothing was reported.
inline std::string first_message(const Diagnostics& diags) {
  return diags.all().empty() ? "" : diags.all().front().message;
}

}  // namespace shardplan::testing
