// SPDX-License-Identifier: Apache-2.0
// What `simulate` runs, and whether there is memory for it.
#pragma once

#include <optional>
#include <string>
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

// Whether a graph can be run in the memory that the program may use, found
// before anything is computed.

// False, with the value, its shape and its bytes reported (SP017), when what
// must be held while some operation is computed is more than may be had. What
// passes may still meet the limit: replicas and collectives take more.
// `exact`: all numbers are residues, held as doubles.
// `max_memory` is what the user allows, where that is said.
bool fits_memory(const Graph& graph, bool exact,
                 const std::optional<int64_t>& max_memory, Diagnostics& diags);

// The most that must be held while one operation is computed, in bytes.
double least_bytes_held(const Graph& graph, bool exact);

// What `simulate` runs: a graph, the session of its model, and the program that
// the plan makes of them.

struct SimulateInput {
  Session session;
  std::optional<RunSummary> model;  // where no graph is given
  Graph graph;
  PlacedValues placed;
  PartitionOptions how;
  ValueSource source = ValueSource::Random;
  std::optional<StoredTensors> weights;  // where these are the source
  // Of the runs in working precision.
  Storage storage = Storage::F32;
  Storage reduce = Storage::F32;
  InputIds ids;                   // of a whole model; none: random ones
  std::vector<GivenInput> given;  // of a graph; others are drawn
  std::optional<ExpectedOutputs> expected;
};

// Empty, with the reason reported. Without `--graph` the model is a graph file
// itself, or of a family whose forward pass is known; a graph file's own specs
// count where there are no rules.
std::optional<SimulateInput> read_simulation(Context& context);

// What findings are about: they refer to what is given.
ProgramInput program_input(const SimulateInput& input, const Program& program);
RunInput run_input(const SimulateInput& input, const ProgramInput& of,
                   const Simulation& outcome);

}  // namespace shardplan::cli
