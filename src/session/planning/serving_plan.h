// SPDX-License-Identifier: Apache-2.0
// What to serve a model with: the degrees of an engine on so many devices, and
// how many requests at once, that give most tokens per second within limits of
// time. Every degree is looked at; there are few.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/diagnostic.h"
#include "base/host.h"
#include "base/source.h"
#include "cost/kernels.h"
#include "search/plan_search.h"
#include "serve/engine.h"
#include "session/memory_request.h"
#include "session/plan_request.h"
#include "session/planning/question.h"
#include "session/progress_listener.h"
#include "session/serving.h"

namespace shardplan {

struct ServingPlanRequest {
  PlanRequest planning;  // with a number of devices, and no mesh
  MemoryRequest memory;
  WorkloadRequest workload;
  EngineRequest engine;
  std::optional<double> max_first_token;  // --max-ttft, seconds
  std::optional<double> max_next_token;   // --max-tpot, seconds
  SourcePtr fixed_mesh = {};              // --fix-mesh
  std::vector<SourcePtr> why_not = {};    // --why-not, meshes
};

// One way to serve, at one number of requests.
struct ServingPlan {
  EngineMesh mesh;
  int64_t requests = 1;  // at once, over all groups
  PlanVerdict verdict = PlanVerdict::Illegal;
  std::string reason;  // why it is none: illegal, or slower than allowed
  // Sequences in all groups: that the cache holds for certain, and that the
  // engine runs at once.
  int64_t sequences = 0;
  int64_t at_once = 0;
  int64_t weights = 0;  // bytes on the fullest device
  Seconds first_token = {};
  Seconds next_token = {};
  double tokens_per_second = 0;  // that are generated, on all devices
  std::string limited_by = {};

  bool is_good() const {
    return verdict == PlanVerdict::Fits && reason.empty();
  }
};

// "pp=2,dp=2,tp=4", without degrees of 1.
std::string mesh_text(const EngineMesh& mesh);

struct PlannedServing {
  ServingPlanRequest request;  // with what was assumed
  std::vector<std::string> assumed;
  // Per layout the number of requests that gives most, the best layout first;
  // then those without one, of each what comes nearest.
  std::vector<ServingPlan> layouts;
  int64_t considered = 0;  // layouts, each with each number of requests
  std::vector<ServingPlan> why_not;
};

// Empty, with the reason reported. A best layout that `analyze` does not
// confirm is a bug of ours.
std::optional<PlannedServing> plan_serving(const ServingPlanRequest& request,
                                           Host& host, Diagnostics& diags,
                                           ProgressListener& progress);

// What `analyze` takes for the plan, beside what was asked for.
std::vector<PlanFlag> flags_of(const ServingPlanRequest& request,
                               const ServingPlan& plan);

}  // namespace shardplan
