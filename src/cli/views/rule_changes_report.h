// SPDX-License-Identifier: Apache-2.0
// Changes of rules and labels: lines for people, rows for programs.
#pragma once

#include <string>
#include <vector>

#include "gate/changes.h"
#include "gate/fail_on.h"
#include "gate/rule_changes.h"
#include "report/report.h"

namespace shardplan::cli {

// Returns the changes as texts. Contests that differ only in their label or
// only in their rival share a line, unless `expand`. A change that fails under
// `fail_on` says so.
std::vector<ChangeText> change_texts(const std::vector<RuleSetChange>& changes,
                                     const FailOn& fail_on, bool expand);

// Returns one change as a sentence: "`embed` loses `fsdp`; [fsdp] → []; matters
// where ..".
std::string change_sentence(const RuleSetChange& change);

// Returns the change as one of a gate's changes.
GateChange gate_change(const RuleSetChange& change);

// Returns the table `gate_changes` with a row per change, whose target is null.
Table rule_changes_table(const std::vector<RuleSetChange>& changes,
                         const FailOn& fail_on);

}  // namespace shardplan::cli
