// SPDX-License-Identifier: Apache-2.0
// How long a run needs what it holds.
//
// Sharded and unsharded runs of a graph advance together, in phases: phase
// n is node n of the graph, and of the program everything since the computing
// of node n - 1 up to that of node n. Behind the last node there is one more
// phase, in which outputs are put into their layouts.
//
// Loads have no phase: what they load is there when it is read. What is made
// of inputs and parameters by loads, slices and gathers alone is not kept from
// one use to a far one, but rematerialised, as a device would not do: it keeps
// that the memory of the whole run does not hold all weights.
#pragma once

#include <cstddef>
#include <vector>

#include "spmd/program.h"

namespace shardplan {

struct Lifetimes {
  int phases = 0;                        // of the whole run
  std::vector<int> phase;                // per instruction; -1 of a load
  std::vector<int> maker;                // per register: its instruction
  std::vector<bool> rematerialised;      // per register
  std::vector<std::vector<int>> reads;   // per register: phases, ascending
  std::vector<size_t> last_read;         // per register: the instruction; the
                                         // number of instructions of an output
  std::vector<std::vector<int>> needed;  // per value: phases in which the
                                         // whole is, ascending
};
// REQUIRES: a register is the result of one instruction.
Lifetimes lifetimes_of(const Program& program);

// Whether something needed in these phases is worth keeping after one of
// them: until it is needed next, few others pass.
bool is_needed_soon(const std::vector<int>& phases, int after);
bool is_needed_later(const std::vector<int>& phases, int after);

}  // namespace shardplan
