// SPDX-License-Identifier: Apache-2.0
// Finds code that adds a dimension to specs after they were matched.
//
//   if "layer_stack" in path:                               grok-1
//     spec = PartitionSpec(None, *spec)
//   if use_scan:                                            dalle-mini
//     {k: P(*(None,) + v) if any(x in k for x in ["Layers"]) else v ..}
//
// Scanned layers are stacked along a new first dimension, which stays
// unsharded.
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
  // A spec is padded if one of these names is a whole part of its path. If
  // there are no names, all specs are padded.
  std::vector<std::string> parts;
  Span where;
};

// Finds what a file does with specs outside its tables; `tables` are the
// tables' first tokens. Leaves `padding` empty if the file pads nothing, or an
// answer turns the padding off. Returns false, with the reason reported
// (SP002), if the code cannot be followed.
bool find_python_padding(std::span<const PythonToken> tokens,
                         std::span<const size_t> tables,
                         const PythonAnswers& answers,
                         std::optional<PythonPadding>& padding,
                         Diagnostics& diags);

// Adds a rule with the padded spec before each rule whose spec is padded.
// `segments` has, per rule, the patterns of the parts of a path; empty for a
// pattern of the whole name. Returns false, with the reason reported, if a
// pattern cannot express this.
bool add_padded_rules(const PythonPadding& padding,
                      std::span<const std::vector<std::string>> segments,
                      std::vector<Rule>& rules, Diagnostics& diags);

}  // namespace shardplan
