// SPDX-License-Identifier: Apache-2.0
// Reads rules and specs from nodes of a document:
//
//   ["embed_tokens/embedding", [tp, [fsdp, sp]]]
//   {pattern: "q_proj/kernel", spec: ColumnWise}
//   {pattern: "kernel", spec: [BATCH, LENGTH, null], decode_dim: 1}
//   {pattern: "up_proj", spec: [tp, null], align: last}
//   {pattern: "experts.\\d+", view: experts, deal: ep, spec: [etp, null]}
//
// An entry of a spec is null, a name, or a list of names. A name is a mesh
// axis, a semantic axis or a logical axis; a prefix `mesh:` or `logical:`
// decides if it could be several of these.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/diagnostic.h"
#include "base/source.h"
#include "core/mesh.h"
#include "core/rules.h"
#include "core/spec.h"
#include "syntax/document.h"

namespace shardplan {

inline constexpr std::string_view kRuleForms =
    "write a rule as `[pattern, spec]` or `{pattern: .., spec: ..}`";

// Reads a mesh axis, which has no prefix.
std::optional<AxisName> read_axis_node(const Node& node, Diagnostics& diags);
// Reads null, an axis, or a list of axes; `read` reads one axis.
std::optional<AxisNames> read_axes_node(
    const Node& node, Diagnostics& diags,
    std::optional<AxisName> (*read)(const Node&,
                                    Diagnostics&) = read_axis_node);
// Reads a list with one such entry per dimension, as in a rule.
std::optional<PartitionSpec> read_spec_node(const Node& node,
                                            Diagnostics& diags);
// Reads a spec as Python writes it, `P((fsdp, sp), None)`, or as a list.
// `source` names its origin. Returns nullopt if the text is neither.
std::optional<PartitionSpec> read_spec_text(const std::string& source,
                                            std::string_view text);
std::optional<Rule> read_rule_node(const Node& node, Diagnostics& diags);

// Returns the spec of one of eformer's presets, in semantic axes.
PartitionSpec preset_spec(const ShardingPreset& preset);

// Reads a list item by item and continues after an error, up to twenty errors.
// `what` names the items. Returns false if there was an error.
bool read_all(const Node& list, std::string_view what, Diagnostics& diags,
              bool (*read)(const Node&, RuleSet&, Diagnostics&),
              RuleSet& rules);

// Reads a mesh from a node of a document: `{fsdp: 8, tp: 4}`, or a string in
// the syntax of the flag, `fsdp=8,tp=4`.

std::optional<std::vector<AxisRequest>> read_mesh_node(const Node& node,
                                                       Diagnostics& diags);

// Tables that map names to mesh axes, read from nodes of a document:
//
//   logical_axis_rules:
//     - [embed, fsdp]
//     - [mlp, [tp, sp]]
//     - [norm, null]          # or `[]`: unsharded
//   partition_axis: {head_axis: tp, batch_axis: [fsdp, dp]}

// Appends the rules; returns false when something was reported.
bool read_logical_rules(const Node& node, RuleSet& rules, Diagnostics& diags);
// Reads `{embed: fsdp, mlp: [tp, sp]}` and appends a rule per entry.
bool read_axis_mapping(const Node& node, RuleSet& rules, Diagnostics& diags);
// Reads fields of eformer's PartitionAxis (core/partition_axis.h) by name;
// missing fields get its defaults.
bool read_partition_axis(const Node& node, RuleSet& rules, Diagnostics& diags);

// Shardings that another program recorded: per array, a mesh and a
// PartitionSpec, as in JAX's NamedSharding.

struct RecordedSharding {
  std::string name;
  Span where;                     // position of the name
  std::vector<AxisRequest> mesh;  // empty: on one device
  Span mesh_where;
  PartitionSpec spec;
  Span spec_where;
};

// The mesh shared by all arrays. If they differ, it is the first one, and SP007
// warns about the others.
struct RecordedMesh {
  std::vector<AxisRequest> axes;  // empty if no array has a mesh
  Span where;
};
RecordedMesh common_mesh(const std::vector<RecordedSharding>& shardings,
                         Diagnostics& diags);

// Returns whether the meshes have the same axes, in the same order and sizes.
bool same_axes(const std::vector<AxisRequest>& a,
               const std::vector<AxisRequest>& b);

// "fsdp=16,tensor=1"
std::string axes_text(const std::vector<AxisRequest>& mesh);

// Returns a pattern that matches the name whether its components are joined
// with `/` or `.`, with or without the final `value` that Flax NNX adds.
std::string recorded_pattern(std::string_view name);

// Makes a rule of each sharding of a parameter, or of every sharding if none is
// of a parameter. A note reports how many were left out.
void add_recorded_rules(const std::vector<RecordedSharding>& shardings,
                        RuleSet& rules, Diagnostics& diags);

// Classifies the arrays of a saved training state.

enum class StatePart : uint8_t {
  Parameter,
  Counter,    // the step, and keys and counters of random numbers
  Optimizer,  // moments and the like, which `--optimizer` computes
};

// Classifies an array by the components of its name, split at `/` or `.`. First
// components `opt_state`, `opt_states` and `optimizer` are the optimizer's;
// first components `step` and `rng` and any component `rngs` are counters;
// everything else is a parameter.
StatePart state_part(std::string_view name);

// More axes than any mesh has: 2^40 devices have at most 40 axes larger than 1.
inline constexpr int64_t kMaxAxesPerDim = 256;
inline constexpr int64_t kMaxDeclaredAxes = 4096;
// Returns whether no rule lists more axes than that; SP002 if one does. The
// limit bounds the work that is done for each parameter and axis.
bool check_axis_counts(const RuleSet& rules, Diagnostics& diags);

}  // namespace shardplan
