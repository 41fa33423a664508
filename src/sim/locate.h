// SPDX-License-Identifier: Apache-2.0
// Locates where a sharded run diverges from the unsharded one.
//
// isolate() runs one operation of a program alone, on inputs of its own, where
// errors of earlier operations neither reach it nor cancel.
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

// Returns the program of one node. Operands and result are sharded as in the
// whole program, but hold no partial sums. A later step of an operation that is
// one shard_map in the file loses its shard_map.
Isolated isolate(const Program& program, NodeId node,
                 const PartitionOptions& options);

// Rounding bounds: how close the products of a sharded run come to what
// rounding allows.

// Returns bound_ratio() (sim/verdict.h) of one product of the program, run
// alone on whole operands that `operand` returns in float32. Returns nothing if
// the node is not a product, or if its contraction is too long for a bound.
std::optional<double> bound_ratio_of(const Program& program, NodeId node,
                                     const ReadWhole& operand,
                                     const SimulateOptions& options);

// Divergence: where a sharded run differs from the unsharded one.

// Compares what the devices hold of a register with the unsharded value, and
// returns the first device that holds something else than its part. Partial
// sums are not compared; their sum is, where something needs it.
std::optional<Divergence> divergence_of(const Program& program,
                                        RegisterId number,
                                        const DeviceTensors& parts,
                                        const Tensor& unsharded,
                                        Arithmetic arithmetic);

// Compares likewise what they hold in `layout` after partial sums are added up.
std::optional<Divergence> difference_of(const Program& program,
                                        RegisterId number, const Layout& layout,
                                        const DeviceTensors& parts,
                                        const Tensor& unsharded,
                                        Arithmetic arithmetic);

// Returns the divergence of the first register that has one. Both runs advance
// until they diverge, and release what no longer matters. `begin` is called
// before every phase; if it returns false, the runs end. REQUIRES: neither run
// has started; in floating point, no operation is a decision.
std::optional<Divergence> first_divergence(
    PairedRuns& runs, const std::function<bool(int phase)>& begin = {});

// Decisions: choices that an operation makes (OpDef::is_decision), such as the
// experts of a token. Rounding may flip them, and the results of two runs could
// then not be compared. So the unsharded run in double precision decides for
// all.
//
// Replacing a choice also hides it. So every choice that devices make in double
// precision is checked first: one that rounding does not explain is an error of
// the plan.

// How far apart two scores may be whose choice rounding flipped, as a fraction
// of the norm of their row (row_scales, sim/verdict.h). Runs agree if they
// differ by less than kMismatch, and each of the two scores may be off by as
// much.
inline constexpr double kTie = 2 * 0x1p-30;

bool is_decision(const Program& program, const Instruction& instruction);

// Returns the first device, and there the first entry, whose own choice differs
// from the recorded one although the scores that it chose between do not tie.
// `scores` is the whole first operand in the unsharded run, in doubles. A
// result whose shape is not that of the device's part is a mismatch, and so is
// any different choice of an operation whose result is not indices along the
// last dimension.
std::optional<Divergence> wrong_choice(const Program& program,
                                       const Instruction& instruction,
                                       const Tensor& scores,
                                       const Tensor& recorded,
                                       const DeviceTensors& made);

// Replaces the devices' choices by their parts of the recorded choice, and
// returns how many entries of the whole some device would have chosen
// differently. If some device's choice has another shape than its part, changes
// nothing and returns 0.
int64_t replay(const Program& program, const Instruction& instruction,
               const Tensor& recorded, DeviceTensors& made);

}  // namespace shardplan
