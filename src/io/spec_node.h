// SPDX-License-Identifier: Apache-2.0
// Rules and specs as nodes of a document:
//
//   ["embed_tokens/embedding", [tp, [fsdp, sp]]]
//   {pattern: "q_proj/kernel", spec: ColumnWise}
//   {pattern: "kernel", spec: [BATCH, LENGTH, null], decode_dim: 1}
//   {pattern: "up_proj", spec: [tp, null], align: last}
//   {pattern: "experts.\\d+", view: experts, deal: ep, spec: [etp, null]}
//
// An entry of a spec is null, a name, or a list of names. Names are mesh axes,
// semantic axes or logical axes, with `mesh:` or `logical:` in front where they
// could be both.
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
// A spec as Python writes it, `P((fsdp, sp), None)`, or as a list. `source`
// says where it is from. Empty where it is neither.
std::optional<PartitionSpec> read_spec_text(const std::string& source,
                                            std::string_view text);
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
// Adds those of a later file, each axis once.
void append_view_axes(const RuleSet& more, RuleSet& rules);
// `{embed: fsdp, mlp: [tp, sp]}`; appends a rule per entry.
bool read_axis_mapping(const Node& node, RuleSet& rules, Diagnostics& diags);
// Fields of eformer's PartitionAxis (core/partition_axis.h) by name; those not
// given take its defaults.
bool read_partition_axis(const Node& node, RuleSet& rules, Diagnostics& diags);

// Shardings that another program has recorded: array by array, a mesh and a
// PartitionSpec, as JAX's NamedSharding has them.

struct RecordedSharding {
  std::string name;
  Span where;                     // of the name
  std::vector<AxisRequest> mesh;  // empty: on one device
  Span mesh_where;
  PartitionSpec spec;
  Span spec_where;
};

// The mesh that all are on. Where they differ the first counts, and SP007 warns
// of the others.
struct RecordedMesh {
  std::vector<AxisRequest> axes;  // empty: there is none
  Span where;
};
RecordedMesh common_mesh(const std::vector<RecordedSharding>& shardings,
                         Diagnostics& diags);

// Whether the meshes have the same axes of the same sizes.
bool same_axes(const std::vector<AxisRequest>& a,
               const std::vector<AxisRequest>& b);

// "fsdp=16,tensor=1"
std::string axes_text(const std::vector<AxisRequest>& mesh);

// A pattern for that name whether its components are joined with `/` or `.`,
// with or without the `value` that Flax NNX puts last.
std::string recorded_pattern(std::string_view name);

// Makes a rule of each sharding of a parameter, or of each sharding when none
// is of a parameter; a note says how many were left out.
void add_recorded_rules(const std::vector<RecordedSharding>& shardings,
                        RuleSet& rules, Diagnostics& diags);

// Which arrays of a saved training state are parameters.

enum class StatePart : uint8_t {
  Parameter,
  Counter,    // the step, and keys and counters of random numbers
  Optimizer,  // moments and the like, which `--optimizer` computes
};

// Told by the name's components, cut at `/` or `.`: those below `opt_state` or
// `optimizer` are the optimizer's, `step` and what is below `rngs` count
// something, everything else is a parameter.
StatePart state_part(std::string_view name);

// More than any mesh has: 2^40 devices have at most 40 axes that are larger
// than 1.
inline constexpr size_t kMaxAxesPerDim = 256;
inline constexpr size_t kMaxDeclaredAxes = 4096;
// Whether no rule lists more, since what is done with axes is done for each
// parameter; SP002 where one does.
bool check_axis_counts(const RuleSet& rules, Diagnostics& diags);

// SP007 where a config gives sizes apart, as MaxText's do, and no file has the
// `mesh_axes` that they are of.
void report_unused_sizes(const RuleSet& rules, Diagnostics& diags);

}  // namespace shardplan
