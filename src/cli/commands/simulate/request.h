// SPDX-License-Identifier: Apache-2.0
// The flags of `simulate`: what it runs, and how.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/mesh.h"
#include "core/rules.h"
#include "graph/elementwise.h"
#include "io/graph/graph_reader.h"
#include "sim/values.h"
#include "spmd/program.h"

namespace shardplan::cli {

// --input NAME=FILE
struct InputFile {
  std::string name;
  std::string path;
};

struct SimulateRequest {
  std::optional<std::string> graph;      // --graph: a path, or @name
  DimSizes dims;                         // --dims
  Overlap overlap = Overlap::Off;        // --overlap
  std::optional<std::string> algorithm;  // --algorithm
  // --values; empty: the checkpoint's numbers if it has weights, else random
  // ones.
  std::optional<ValueSource> values;
  int64_t seed = 0;  // --seed

  std::vector<InputFile> inputs;         // --input, of a graph
  std::optional<std::string> input_ids;  // --input-ids

  // Flags for a whole model, without a graph.
  std::optional<int64_t> layers;    // --layers
  std::optional<int64_t> batch;     // --tokens BxS
  std::optional<int64_t> length;    // the same flag
  std::optional<int64_t> capacity;  // --capacity
  bool shrink = false;              // --shrink
  bool full = false;                // --full
  std::optional<RunAs> run_as;      // --as; empty: as the rules' framework does
  // The mesh whose divisibility --shrink preserves; empty: the mesh of the run.
  std::optional<Mesh> shrink_mesh;

  std::optional<Storage> storage;     // --dtype
  std::optional<Storage> reduce;      // --reduce-dtype; else --dtype
  std::optional<std::string> expect;  // --expect
  std::vector<std::string> vary;      // --vary: axes, or "algorithm"
};

}  // namespace shardplan::cli
