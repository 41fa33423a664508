// SPDX-License-Identifier: Apache-2.0
// RuleChange: one step from a rule set to another, before it is text.
//
// The advisor tries changes on rules as data (advise/trial.h) and only then
// spells those that help as edits of a file (advise/rule_edit.h).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/rules.h"

namespace shardplan {

struct NewRule {
  std::string pattern;
  PartitionSpec spec;
};

struct RuleChange {
  enum class Kind : uint8_t { SetSpec, SetPattern, Insert, Remove, Move };
  Kind kind = Kind::SetSpec;
  // 1-based: the rule that is changed. Insert: the rule that the new ones come
  // to stand before; one more than there are rules means the end.
  int rule = 1;
  int before = 1;              // Move: the rule that it comes to stand before
  PartitionSpec spec;          // SetSpec
  std::string pattern;         // SetPattern
  std::vector<NewRule> added;  // Insert
};

struct ChangedRules {
  RuleSet rules;
  // Per rule the 0-based number of the one it was; -1 where the pattern is new.
  std::vector<int> origin;
};
ChangedRules changed(const RuleSet& rules, const RuleChange& change);

// A rule whose file is the user's own and can be edited.
bool is_editable(const Rule& rule);

// Where new rules may be written that are to stand before `rule`: the last
// place up to it that has an editable rule on either side; `rule` itself where
// there is none.
int insertion_place(const RuleSet& rules, int rule);

}  // namespace shardplan
