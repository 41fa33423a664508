// SPDX-License-Identifier: Apache-2.0
// ServingPlan: how to serve a model with an engine, namely the degrees on given
// devices and the number of concurrent requests. plan_serving() finds the plan
// with the most tokens per second within the time limits. It tries every
// degree, because there are few.
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
  PlanRequest planning;  // with a number of devices and no mesh
  MemoryRequest memory;
  WorkloadRequest workload;
  EngineRequest engine;
  std::optional<double> max_first_token;  // --max-ttft, seconds
  std::optional<double> max_next_token;   // --max-tpot, seconds
  SourcePtr fixed_mesh = {};              // --fix-mesh
  std::vector<SourcePtr> why_not = {};    // --why-not, meshes
};

// One layout of an engine at one number of requests.
struct ServingPlan {
  EngineMesh mesh;
  int64_t requests = 1;  // concurrent, over all groups
  PlanVerdict verdict = PlanVerdict::Illegal;
  std::string reason;  // why it is not good: illegal, or too slow
  // Sequences over all groups: those that the cache holds for certain, and
  // those that the engine runs at once.
  int64_t sequences = 0;
  int64_t at_once = 0;
  int64_t weights = 0;  // bytes on the fullest device
  Seconds first_token = {};
  Seconds next_token = {};
  double tokens_per_second = 0;  // generated, over all devices
  std::string limited_by = {};

  bool is_good() const {
    return verdict == PlanVerdict::Fits && reason.empty();
  }
};

// Returns "pp=2,dp=2,tp=4", without degrees of 1.
std::string mesh_text(const EngineMesh& mesh);

struct PlannedServing {
  ServingPlanRequest request;  // includes the assumptions
  std::vector<std::string> assumed;
  // Per layout, the number of requests with the highest rate; the best layout
  // first. Layouts that are not good come last, each with its closest attempt.
  std::vector<ServingPlan> layouts;
  int64_t considered = 0;  // layouts times numbers of requests tried
  std::vector<ServingPlan> why_not;
};

// Finds the best layouts. Empty, with the reason reported. Fails a
// SHARDPLAN_CHECK if `analyze` does not confirm the best layout.
std::optional<PlannedServing> plan_serving(const ServingPlanRequest& request,
                                           Host& host, Diagnostics& diags,
                                           ProgressListener& progress);

// Returns the `analyze` flags for the plan, beyond those of the request.
std::vector<PlanFlag> flags_of(const ServingPlanRequest& request,
                               const ServingPlan& plan);

}  // namespace shardplan
