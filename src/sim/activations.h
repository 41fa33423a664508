// SPDX-License-Identifier: Apache-2.0
// Where the values of a graph lie: parameters as the plan says, inputs and
// results as the graph, the rules or their semantic axes say.
//
// Of a result, in order: the spec of a constraint; the first rule of
// `activations` found in its name; its labels, where the graph itself gives
// them. Anything else is left to the partitioner. Of an input: its spec, a
// rule, its labels; else it is replicated. Where hooks run the model, results
// lie as these leave them, if nothing is wrong with that.
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
  Mesh mesh;  // of the sub-axes of the plan's, on which layouts are
  WantedLayouts wanted;
  PerValue<std::string> from;  // who said so; "" for the partitioner
  // The walk over a plan of hooks; none: a compiler's.
  std::optional<HookedWalk> hooked = {};
  // Results lie as hooks leave them, so that programs have their collectives.
  bool as_hooked = false;
};

// Rules for a model whose forward pass this program wrote, and whose labels
// (BATCH, HEAD) hence nobody chose. Where rules do not say what they stand for,
// they are eFormer's defaults with the mesh's own names for the batch and for
// tensor parallelism. Defaults that the mesh lacks count as declared, unless it
// has an axis, not among `known`, whose name says nothing: that may be meant.
RuleSet with_assumed_axes(const RuleSet& rules, const Mesh& mesh,
                          const AxisNames& known);

// Names mean what they mean in rules (resolve/name_resolution.h), and specs are
// corrected as there: every departure is reported, naming the value. An
// activation rule that matches no value is SP506. Empty, with the reason
// reported, when a parameter is not in the model or is cut unevenly (SP015,
// SP010), the views of the mesh have no common sub-axes (SP007), a pattern
// cannot be compiled (SP105), or a shard_map does not fit the mesh
// (spmd/shard_mapped.h).
std::optional<PlacedValues> place_values(const Graph& graph,
                                         const Manifest& manifest,
                                         const Plan& plan, const RuleSet& rules,
                                         const NameReading& reading,
                                         Diagnostics& diags);

}  // namespace shardplan
