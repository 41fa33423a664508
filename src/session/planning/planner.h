// SPDX-License-Identifier: Apache-2.0
// plan_training(): finds the fastest training plan for a model on given
// devices. search/ finds the plan, and it is judged again from the rules
// written for it.
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
#include "session/planning/question.h"
#include "session/planning/rivals.h"
#include "session/progress_listener.h"
#include "session/session.h"

namespace shardplan {

// A point, judged as `analyze` judges its flags.
struct VerifiedPlan {
  Session session;
  MemoryAnswer answer;
  std::string rules;  // the plan's rules as a file, with mesh and views
};

struct ShownPlan {
  PricedPlan plan;
  std::string rules;  // "@llama"
  // Set for a rival with its own rules; null: the question's rules.
  std::shared_ptr<const PlanQuestion> question = nullptr;
};

struct PlannedTraining {
  std::shared_ptr<const PlanQuestion> question;
  PlanAnswer answer;
  // The best of each shape and the requested rivals, the cheapest first, which
  // is the plan. Empty: nothing fits.
  std::vector<ShownPlan> shown;
  std::optional<VerifiedPlan> winner;
  // The reason if it is unknown whether the framework can run the winner's
  // tensor parallelism; else empty.
  std::string unknown;
  std::vector<RivalPlan> why_not;
  // If nothing fits: the point that needs the least memory; and the point that
  // fits on the fewest devices, tried in powers of two times the requested
  // number.
  std::optional<PricedPlan> smallest;
  std::optional<PricedPlan> with_more;
  int64_t more_devices = 0;
  // If nothing fits: the state that was also tried in host memory, as values of
  // --offload.
  std::vector<std::string> offloads = {};
};

// Finds the fastest plan. Empty, with the reason reported. Fails a
// SHARDPLAN_CHECK if the second judgement does not confirm the winner.
std::optional<PlannedTraining> plan_training(const PlannerRequest& request,
                                             Host& host, Diagnostics& diags,
                                             ProgressListener& progress);

// Returns the `analyze` flags for the point, beyond those of the request.
std::vector<PlanFlag> flags_of(const PlanSpace& space, const PlanPoint& point);

}  // namespace shardplan
