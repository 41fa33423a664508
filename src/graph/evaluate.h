// SPDX-License-Identifier: Apache-2.0
// The unsharded run of a graph: what every sharded one is compared with.
#pragma once

#include <span>
#include <vector>

#include "graph/graph.h"
#include "graph/tensor.h"

namespace shardplan {

// All values of the graph, by number. `given` holds inputs and parameters by
// their numbers; what it holds in the place of results is not looked at.
// REQUIRES: every input and parameter is given in its shape, with elements of
// `arithmetic`.
std::vector<Tensor> evaluate(const Graph& graph, std::span<const Tensor> given,
                             Arithmetic arithmetic, int threads = 1);

}  // namespace shardplan
