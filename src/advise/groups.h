// SPDX-License-Identifier: Apache-2.0
// Groups: parameters that no change of rules tells apart, which are tried as
// one, and what changed rules make of them.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "advise/rule_edit.h"
#include "core/fold.h"
#include "core/manifest.h"
#include "core/plan.h"
#include "core/rules.h"
#include "findings/findings.h"
#include "resolve/device_memory.h"
#include "resolve/match.h"
#include "resolve/resolve.h"

namespace shardplan {

// A plan with all that it was made from.
struct Planned {
  const Manifest& manifest;
  const RuleSet& rules;
  const Plan& plan;
  const Folding& folding;  // by placement
  const DeviceMemory& memory;
  const ResolveOptions& resolving;
  const LintOptions& linting;
};

// Parameters that are tried as one.
struct ParameterGroup {
  uint32_t found = 0;            // number of the set of rules found
  uint32_t parameter_class = 0;  // of the folding
  uint32_t first = 0;            // its first parameter, which stands for all
  int64_t count = 0;
  bool may_decide = true;
};

// Where every parameter belongs, and which sets of rules there are.
struct Grouping {
  std::vector<std::vector<int>> found;  // 0-based rules, ascending
  std::vector<ParameterGroup> groups;   // by first parameter
  std::vector<uint32_t> group_of;       // per parameter
};

Grouping grouped(const Planned& planned);

// The first parameter of every group.
Manifest firsts_of(const Manifest& manifest, const Grouping& grouping);

// fold() of the groups, given how the names of all parameters fold; classes
// count parameters.
Folding refold(const Folding& folding, const Grouping& grouping,
               const std::vector<uint32_t>& kinds);

// Changed rules, with what resolve/match.h would say of the groups.
struct Rematched {
  ChangedRules rules;
  Matches matches;
};

// Empty when a new pattern cannot be compiled. `work` grows by what is visited.
std::optional<Matches> rematch(const Planned& planned, const Grouping& grouping,
                               const ChangedRules& change, int64_t& work);

}  // namespace shardplan
