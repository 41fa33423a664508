// SPDX-License-Identifier: Apache-2.0
// Planner: from a model and devices to the way of training that takes least
// time, found by search/ and judged again from what was written down.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/diagnostic.h"
#include "base/host.h"
#include "search/plan_search.h"
#include "session/memory_answer.h"
#include "session/memory_request.h"
#include "session/plan_request.h"
#include "session/progress_listener.h"
#include "session/session.h"

namespace shardplan {

struct PlannerRequest {
  PlanRequest planning;  // with a number of devices, and no mesh
  MemoryRequest memory;
  WorkloadRequest workload;
  AxisNames over = {};                     // --over; empty: all that are there
  std::vector<int64_t> microbatches = {};  // empty: all that divide
  std::vector<std::string> remats = {};    // empty: the framework's
  SourcePtr fixed_mesh = {};               // --fix-mesh
  std::vector<SourcePtr> why_not = {};     // --why-not
  PlanObjective objective = PlanObjective::StepTime;
  size_t shapes = 1;  // that are compared (--top)
};

// The best point of a mesh that was asked about; none: no point of it fits.
struct WhyNot {
  std::string candidate;  // as it was written
  PlanVerdict verdict = PlanVerdict::Illegal;
  std::string reason;
  std::optional<PricedPlan> best;
};

// A point, judged as `analyze` judges what flags say.
struct VerifiedPlan {
  Session session;
  MemoryAnswer answer;
  std::string rules;  // its rules as a file, with mesh and views
};

struct PlannedTraining {
  PlanSpace space;
  PlanAnswer answer;
  // With what was assumed, and sentences that say so.
  MemoryRequest memory;
  std::vector<std::string> assumed;
  std::string rules;                   // "`@llama`"
  std::optional<VerifiedPlan> winner;  // none: nothing fits
  std::vector<WhyNot> why_not;
  // If nothing fits: the point that holds least, and the fewest devices, in
  // powers of two times those asked for, on which something fits.
  std::optional<PricedPlan> smallest;
  std::optional<PricedPlan> with_more;
  int64_t more_devices = 0;
};

// Empty, with the reason reported. A winner that the second judgement does not
// confirm is a bug of ours.
std::optional<PlannedTraining> plan_training(const PlannerRequest& request,
                                             Host& host, Diagnostics& diags,
                                             ProgressListener& progress);

// "--mesh fsdp=8,tp=2 --stages pp --microbatches 4": what `analyze` takes for
// the point, beside what was asked for.
std::string flags_of(const PlanSpace& space, const PlanPoint& point);

}  // namespace shardplan
