// SPDX-License-Identifier: Apache-2.0
// A plan of hooks, laid over the graph of a model (spmd/hooked.h).
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

// The number of the first rule found in a name, from 1; 0: none is.
using FindRule = std::function<int(std::string_view name)>;

// REQUIRES: hooks run the plan.
HookedWalk walk_hooks(const Graph& graph, const Manifest& manifest,
                      const Plan& plan, const FindRule& rule_of);

// The largest number between dots that a pattern of a plan of hooks names, such
// as that of a layer; -1: none does.
int64_t last_number_named(const Plan& plan);

// Lays every result as the hooks leave it, so that a program has the
// collectives that they run and no others. Axes that cut a batch cut it
// wherever it is. Changes nothing, and returns false, where another axis cuts
// inputs otherwise, or devices are seen in other ways too (core/views.h).
// REQUIRES: nothing is wrong or unknown; `wanted` has all inputs.
bool lay_as_hooked(const Graph& graph, const Mesh& mesh, const AxisName& axis,
                   const PerValue<HookedLayout>& layouts,
                   WantedLayouts& wanted);

}  // namespace shardplan
