// SPDX-License-Identifier: Apache-2.0
// Whether a graph can be run in the memory that the program may use, told
// before anything is computed.
#pragma once

#include "base/diagnostic.h"
#include "cli/options.h"
#include "graph/graph.h"

namespace shardplan::cli {

// False, with the value, its shape and its bytes reported (SP017), when what
// must be held while some operation is computed is more than may be had. What
// passes may still meet the limit: replicas and collectives take more.
// `exact`: all numbers are residues, held as doubles.
bool fits_memory(const Graph& graph, bool exact, const Options& options,
                 Diagnostics& diags);

}  // namespace shardplan::cli
