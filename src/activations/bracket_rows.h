// SPDX-License-Identifier: Apache-2.0
// Rows of a bracket: what a moment of a step holds, by category.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "activations/bracket.h"
#include "activations/buffers.h"
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
// are known: of activations this part, in percent.
void loosen(Keeping answer, int64_t percent, Parts& parts);

// How far the estimate may be off where a step's operations are known, in
// percent of activations. Over 54 steps of PyTorch measured on H100 and H200
// (transformers 5.17, torch 2.11) its error was at most 3.5 % of the total, and
// 0.5 % in the median; over steps that XLA plans for an H200 2.5 % in the
// median (docs/validation.md).
inline constexpr int64_t kActivationSlack = 8;

// Counts a stage that keeps this much of what it gathers, with its gradients.
void keep_stage(Int128 kept, const LayerWeights::Share& share,
                const ReductionInput& reduction, Parts& parts);

// The largest of the values that are kept from forward or alive in the backward
// that runs, by name.
std::vector<AliveRow> alive_rows(const std::map<std::string, Int128>& saved,
                                 const std::map<std::string, Int128>& running);

// Why the least and the most of one moment differ, where it is a hundredth of
// the most or more. REQUIRES: the bytes fit 63 bits.
std::vector<Widening> widenings(const Parts& least, const Parts& most,
                                const SegmentOptions& how);

// The rows that such a step may have. REQUIRES: the bytes fit 63 bits.
std::vector<BracketRow> bracket_rows(const std::array<Parts, kKeepings>& parts,
                                     const FrameworkDef& framework,
                                     const SegmentOptions& how,
                                     bool dequantises, bool offloads);

}  // namespace shardplan
