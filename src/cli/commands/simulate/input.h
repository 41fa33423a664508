// SPDX-License-Identifier: Apache-2.0
// The input of a `simulate` run, and whether the run fits in memory.
#pragma once

#include <optional>
#include <vector>

#include "base/diagnostic.h"
#include "base/host.h"
#include "cli/commands.h"
#include "cli/commands/simulate/given_inputs.h"
#include "cli/commands/simulate/model.h"
#include "core/manifest.h"
#include "findings/findings.h"
#include "graph/graph.h"
#include "session/session.h"
#include "sim/activations.h"
#include "sim/simulate.h"
#include "sim/values.h"
#include "spmd/partition.h"

namespace shardplan::cli {

// Checks whether a graph can run in the memory that the program may use, before
// anything is computed.

// Returns false, with the value, its shape and its bytes reported (SP017), if
// the values needed to compute some operation exceed the available memory. A
// run that passes may still reach the limit, since replicas and collectives
// need more. `exact`: all numbers are residues, stored as doubles. `max_memory`
// is the user's limit, if there is one.
bool fits_memory(const Graph& graph, bool exact,
                 const std::optional<int64_t>& max_memory, Diagnostics& diags);

// Returns the bytes needed while the largest operation is computed.
double least_bytes_held(const Graph& graph, bool exact);

// The input of a run: a graph, the session of its model, and how the plan
// partitions it.

struct SimulateInput {
  Session session;
  std::optional<RunSummary> model;  // set if no graph is given
  Graph graph;
  PlacedValues placed;
  PartitionOptions how;
  ValueSource source = ValueSource::Random;
  std::optional<StoredTensors> weights;  // set if `source` is Checkpoint
  // The dtypes of the runs in working precision.
  Storage storage = Storage::F32;
  Storage reduce = Storage::F32;
  InputIds ids;                   // tokens of a whole model; empty: random
  std::vector<GivenInput> given;  // inputs of a graph; others are drawn
  std::optional<ExpectedOutputs> expected;
};

// Returns empty, with the reason reported, on failure. Without `--graph` the
// model is either itself a graph file, or of a family whose forward pass is
// known. The specs of a graph file apply if there are no rules.
std::optional<SimulateInput> read_simulation(Context& context);

// Return what lint() checks; both results refer to their arguments.
ProgramInput program_input(const SimulateInput& input, const Program& program);
RunInput run_input(const SimulateInput& input, const ProgramInput& of,
                   const Simulation& outcome);

}  // namespace shardplan::cli
