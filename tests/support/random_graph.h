// SPDX-License-Identifier: Apache-2.0
// Small random graphs on small random meshes, with random legal layouts: what
// the partitioner must get right whatever it is given.
#pragma once

#include <cstdint>
#include <random>

#include "core/mesh.h"
#include "graph/graph.h"
#include "spmd/partition.h"

namespace shardplan::testing {

using Random = std::mt19937_64;

// [low, high], by remainder: the same on every standard library.
int64_t draw(Random& random, int64_t low, int64_t high);
template <typename List>
const auto& pick(Random& random, const List& from) {
  return from[static_cast<size_t>(
      draw(random, 0, static_cast<int64_t>(from.size()) - 1))];
}

// One to three axes, up to `most` devices.
Mesh random_mesh(Random& random, int64_t most);

// Inputs, parameters and `nodes` operations of every kind, on dimensions of 1
// to 24 rows.
Graph random_graph(Random& random, int nodes);

// Products with biases, activations between them: a layer after another, as
// models have them.
Graph random_layers(Random& random);

// Maxima and routers: what depends on which number is larger.
Graph random_orders(Random& random);

// Layouts that divide the shape; each axis is used with even odds.
Layout random_layout(Random& random, const Mesh& mesh, const Shape& shape);

// One for every input, parameter and constraint, and for some results.
WantedLayouts random_layouts(Random& random, const Mesh& mesh,
                             const Graph& graph);

// Cuts parameters over further axes, which need not divide them.
void cut_unevenly(Random& random, const Mesh& mesh, const Graph& graph,
                  WantedLayouts& wanted);

}  // namespace shardplan::testing
