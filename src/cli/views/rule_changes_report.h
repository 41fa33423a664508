// SPDX-License-Identifier: Apache-2.0
// What became of rules and labels: lines for people, rows for programs.
#pragma once

#include <string>
#include <vector>

#include "gate/changes.h"
#include "gate/fail_on.h"
#include "gate/rule_changes.h"
#include "report/report.h"

namespace shardplan::cli {

// A change as people are told it.
struct ChangeText {
  std::string what;    // "`activation_exp` loses `expert` to `experts`"
  std::string places;  // "base.yml:82 → base.yml:81"
  std::string detail;  // "[data, expert] → [data]; matters where `expert` > 1"
};

// Contests that differ only in whose they are share a line, unless `expand`.
// `fail_on`: what fails says so.
std::vector<ChangeText> change_texts(const std::vector<RuleSetChange>& changes,
                                     const FailOn& fail_on, bool expand);

// Of one by itself: "`embed` loses `fsdp`; [fsdp] → []; matters where ..".
std::string change_sentence(const RuleSetChange& change);

// The same among the changes of a gate.
GateChange gate_change(const RuleSetChange& change);

// One line for each, in columns where all fit into `width`. Of one that does
// not the detail, and what does not fit beside it, stand below.
std::vector<std::string> change_lines(const std::vector<ChangeText>& texts,
                                      int width);

// `gate_changes`: a row for each, whose target is null.
Table rule_changes_table(const std::vector<RuleSetChange>& changes,
                         const FailOn& fail_on);

}  // namespace shardplan::cli
