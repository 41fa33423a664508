// SPDX-License-Identifier: Apache-2.0
// Programs broken on purpose: one fault in a correct program, such that it
// still runs.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

#include "spmd/program.h"
#include "tests/support/random_graph.h"

namespace shardplan::testing {

enum class FaultKind : uint8_t {
  DroppedReduction,  // parts are taken for the sum
  DoubledReduction,  // the sum is summed again
  SwappedShards,     // two devices have each other's shard
  WrongAxis,         // a collective, slice or load along other axes
  WrongHalf,         // the next shard, where one's own is meant
  EarlyAddition,     // something is added to every part of a sum
  ShiftedRows,       // a shard begins one row late; the last row is the first
  SumForMaximum,     // parts of a maximum are added up
  ChoiceOfPart,      // every device chooses among a part of the scores
};
inline constexpr int kFaultKinds = 9;
std::string_view fault_name(FaultKind kind);

struct FaultyProgram {
  std::unique_ptr<Graph> graph;  // the program's
  Program program;
  // The first register of the correct program that may hold something else.
  RegisterId faulty = {};
};

// A fault at a random place that the outputs depend on; empty where the program
// has no place for this kind. Whether anything changes is for the caller to
// see: shards may be alike.
std::optional<FaultyProgram> inject(FaultKind kind, const Program& program,
                                    Random& random);

// The values that a fault may show in first: that of the faulty register, or
// where it is only a part of a sum, those of the first whole ones made from it;
// and the results of the operations that read these.
std::vector<ValueId> values_near(const FaultyProgram& fault);

}  // namespace shardplan::testing
