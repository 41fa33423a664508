// SPDX-License-Identifier: Apache-2.0
// What a target of `export` cannot say (SP014), and the comment that stands
// above what it does say.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/diagnostic.h"
#include "core/plan.h"
#include "core/rules.h"
#include "io/export.h"

namespace shardplan {

// What no spec says: dimensions that are stored otherwise (`--declare`), that
// axes do not divide (`pad`, `chunk`), or that are left to the compiler
// (UNCONSTRAINED). Reports one diagnostic per kind, with all its parameters.
bool specs_are_expressible(const ExportInput& input, std::string_view target,
                           Diagnostics& diags);

// Patterns end in `$`, which is also found before a newline that ends a name.
bool names_are_expressible(const ExportInput& input, std::string_view target,
                           Diagnostics& diags);

// The logical axis rules, for targets that have no others; null, with the
// reason reported, where the plan is not made from them alone.
const RuleSet* logical_rules_of(const ExportInput& input,
                                std::string_view target, Diagnostics& diags);

// Why the rules alone would not give the plan again; empty where they do, and
// `input.rules` is there then.
std::string why_no_rules(const ExportInput& input);

// What stands in a rules file and is no part of a plan: a note that the target
// leaves it out.
void note_activations(const ExportInput& input, std::string_view target,
                      Diagnostics& diags);
void note_slices(const ExportInput& input, std::string_view target,
                 Diagnostics& diags);

// "Partition rules, as given; `shardplan export --to yaml`", then what they
// come from and what else a reader should know; a line each, without `# `.
std::vector<std::string> header_lines(const ExportInput& input,
                                      std::string_view what,
                                      std::string_view target);
// How many parameters are left out, where any are, and why.
void add_left_out(int64_t count, std::vector<std::string>& lines);
// Each behind `# `.
std::string comment_text(const std::vector<std::string>& lines);

}  // namespace shardplan
