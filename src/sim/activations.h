// SPDX-License-Identifier: Apache-2.0
// PlacedValues: the layouts of a graph's values. Parameters follow the plan;
// inputs and results follow the graph, the rules or their semantic axes.
//
// A result has the first of these: the spec of a constraint, the first matching
// rule of `activations`, the layout of its experts' view, or its labels if the
// graph itself gives them. Otherwise the partitioner decides. An input has its
// spec, a rule or its labels; otherwise it is replicated. If hooks run the
// model, results have the layouts that the hooks leave, unless the walk finds a
// fault.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/diagnostic.h"
#include "core/manifest.h"
#include "core/plan.h"
#include "core/rules.h"
#include "graph/graph.h"
#include "resolve/name_resolution.h"
#include "spmd/hooked.h"
#include "spmd/partition.h"

namespace shardplan {

struct PlacedValues {
  Mesh mesh;  // the plan's mesh of sub-axes; layouts name its axes
  WantedLayouts wanted;
  PerValue<std::string> from;  // the source of the layout; "" for the
                               // partitioner
  // The walk over a plan that hooks run; none for a compiler's plan.
  std::optional<HookedWalk> hooked = {};
  // Results have the layouts that hooks leave, so that programs run the hooks'
  // collectives.
  bool hook_layouts = false;
};

// Returns rules for a model whose forward pass shardplan wrote, so that no user
// chose its labels (BATCH, HEAD). Unless the rules define them, labels have
// eFormer's default axes, with the mesh's own names for the batch and for
// tensor parallelism. Default axes that the mesh lacks count as declared,
// unless the mesh has an axis of unknown meaning, not among `known`: that one
// may be meant instead.
RuleSet with_assumed_axes(const RuleSet& rules, const Mesh& mesh,
                          const AxisNames& known);

// Places the values of a graph. Names mean what they mean in rules
// (resolve/name_resolution.h), and specs are corrected as there: every
// departure is reported and names the value. An activation rule that matches no
// value is SP506. Returns nothing, with the reason reported, if a parameter is
// not in the model or is sharded unevenly (SP015, SP010), the views of the mesh
// have no common sub-axes (SP007), a pattern cannot be compiled (SP105), or a
// shard_map does not fit the mesh (spmd/shard_mapped.h).
std::optional<PlacedValues> place_values(const Graph& graph,
                                         const Manifest& manifest,
                                         const Plan& plan, const RuleSet& rules,
                                         const NameReading& reading,
                                         Diagnostics& diags);

}  // namespace shardplan
