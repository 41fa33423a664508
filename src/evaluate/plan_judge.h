// SPDX-License-Identifier: Apache-2.0
// PlanJudge: what devices hold under one plan, compared with their capacity.
//
// It judges the request and every candidate on the same plan: other devices,
// workloads, optimizers, step options and engine settings. Whatever none of
// these changes is computed once.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/diagnostic.h"
#include "core/plan.h"
#include "core/rules.h"
#include "evaluate/asked_memory.h"
#include "evaluate/candidate.h"
#include "evaluate/inference.h"
#include "evaluate/step.h"
#include "memory/budget.h"
#include "memory/fit.h"
#include "memory/kv_cache.h"
#include "memory/stages.h"
#include "memory/state.h"
#include "model/model.h"
#include "serve/serving.h"

namespace shardplan {

// The model and everything that is asked about it, whatever the plan. All of it
// must outlive its judges.
struct Asked {
  const Model& model;
  const RuleSet* rules = nullptr;  // null: a saved plan
  const AskedMemory& memory;
  const StepModel* step = nullptr;          // null: no training step
  const ServedWeights* served = nullptr;    // if set, an engine serves the
                                            // model, and nothing else is judged
  const InferencePasses* passes = nullptr;  // null: inference is not timed
};

// The latest layers grouped by the kinds of their parameters. Most plans of a
// search share them.
struct LayerCache {
  std::vector<uint32_t> kind_of;
  std::shared_ptr<const LayerGroups> groups;

  // Returns the layers for these kinds, and caches them.
  const std::shared_ptr<const LayerGroups>& of(
      const Manifest& manifest, const std::vector<uint32_t>& kinds);
};

// The budget's options, completed with what follows from a plan and an
// optimizer.
struct HeldInput {
  BudgetOptions options;  // its state_specs points to the member below
  std::unique_ptr<StateSpecs> state_specs;
  std::optional<KvAxes> kv_axes;  // set if there is a cache
  std::shared_ptr<const LayerGroups> groups;
};

struct Judgement {
  std::optional<Budget> budget;  // empty with an engine
  std::optional<JudgedStep> step;
  std::optional<Serving> serving;
  Fit fit;
};

class PlanJudge {
 public:
  // Returns null, with the reason reported, if the mesh lacks a requested axis
  // or if the state cannot be placed. Also reports findings about state rules.
  // `plan` must outlive the judge.
  static std::unique_ptr<PlanJudge> of(const Asked& asked, const Plan& plan,
                                       LayerCache& layers, Diagnostics& diags);

  const Plan& plan() const { return plan_; }
  const AskedMemory& memory() const { return asked_.memory; }
  const HeldInput& held() const { return held_; }
  // Returns the steps under the plan. REQUIRES: a training step is judged.
  Steps& steps();
  // Enables judging training steps from now on.
  void add_step_model(const StepModel& step) { asked_.step = &step; }

  // Ignores the candidate's placing, because the plan fixes it. Empty, with the
  // reason reported.
  std::optional<Judgement> judge(const Candidate& candidate,
                                 Diagnostics& diags);

  // Compute the parts of a judgement.
  std::optional<Budget> budget(const Candidate& candidate, Diagnostics& diags);
  std::optional<JudgedStep> step(const Candidate& candidate,
                                 const Budget& budget, Diagnostics& diags);
  std::optional<Serving> serving(const Candidate& candidate,
                                 Diagnostics& diags) const;

  // Returns the candidate's step options, completed with the dtype of the
  // model's activations and the traits of the framework that runs it
  // (StepModel::sized). REQUIRES: a training step is judged.
  StepOptions step_of(const Candidate& candidate) const;

  // Returns the largest counts that fit; one more does not. They are exact.
  // `budget` is the candidate's. Empty without a cache or a limit.
  std::optional<WorkloadHeadroom> headroom(const Candidate& candidate,
                                           const Budget& budget);

  // Estimates the times of inference on the candidate's device: under the
  // engine, or under the plan if `serving` is null. Empty without a cache or a
  // profile, or if inference is not timed. Reports no diagnostics:
  // InferenceTimes::untimed says why a time is missing.
  std::optional<InferenceTimes> inference(const Candidate& candidate,
                                          const Serving* serving,
                                          const Diagnostics& like) const;

  // Returns the counts of the step that do not divide evenly, so that the
  // framework refuses the step; none without a step.
  std::vector<DivisionProblem> refused(const Candidate& candidate);

  // Reports that the step is estimated from shapes, and what that leaves out
  // (SP016, a note). Returns the parts of the model that are left out.
  // REQUIRES: the step is estimated from shapes.
  std::vector<std::string> report_shapes(const Candidate& candidate,
                                         Diagnostics& diags);
  // Returns the candidate's engine settings on the plan's mesh. Empty, with the
  // reason reported (SP010), if the engine does not shard over one of the axes.
  std::optional<ServingInput> serving_of(const Candidate& candidate,
                                         Diagnostics& diags) const;

 private:
  PlanJudge(const Asked& asked, const Plan& plan)
      : asked_(asked), plan_(plan) {}
  std::optional<HeldInput> hold(const StateOptions& state, LayerCache& layers,
                                Diagnostics& diags) const;
  static BudgetOptions options_of(const Candidate& candidate,
                                  const HeldInput& held);
  Workload workload_of(const Candidate& candidate) const;
  const HardwareProfile* card_of(const Candidate& candidate) const;
  // Returns the input for the candidate's optimizer. Null, with the reason
  // reported, if its state cannot be placed.
  const HeldInput* held_for(const Candidate& candidate, Diagnostics& diags);

  Asked asked_;
  const Plan& plan_;
  HeldInput held_;
  // The input for another optimizer: state rules place its leaves differently.
  std::optional<HeldInput> other_;
  std::optional<Optimizer> other_of_;
  Diagnostics other_problems_;
  std::optional<Steps> steps_;
};

}  // namespace shardplan
