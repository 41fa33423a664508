// SPDX-License-Identifier: Apache-2.0
// Rules loaded from files in memory, with what was reported.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "io/load.h"
#include "tests/support/memory_host.h"

namespace shardplan::testing {

struct LoadedRules {
  std::optional<RuleSet> rules;
  Diagnostics diags;
};

// On the heap: the diagnostics hold places in what they keep.
inline std::unique_ptr<LoadedRules> loaded_rules(MemoryHost& host,
                                                 const char* path) {
  auto result = std::make_unique<LoadedRules>();
  const std::vector<std::string> paths = {path};
  result->rules = load_rules(paths, std::nullopt, {}, host, result->diags);
  return result;
}

}  // namespace shardplan::testing
