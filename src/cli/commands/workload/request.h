// SPDX-License-Identifier: Apache-2.0
// How a training step is done: what decides its activations.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "activations/options.h"
#include "base/diagnostic.h"

namespace shardplan::cli {

struct Flag;

inline constexpr int64_t kMostMicrobatches = 1'000'000;

// --batch and --seq are those of the KV cache, too (session/budget.h).
struct WorkloadRequest {
  // --remat, --microbatches, --schedule, --attention, --loss-tiles,
  // --expert-factor.
  StepOptions step;
  bool given = false;  // one of these was
};

const std::vector<Flag>& workload_flags();

}  // namespace shardplan::cli
