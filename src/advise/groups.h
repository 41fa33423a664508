// SPDX-License-Identifier: Apache-2.0
// Groups: parameters that no change of rules tells apart, which are tried as
// one, and what changed rules make of them.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <unordered_map>
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

// Numbers of parameters by their names. Findings have the names of a class or
// of a placement, or of several of these, each in the order of the model: so
// the next one is mostly where it is expected, and no table of all need be
// made.
class NumbersByName {
 public:
  // Both must outlive it.
  NumbersByName(const Manifest& all, const Folding& folding)
      : all_(all), folding_(folding) {}
  // Empty where no parameter is called so.
  std::optional<uint32_t> find(std::string_view name);

 private:
  uint32_t go_to(uint32_t number);
  void order();

  const Manifest& all_;
  const Folding& folding_;
  // The next one of its class, and of its placement; else the parameters'
  // count.
  std::vector<uint32_t> behind_in_class_;
  std::vector<uint32_t> behind_in_placement_;
  std::array<uint32_t, 3> expected_ = {};
  std::unordered_map<std::string_view, uint32_t> numbers_;  // once needed
};

}  // namespace shardplan
