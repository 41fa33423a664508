// SPDX-License-Identifier: Apache-2.0
// Rule changes as edits of the bytes of a rules file, in YAML or JSON.
//
// Only what changes is replaced: comments and layout of everything else stay
// as they are. Rules are written as `["pattern", [axis, null]]`, which both
// syntaxes read.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "advise/rule_change.h"
#include "advise/rule_layout.h"
#include "base/fix.h"

namespace shardplan {

// "[tp, null, [fsdp, sp]]"; `quoted` writes axes as JSON has them.
std::string spec_source(const PartitionSpec& spec, bool quoted);
// "[\"q_proj\", [fsdp, tp]]"
std::string rule_source(std::string_view pattern, const PartitionSpec& spec,
                        bool quoted);

// Ascending and apart; all in one file. Empty where the change is not of one
// file of the user's own, or where the layout (aliases, several rules in a
// line, comments between entries) does not allow it safely.
std::vector<TextEdit> edits_of(const RuleSet& rules, const RuleChange& change);
// The same for one of many changes.
std::vector<TextEdit> edits_of(const RuleSet& rules, const RulePlaces& places,
                               const RuleChange& change);

// The text with its edits made. REQUIRES: ascending and apart.
std::string edited(std::string_view text, std::span<const TextEdit> edits);

}  // namespace shardplan
