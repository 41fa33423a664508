// SPDX-License-Identifier: Apache-2.0
// Specs that code gives another dimension after they were matched.
//
//   if "layer_stack" in path:                               grok-1
//     spec = PartitionSpec(None, *spec)
//   if use_scan:                                            dalle-mini
//     {k: P(*(None,) + v) if any(x in k for x in ["Layers"]) else v ..}
//
// Layers that are scanned are stacked in front, and that dimension stays whole.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/diagnostic.h"
#include "core/rules.h"
#include "syntax/python.h"
#include "syntax/python_program.h"

namespace shardplan {

struct PythonPadding {
  // Names of which one is a whole part of a path whose spec is padded; none:
  // all specs are.
  std::vector<std::string> parts;
  Span where;
};

// What a file does with specs outside of its tables, `tables` being their first
// tokens. Empty in `padding` where it does nothing, or where an answer says so.
// False, with the reason reported (SP002), where it is not followed.
bool find_python_padding(std::span<const PythonToken> tokens,
                         std::span<const size_t> tables,
                         const PythonAnswers& answers,
                         std::optional<PythonPadding>& padding,
                         Diagnostics& diags);

// Puts a rule with the padded spec before each rule that has one. `segments`:
// per rule, its patterns by parts of a path; empty for one of the whole name.
// False, with the reason reported, where a pattern cannot say it.
bool add_padded_rules(const PythonPadding& padding,
                      std::span<const std::vector<std::string>> segments,
                      std::vector<Rule>& rules, Diagnostics& diags);

}  // namespace shardplan
