// SPDX-License-Identifier: Apache-2.0
// What a training step is asked for with.
#pragma once

#include <cstdint>

#include "activations/options.h"
#include "session/budget.h"
#include "session/plan_request.h"

namespace shardplan {

inline constexpr int64_t kMostMicrobatches = 1'000'000;

// How a step is done. --batch and --seq are those of the KV cache, too
// (session/budget.h).
struct WorkloadRequest {
  // --remat, --microbatches, --schedule, --attention, --loss-tiles,
  // --expert-factor.
  StepOptions step;
  bool given = false;  // one of these was
};

// All must outlive what is made of it.
struct StepRequest {
  const PlanRequest& planning;
  const MemoryRequest& memory;
  const WorkloadRequest& workload;
};

}  // namespace shardplan
