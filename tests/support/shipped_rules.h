// SPDX-License-Identifier: Apache-2.0
// Shipped sets of rules, each loaded once.
#pragma once

#include <map>
#include <memory>
#include <stdexcept>
#include <string>

#include "core/rules.h"
#include "tests/support/loaded_rules.h"
#include "tests/support/memory_host.h"

namespace shardplan::testing {

// Of "@llama", and so on.
inline const RuleSet& shipped_rules(const std::string& name) {
  static std::map<std::string, std::unique_ptr<LoadedRules>> known;
  auto& rules = known[name];
  if (rules == nullptr) {
    MemoryHost host;
    rules = loaded_rules(host, name.c_str());
  }
  if (!rules->rules) throw std::runtime_error("cannot load " + name);
  return *rules->rules;
}

}  // namespace shardplan::testing
