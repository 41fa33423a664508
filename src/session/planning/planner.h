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
#include "session/planning/question.h"
#include "session/planning/rivals.h"
#include "session/progress_listener.h"
#include "session/session.h"

namespace shardplan {

// A point, judged as `analyze` judges what flags say.
struct VerifiedPlan {
  Session session;
  MemoryAnswer answer;
  std::string rules;  // its rules as a file, with mesh and views
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
  // The best of each shape and the rivals that were asked for, the cheapest
  // first: it is the plan. Empty: nothing fits.
  std::vector<ShownPlan> shown;
  std::optional<VerifiedPlan> winner;
  // The reason if it is unknown whether the framework can run the winner's
  // tensor parallelism; else empty.
  std::string unknown;
  std::vector<RivalPlan> why_not;
  // If nothing fits: the point that holds least, and the fewest devices, in
  // powers of two times those asked for, on which something fits.
  std::optional<PricedPlan> smallest;
  std::optional<PricedPlan> with_more;
  int64_t more_devices = 0;
  // Then nothing fits with this in host memory either: values of --offload.
  std::vector<std::string> offloads = {};
};

// Empty, with the reason reported. A winner that the second judgement does not
// confirm is a bug of ours.
std::optional<PlannedTraining> plan_training(const PlannerRequest& request,
                                             Host& host, Diagnostics& diags,
                                             ProgressListener& progress);

// What `analyze` takes for the point, beside what was asked for.
std::vector<PlanFlag> flags_of(const PlanSpace& space, const PlanPoint& point);

}  // namespace shardplan
