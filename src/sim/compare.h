// SPDX-License-Identifier: Apache-2.0
// Comparison: compares everything that devices compute with the unsharded run,
// while both advance. Outputs alone are not enough: an operation that saturates
// or cancels (a sigmoid far from zero, a clamp, 0 times x) hides earlier
// errors.
#pragma once

#include <optional>
#include <vector>

#include "sim/simulate.h"
#include "sim/transfers.h"
#include "spmd/program.h"

namespace shardplan {

class Comparison {
 public:
  explicit Comparison(const Program& program) : program_(program) {}

  // Compares the result of an instruction, in the runs that decide: in doubles
  // or in the field. REQUIRES: choices have not been replayed yet.
  void look(const PairedRuns& runs, const Instruction& at,
            const DeviceTensors& made);
  // Compares the same instruction in working precision. A difference between
  // runs in doubles that is far smaller than the errors of float32 is rounding,
  // as where numbers cancel, and is dropped. Outputs get no such allowance.
  void look_working(const PairedRuns& exact, const PairedRuns& working,
                    const Instruction& at, const DeviceTensors& made);
  // Records the differences of a phase; must be called after each phase.
  void end_phase();

  // Returns the first difference that rounding does not explain, in program
  // order. Differences in whole values come before those in partial sums.
  const std::optional<Divergence>& found() const {
    return whole_ ? whole_ : sum_;
  }

 private:
  struct Candidate {
    Divergence at;
    bool of_sum = false;
    double size = 0;  // max |s64 - y64| over all devices
  };

  const Program& program_;
  std::vector<Candidate> candidates_;  // in this phase
  std::optional<Divergence> whole_;
  std::optional<Divergence> sum_;
};

}  // namespace shardplan
