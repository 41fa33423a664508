// SPDX-License-Identifier: Apache-2.0
// PlanQuestion: a model, devices and a training step, completed with
// assumptions for what the request leaves open, and the space of plans with
// their costs.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/diagnostic.h"
#include "base/host.h"
#include "base/source.h"
#include "core/rules.h"
#include "evaluate/asked_memory.h"
#include "evaluate/step.h"
#include "search/plan_search.h"
#include "session/memory_request.h"
#include "session/plan_request.h"
#include "session/planning/pricing.h"
#include "session/progress_listener.h"
#include "session/session.h"

namespace shardplan {

struct PlannerRequest {
  PlanRequest planning;  // with a number of devices and no mesh
  MemoryRequest memory;
  WorkloadRequest workload;
  AxisNames over = {};                     // --over; empty: all available axes
  std::vector<int64_t> microbatches = {};  // empty: all that divide the batch
  std::vector<std::string> remats = {};    // empty: those of the framework
  SourcePtr fixed_mesh = {};               // --fix-mesh
  std::vector<SourcePtr> forbidden = {};   // --forbid, `PATTERN=SPEC`
  // --why-not: a mesh, `NAME=SPEC` or rules; --keep: rules.
  std::vector<SourcePtr> why_not = {};
  std::vector<std::string> keep = {};
  PlanObjective objective = PlanObjective::StepTime;
  // Values of --offload that were not requested, but are set in `memory`
  // because nothing fits without them.
  std::vector<std::string> offloads = {};
  size_t shapes = 1;  // shapes to compare (--top)
};

// A flag with which `analyze` judges a plan: {"mesh", "fsdp=8,tp=2"}. The value
// is "" for a switch.
struct PlanFlag {
  std::string name;
  std::string value = {};
};
// Returns "--mesh fsdp=8,tp=2 --expert-parallel".
std::string flags_text(const std::vector<PlanFlag>& flags);

struct PlanQuestion {
  PlannerRequest request;            // includes the assumptions
  std::vector<std::string> assumed;  // sentences that state the assumptions
  Inputs inputs;
  AskedMemory asked;
  StepModel step;
  std::vector<ForbiddenSpec> forbidden;
  PlanSpace space;
  std::unique_ptr<PlanPricing> pricing;  // refers to all other members
};

// A spec in a flag, `NAME=P(fsdp, tp)`. NAME is a pattern or a parameter, which
// stands for all parameters that differ from it only in numbers.
struct FlaggedSpec {
  Rule rule;
  std::vector<size_t> parameters;  // that the rule matches, at least one
};
// Reads such a flag. Empty, with the reason reported.
std::optional<FlaggedSpec> read_flagged_spec(const SourcePtr& text,
                                             const Manifest& manifest,
                                             Diagnostics& diags);

// Checks that the number of devices and their profile are given, and that there
// is one slice (SP010).
bool check_devices(const PlanRequest& planning, const MemoryRequest& memory,
                   Diagnostics& diags);
// Reads a mesh, which must have all devices of the request. Empty, with the
// reason reported.
std::optional<Mesh> mesh_of_all(const SourcePtr& text,
                                const PlanRequest& planning,
                                Diagnostics& diags);

// Reads such a mesh as a point of a space. Empty, with the reason reported.
std::optional<PlanPoint> point_of(const SourcePtr& mesh,
                                  const PlanRequest& planning,
                                  Diagnostics& diags);

// Reads and completes the request. `first`, if not null, is a rule that
// precedes those of the request. Null, with the reason reported.
std::unique_ptr<PlanQuestion> plan_question(const PlannerRequest& request,
                                            const Rule* first, Host& host,
                                            Diagnostics& diags,
                                            ProgressListener& progress);

// Returns the input to price the points of `space` for the question.
PricingInput pricing_input(const PlanQuestion& question,
                           const PlanSpace& space);

// Searches `space` for the question, within a fixed budget of evaluations.
// `shapes`: see search_plans().
PlanAnswer search_for(const PlanQuestion& question, const PlanSpace& space,
                      size_t shapes);
int threads_of(const PlanQuestion& question);

}  // namespace shardplan
