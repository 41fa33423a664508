// SPDX-License-Identifier: Apache-2.0
// A plan that hooks run, applied to the graph of its model (spmd/hooked.h).
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

#include "core/manifest.h"
#include "core/plan.h"
#include "graph/graph.h"
#include "spmd/hooked.h"
#include "spmd/partition.h"

namespace shardplan {

// Returns the number, from 1, of the first rule that matches a name; 0 if none
// does.
using FindRule = std::function<int(std::string_view name)>;

// Walks the graph under a plan. REQUIRES: hooks run the plan.
HookedWalk walk_hooks(const Graph& graph, const Manifest& manifest,
                      const Plan& plan, const FindRule& rule_of);

// Returns the largest number between dots, such as a layer's, that a pattern of
// a plan with hooks names; -1 if none does.
int64_t last_number_named(const Plan& plan);

// Sets the layout of every result to what the hooks leave, so that a program
// has the collectives that they run and no others. Axes that shard a batch
// shard it in every value. Changes nothing and returns false if inputs are
// sharded along other dimensions than their batch or over the hooks' axis, if
// the batch does not divide, or if the mesh has views (core/views.h). REQUIRES:
// the walk found nothing wrong or unknown; `wanted` has all inputs.
bool use_hook_layouts(const Graph& graph, const Mesh& mesh,
                      const AxisName& axis,
                      const PerValue<HookedLayout>& layouts,
                      WantedLayouts& wanted);

}  // namespace shardplan
