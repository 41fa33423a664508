// SPDX-License-Identifier: Apache-2.0
// Tables that give names their mesh axes, as nodes of a document:
//
//   logical_axis_rules:
//     - [embed, fsdp]
//     - [mlp, [tp, sp]]
//     - [norm, null]          # `[]` too: unsharded
//   partition_axis: {head_axis: tp, batch_axis: [fsdp, dp]}
#pragma once

#include "base/diagnostic.h"
#include "core/rules.h"
#include "io/document.h"

namespace shardplan {

// Appends; false when something was reported.
bool read_logical_rules(const Node& node, RuleSet& rules, Diagnostics& diags);
// `{embed: fsdp, mlp: [tp, sp]}`; appends a rule per entry.
bool read_axis_mapping(const Node& node, RuleSet& rules, Diagnostics& diags);
// Fields of eformer's PartitionAxis (core/partition_axis.h) by name; those not
// given take its defaults.
bool read_partition_axis(const Node& node, RuleSet& rules, Diagnostics& diags);

}  // namespace shardplan
