// SPDX-License-Identifier: Apache-2.0
// What `simulate` runs, and how.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/diagnostic.h"
#include "core/mesh.h"
#include "core/rules.h"
#include "graph/elementwise.h"
#include "io/graph/graph_reader.h"
#include "sim/values.h"
#include "spmd/program.h"

namespace shardplan::cli {

struct Flag;
struct Options;
struct Setting;

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
  // --values; not given: those of the checkpoint, else random ones.
  std::optional<ValueSource> values;
  int64_t seed = 0;  // --seed

  std::vector<InputFile> inputs;         // --input, of a graph
  std::optional<std::string> input_ids;  // --input-ids

  // Of a whole model, where no graph is given.
  std::optional<int64_t> layers;    // --layers
  std::optional<int64_t> batch;     // --tokens BxS
  std::optional<int64_t> length;    // the same
  std::optional<int64_t> capacity;  // --capacity
  bool shrink = false;              // --shrink
  bool full = false;                // --full
  std::optional<RunAs> run_as;      // --as; not given: as the rules are run
  // The mesh whose divisibility --shrink keeps; not given: that of the run.
  std::optional<Mesh> shrink_mesh;

  std::optional<Storage> storage;     // --dtype
  std::optional<Storage> reduce;      // --reduce-dtype; else as --dtype
  std::optional<std::string> expect;  // --expect
  std::vector<std::string> vary;      // --vary: axes, or "algorithm"
};

// But for --algorithm, which `explain` takes, too.
const std::vector<Flag>& simulate_flags();
// Whether the answer and the picture are written to two files (SP010).
void validate_simulate(std::span<const Setting> given, const Options& options,
                       Diagnostics& diags);

}  // namespace shardplan::cli
