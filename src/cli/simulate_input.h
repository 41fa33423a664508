// SPDX-License-Identifier: Apache-2.0
// What `simulate` runs: a graph, the session of its model, and the program that
// the plan makes of them.
#pragma once

#include <optional>

#include "cli/commands.h"
#include "cli/session.h"
#include "cli/simulate_expected.h"
#include "cli/whole_model.h"
#include "graph/graph.h"
#include "sim/activations.h"
#include "sim/values.h"
#include "spmd/partition.h"

namespace shardplan::cli {

struct SimulateInput {
  Session session;
  std::optional<ModelRun> model;  // where no graph is given
  Graph graph;
  PlacedValues placed;
  PartitionOptions how;
  ValueSource source = ValueSource::Random;
  // Of the runs in working precision.
  Storage storage = Storage::F32;
  Storage reduce = Storage::F32;
  InputIds ids;  // none: random ones
  std::optional<ExpectedOutputs> expected;
};

// Empty, with the reason reported. Without `--graph` the model is a graph file
// itself, or of a family whose forward pass is known; a graph file's own specs
// count where there are no rules.
std::optional<SimulateInput> read_simulation(Context& context);

}  // namespace shardplan::cli
