// SPDX-License-Identifier: Apache-2.0
// PlanQuestion: a model, devices and a training step, read and completed with
// what nobody said, and the space of plans for it with their costs.
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
  PlanRequest planning;  // with a number of devices, and no mesh
  MemoryRequest memory;
  WorkloadRequest workload;
  AxisNames over = {};                     // --over; empty: all that are there
  std::vector<int64_t> microbatches = {};  // empty: all that divide
  std::vector<std::string> remats = {};    // empty: the framework's
  SourcePtr fixed_mesh = {};               // --fix-mesh
  std::vector<SourcePtr> forbidden = {};   // --forbid, `PATTERN=SPEC`
  // --why-not: a mesh, `NAME=SPEC` or rules; --keep: rules.
  std::vector<SourcePtr> why_not = {};
  std::vector<std::string> keep = {};
  PlanObjective objective = PlanObjective::StepTime;
  // What is not asked for, and is in `memory` since nothing fits without:
  // values of --offload.
  std::vector<std::string> offloads = {};
  size_t shapes = 1;  // that are compared (--top)
};

// A flag with which `analyze` judges a plan: {"mesh", "fsdp=8,tp=2"}. The value
// of a switch is "".
struct PlanFlag {
  std::string name;
  std::string value = {};
};
// "--mesh fsdp=8,tp=2 --expert-parallel"
std::string flags_text(const std::vector<PlanFlag>& flags);

struct PlanQuestion {
  PlannerRequest request;            // with what was assumed
  std::vector<std::string> assumed;  // sentences that say so
  Inputs inputs;
  AskedMemory asked;
  StepModel step;
  std::vector<ForbiddenSpec> forbidden;
  PlanSpace space;
  std::unique_ptr<PlanPricing> pricing;  // refers to all of these
};

// A spec as a flag says it: `NAME=P(fsdp, tp)`, NAME a pattern or a parameter,
// which stands for all that differ from it in numbers alone.
struct FlaggedSpec {
  Rule rule;
  std::vector<size_t> parameters;  // that it is for, at least one
};
// Empty, with the reason reported.
std::optional<FlaggedSpec> read_flagged_spec(const SourcePtr& text,
                                             const Manifest& manifest,
                                             Diagnostics& diags);

// Whether devices, their profile and one slice are given; else SP010.
bool check_devices(const PlanRequest& planning, const MemoryRequest& memory,
                   Diagnostics& diags);
// A mesh of all devices that are planned for. Empty, with the reason reported.
std::optional<Mesh> mesh_of_all(const SourcePtr& text,
                                const PlanRequest& planning,
                                Diagnostics& diags);

// The same as a space has it. Empty, with the reason reported.
std::optional<PlanPoint> point_of(const SourcePtr& mesh,
                                  const PlanRequest& planning,
                                  Diagnostics& diags);

// `first`: a rule that stands before those of the request. Null, with the
// reason reported.
std::unique_ptr<PlanQuestion> plan_question(const PlannerRequest& request,
                                            const Rule* first, Host& host,
                                            Diagnostics& diags,
                                            ProgressListener& progress);

// What prices the points of another space of the question.
PricingInput pricing_input(const PlanQuestion& question,
                           const PlanSpace& space);

// Its search, with a budget of so many evaluations in all. `shapes` as of
// search_plans().
PlanAnswer search_for(const PlanQuestion& question, const PlanSpace& space,
                      size_t shapes);
int threads_of(const PlanQuestion& question);

}  // namespace shardplan
