// SPDX-License-Identifier: Apache-2.0
// What JAX and XLA made of small programs: tests/data/jax/programs.json, which
// tests/vectors/record_programs.py records and explains.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "comm/collective.h"
#include "core/graph_description.h"
#include "core/manifest.h"
#include "core/mesh.h"
#include "core/spec.h"
#include "core/types.h"

namespace shardplan::testing {

// A collective of the compiled program, as one device sees it.
struct RecordedCollective {
  CollectiveKind kind = CollectiveKind::AllGather;
  AxisNames axes;     // along which the devices of a group lie, in mesh order
  int64_t ranks = 1;  // of a group; a permute counts its pairs, as 2
  Shape operand;      // local, of 4-byte elements
  Shape result;
  int64_t bytes = 0;  // that the busiest device sends, on a ring
  // An all-reduce of which every device keeps a slice only.
  bool sliced = false;
};

struct RecordedResult {
  Shape shape;
  PartitionSpec spec;          // where XLA left it; an entry per dimension
  std::vector<double> values;  // float32, row-major
};

struct RecordedProgram {
  std::string name;  // "mlp: Megatron"
  std::string group;
  Mesh mesh{{{"dp", 1}}};
  std::string graph;                           // a graph file, in JSON
  std::map<std::string, PartitionSpec> specs;  // of parameters
  std::vector<RecordedResult> results;         // as the graph's outputs
  std::vector<RecordedCollective> collectives;
};

// All of them, in the order of the file. Throws what the file lacks.
std::vector<RecordedProgram> recorded_programs();

// The graph file of a program, read; throws what is wrong with it.
struct DescribedProgram {
  GraphDescription graph;
  Manifest parameters;
};
DescribedProgram described(const RecordedProgram& program);

// The numbers that a tensor of that name had, row-major: eighths in [-1, 1] or,
// where `below` is not 0, integers in [0, below).
std::vector<double> recorded_numbers(std::string_view name, const Shape& shape,
                                     int64_t below);

}  // namespace shardplan::testing
