// SPDX-License-Identifier: Apache-2.0
// Rows of a bracket: what a moment of a step holds, by category.
#pragma once

#include <array>
#include <cstddef>
#include <vector>

#include "activations/bracket.h"
#include "activations/options.h"
#include "base/checked.h"
#include "memory/budget.h"

namespace shardplan {

// Those of the budget, then these.
enum StepRow : size_t {
  kActivations = kCategories,
  kLogitRow,
  kBuffers,
  kBuckets,
  kPipeline,
  kTemporaries,
  kWorkspaces,
  kDequantised,
  kFp8,
  kRows
};

using Parts = std::array<Int128, kRows>;  // bytes
Int128 sum_of(const Parts& parts);

// Lowers the least and raises the most by the margin for steps whose operations
// are known.
void loosen(Keeping answer, Parts& parts);

// Why the three differ, where it is a hundredth of the most or more.
// REQUIRES: the bytes fit 63 bits.
std::vector<Widening> widenings(const std::array<Parts, kKeepings>& parts,
                                const SegmentOptions& how);

// The rows that such a step may have. REQUIRES: the bytes fit 63 bits.
std::vector<BracketRow> bracket_rows(const std::array<Parts, kKeepings>& parts,
                                     const FrameworkDef& framework,
                                     const SegmentOptions& how,
                                     bool dequantises, bool offloads);

}  // namespace shardplan
