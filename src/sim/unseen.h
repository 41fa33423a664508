// SPDX-License-Identifier: Apache-2.0
// Faults that the values of a run could not show: where numbers are such that a
// sum may be dropped or taken twice, or shards exchanged, and everything stays
// as it is, equal results say nothing about the plan.
//
// A term is seen where leaving it out changes some row by more than kMismatch.
// All of it is told from the unsharded run and from what devices hold in double
// precision, while the runs advance.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "sim/non_finite.h"
#include "sim/transfers.h"
#include "spmd/program.h"

namespace shardplan {

struct Unseen {
  enum class Kind : uint8_t {
    ZeroInput,   // an input or a parameter is all zero: its uses give 0, or add
                 // nothing
    ZeroResult,  // an operation on numbers that are not gives nothing but
                 // zeros, or an output or a probe is zero
    LostTerm,    // `operand` is added, and nothing changes
    LostParts,   // of a sum over `axes`, no two devices' parts are seen
    AlikeShards,  // devices along `axes` hold the same, and could have each
                  // other's
    OneToken,     // attention among one token gives its value, whatever the
                  // scores are
    NoNumbers,    // there is nothing to compare
  };
  Kind kind = Kind::NoNumbers;
  int value = 0;     // of the graph
  int operand = -1;  // LostTerm: a value, too
  AxisNames axes = {};
};

// Of node `n` of the unsharded run. `whole`: its operands, then its result;
// `kinds` alike, all finite; `integers`: integer_values of the graph.
std::optional<Unseen> unseen_in_node(const Graph& graph, int n,
                                     const std::vector<Tensor>& whole,
                                     const std::vector<NumberKinds>& kinds,
                                     const std::vector<bool>& integers);

// Of what an instruction made on the devices: of parts of a sum (`whole`: the
// value in the unsharded run), of an input or a parameter that is cut.
std::optional<Unseen> unseen_parts(const Program& program,
                                   const Instruction& at,
                                   const DeviceTensors& made,
                                   const Tensor& whole);
std::optional<Unseen> unseen_shards(const Program& program,
                                    const Instruction& at,
                                    const DeviceTensors& made,
                                    const std::vector<bool>& integers);

}  // namespace shardplan
