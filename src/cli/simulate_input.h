// SPDX-License-Identifier: Apache-2.0
// What `simulate` runs: a graph, the session of its model, and the program that
// the plan makes of them.
#pragma once

#include <optional>
#include <vector>

#include "cli/commands.h"
#include "cli/session.h"
#include "graph/graph.h"
#include "sim/activations.h"
#include "sim/values.h"
#include "spmd/partition.h"

namespace shardplan::cli {

struct SimulateInput {
  Session session;
  Graph graph;
  PlacedValues placed;
  PartitionOptions how;
  ValueSource source = ValueSource::Random;
  std::vector<Tensor> values;
};

// Empty, with the reason reported. Without `--graph` the model itself is the
// graph file, and without rules the specs that it gives its parameters count.
std::optional<SimulateInput> read_simulation(Context& context);

}  // namespace shardplan::cli
