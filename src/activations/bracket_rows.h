// SPDX-License-Identifier: Apache-2.0
// Bracket rows: what a moment of a step holds, by category.
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

// The rows of a bracket that follow those of the budget's categories.
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

// Returns the state of a device, with the gradients that its host may hold,
// since these show how much is trained.
Parts state_of(const BudgetClass& device);

// Lowers the lower end and raises the upper end by the margin for steps whose
// operations are known. `percent` is the margin of activations.
void loosen(SavingMode figure, int64_t percent, Parts& parts);

// The margin of activations in percent, if a step's operations are known: how
// far the estimate may be off. Over 54 steps of PyTorch measured on H100 and
// H200 (transformers 5.17, torch 2.11) its error was at most 3.5 % of the
// total, and 0.5 % in the median; over steps that XLA plans for an H200, 2.5 %
// in the median (docs/validation.md).
inline constexpr int64_t kActivationSlack = 8;

// Counts a stage that retains `retained` bytes of gathered weights, with their
// gradients.
void retain_stage(Int128 retained, const TrainedShare& share,
                  const ReductionInput& reduction, Parts& parts);

// Returns the largest values, by name, that forward saved or that are live in
// the running backward.
std::vector<AliveRow> alive_rows(const std::map<std::string, Int128>& saved,
                                 const std::map<std::string, Int128>& running);

// Returns why the lower and the upper end of one moment differ: every cause
// that is at least a hundredth of the upper end. REQUIRES: the bytes fit 63
// bits.
std::vector<Widening> widenings(const Parts& least, const Parts& most,
                                const SegmentOptions& how);

// Returns the rows that such a step may have. REQUIRES: the bytes fit 63 bits.
std::vector<BracketRow> bracket_rows(
    const std::array<Parts, kSavingModes>& parts, const FrameworkDef& framework,
    const SegmentOptions& how, bool dequantises, bool offloads);

}  // namespace shardplan
