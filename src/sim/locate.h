// SPDX-License-Identifier: Apache-2.0
// One operation of a program by itself, on inputs of its own: where errors of
// the operations before it cannot reach, or cancel.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "graph/graph.h"
#include "sim/execute.h"
#include "sim/simulate.h"
#include "sim/transfers.h"
#include "spmd/partition.h"
#include "spmd/program.h"

namespace shardplan {

struct Isolated {
  std::unique_ptr<Graph> graph;  // one node; values: operands, then the result
  PerValue<ValueId> operands;    // the same values in the whole graph
  Program program;
};

// Operands and result are sharded as in the whole program, but for partial
// sums. A later step of what is one shard_map in the file loses it.
Isolated isolate(const Program& program, NodeId node,
                 const PartitionOptions& options);

// How near the products of a sharded run come to what rounding allows.

// bound_ratio (sim/verdict.h) of a product of the program by itself, on whole
// operands that `operand` gives in float32. Empty when the node is not a
// product, or its contraction is too long for a bound.
std::optional<double> bound_ratio_of(const Program& program, NodeId node,
                                     const ReadWhole& operand,
                                     const SimulateOptions& options);

// Where a sharded run parts from the unsharded one.

// What the devices have of a register, against the unsharded value: the first
// that has something else than its part. Parts of sums are not looked at: their
// sum is, where someone needs it.
std::optional<Divergence> divergence_of(const Program& program,
                                        RegisterId number,
                                        const DeviceTensors& parts,
                                        const Tensor& unsharded,
                                        Arithmetic arithmetic);

// The same of what they have once partial sums are taken, in `layout`.
std::optional<Divergence> difference_of(const Program& program,
                                        RegisterId number, const Layout& layout,
                                        const DeviceTensors& parts,
                                        const Tensor& unsharded,
                                        Arithmetic arithmetic);

// The first register for which it is so. Both runs advance until they part, and
// nothing is kept. In floating point, choices are those of the unsharded run.
// `begin` is called before every phase; where it gives false, nothing more is
// run. REQUIRES: nothing of the runs has run.
std::optional<Divergence> first_divergence(
    PairedRuns& runs, const std::function<bool(int phase)>& begin = {});

// Choices that an operation makes (OpDef::is_decision), such as the experts of
// a token: rounding may turn them over, so that results of two runs could not
// be compared. The unsharded run in double precision decides for all.
//
// What replaces a choice also hides it. So every choice that devices make in
// double precision is looked at before: one that rounding does not explain is a
// mistake of the plan.

// How far apart two scores may be that rounding turned over, as a part of the
// norm of their row (row_scales, sim/verdict.h): runs agree that differ by less
// than kMismatch, and each of the two scores may be off by as much.
inline constexpr double kTie = 2 * 0x1p-30;

bool is_decision(const Program& program, const Instruction& instruction);

// The first device, and there the first entry, whose own choice is not the one
// recorded, although the scores that it chose between do not tie. `scores`: the
// whole first operand in the unsharded run, in doubles. A result of another
// shape than the device's part is a mismatch as well, and so is any other
// choice of an operation that does not give indices along the last dimension.
std::optional<Divergence> wrong_choice(const Program& program,
                                       const Instruction& instruction,
                                       const Tensor& scores,
                                       const Tensor& recorded,
                                       const DeviceTensors& made);

// Puts the devices' parts of a recorded choice in the place of their own, and
// says how many entries of the whole some device would have chosen differently.
// What has another shape than its part stays as it is.
int64_t replay(const Program& program, const Instruction& instruction,
               const Tensor& recorded, DeviceTensors& made);

}  // namespace shardplan
