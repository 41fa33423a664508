// SPDX-License-Identifier: Apache-2.0
// SP505: a bias that is added once per device.
#pragma once

#include <vector>

#include "graph/graph.h"

namespace shardplan {

// Biases of which every device of a model axis adds its own to a sum over these
// devices, as TPDense does in mode scatter: parameters [n, ..] that are summed
// over their first dimension and added to a product that contracts the first
// dimension, of the same size, of another parameter. SP505 warns of them.
std::vector<int> repeated_biases(const Graph& graph);

}  // namespace shardplan
