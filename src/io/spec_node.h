// SPDX-License-Identifier: Apache-2.0
// Rules and specs as nodes of a document:
//
//   ["embed_tokens/embedding", [tp, [fsdp, sp]]]
//   {pattern: "q_proj/kernel", spec: ColumnWise}
//   {pattern: "kernel", spec: [BATCH, LENGTH, null], decode_dim: 1}
//   {pattern: "up_proj", spec: [tp, null], align: last}
//
// An entry of a spec is null, a name, or a list of names. Names are mesh axes,
// semantic axes or logical axes, with `mesh:` or `logical:` in front where they
// could be both.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/diagnostic.h"
#include "core/mesh.h"
#include "core/rules.h"
#include "syntax/document.h"

namespace shardplan {

inline constexpr std::string_view kRuleForms =
    "a rule is `[pattern, spec]` or `{pattern: .., spec: ..}`";

// A mesh axis, with nothing in front.
std::optional<AxisName> read_axis_node(const Node& node, Diagnostics& diags);
// null, an axis, or a list of axes; `read` reads one of them.
std::optional<AxisNames> read_axes_node(
    const Node& node, Diagnostics& diags,
    std::optional<AxisName> (*read)(const Node&,
                                    Diagnostics&) = read_axis_node);
// A list with such an entry per dimension, as in a rule.
std::optional<PartitionSpec> read_spec_node(const Node& node,
                                            Diagnostics& diags);
std::optional<Rule> read_rule_node(const Node& node, Diagnostics& diags);

// Adds the preset of a similar name, if there is one.
void suggest_preset(std::string_view name, Diagnostics::Builder& report);
// The spec that a preset of eformer's stands for, in semantic axes.
PartitionSpec preset_spec(const ShardingPreset& preset);

// Reads a list item by item and goes on after a mistake, but for twenty of
// them; `what` names the items. False when there was one.
bool read_all(const Node& list, std::string_view what, Diagnostics& diags,
              bool (*read)(const Node&, RuleSet&, Diagnostics&),
              RuleSet& rules);

// A mesh as a node of a document: `{fsdp: 8, tp: 4}`, or text as the flag takes
// it, `fsdp=8,tp=4`.

std::optional<std::vector<AxisRequest>> read_mesh_node(const Node& node,
                                                       Diagnostics& diags);
// One entry of such a map, whose key is the axis.
std::optional<AxisRequest> read_axis_size(const Node& map, size_t index,
                                          Diagnostics& diags);

// Tables that give names their mesh axes, as nodes of a document:
//
//   logical_axis_rules:
//     - [embed, fsdp]
//     - [mlp, [tp, sp]]
//     - [norm, null]          # `[]` too: unsharded
//   partition_axis: {head_axis: tp, batch_axis: [fsdp, dp]}

// Appends; false when something was reported.
bool read_logical_rules(const Node& node, RuleSet& rules, Diagnostics& diags);
// `{embed: fsdp, mlp: [tp, sp]}`; appends a rule per entry.
bool read_axis_mapping(const Node& node, RuleSet& rules, Diagnostics& diags);
// Fields of eformer's PartitionAxis (core/partition_axis.h) by name; those not
// given take its defaults.
bool read_partition_axis(const Node& node, RuleSet& rules, Diagnostics& diags);

}  // namespace shardplan
