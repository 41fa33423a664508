// SPDX-License-Identifier: Apache-2.0
// Which values are kept for backward, under one way of keeping and a policy of
// rematerialisation.
#pragma once

#include <string>
#include <vector>

#include "activations/backward.h"
#include "activations/program_view.h"
#include "activations/remat.h"
#include "base/checked.h"

namespace shardplan {

// What backward of one instruction reads.
struct BackwardReads {
  std::vector<int> registers;
  Int128 extra = 0;        // bytes: numbers of rows, copies in float32
  std::string extra_name;  // whose
  bool attention = false;  // they are of attention
};

struct KeptValues {
  // Per register (of those that have storage of their own): there while the
  // backward of its layer runs; there from forward to backward.
  std::vector<bool> alive;
  std::vector<bool> kept;
  // Per register, the first instruction that needs it; -1: none.
  std::vector<int> needed_by;
  // Per instruction: what its backward reads, as it runs; of these numbers of
  // rows and copies, what stays from forward to backward.
  std::vector<BackwardReads> reads;
  std::vector<Int128> extra_kept;
  // Per instruction: only its own group sees what it makes.
  std::vector<bool> inner;
  // Per instruction, of whose operands its backward gives gradients.
  std::vector<std::vector<int>> differentiates;
};

KeptValues kept_values(const ProgramView& view, const SegmentOptions& options,
                       const Remat& remat, Keeping keeping);

// Whether a layer is computed again.
bool is_repeated(const ProgramView& view, const Remat& remat, int segment);

}  // namespace shardplan
