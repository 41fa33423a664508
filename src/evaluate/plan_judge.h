// SPDX-License-Identifier: Apache-2.0
// PlanJudge: what devices hold under one plan, against what they have.
//
// It judges the request and every candidate on the same plan: other devices,
// workloads, optimizers, ways to do a step, engine settings. What none of these
// changes is computed once.
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

// The model, and everything that is asked of it on any plan. All of it must
// outlive its judges.
struct Asked {
  const Model& model;
  const RuleSet* rules = nullptr;  // null: a saved plan
  const AskedMemory& memory;
  const StepModel* step = nullptr;          // null: no training step
  const ServedWeights* served = nullptr;    // an engine serves it; nothing else
                                            // is judged
  const InferencePasses* passes = nullptr;  // null: inference is not timed
};

// Layers by the kinds of their parameters. Most plans of a search share them.
struct KeptLayers {
  std::vector<uint32_t> kind_of;
  std::shared_ptr<const LayerGroups> groups;

  // The layers for these kinds, which it keeps.
  const std::shared_ptr<const LayerGroups>& of(
      const Manifest& manifest, const std::vector<uint32_t>& kinds);
};

// The budget's options with what follows from a plan and an optimizer.
struct HeldInput {
  BudgetOptions options;  // its state_specs points below
  std::unique_ptr<StateSpecs> state_specs;
  std::optional<KvAxes> kv_axes;  // with a cache
  std::shared_ptr<const LayerGroups> groups;
};

struct Judgement {
  std::optional<Budget> budget;  // none with an engine
  std::optional<JudgedStep> step;
  std::optional<Serving> serving;
  Fit fit;
};

class PlanJudge {
 public:
  // Null, with the reason reported: axes that the mesh does not have, or state
  // that cannot be placed. Findings of state rules are reported, too. `plan`
  // must outlive the judge.
  static std::unique_ptr<PlanJudge> of(const Asked& asked, const Plan& plan,
                                       KeptLayers& kept, Diagnostics& diags);

  const Plan& plan() const { return plan_; }
  const AskedMemory& memory() const { return asked_.memory; }
  const HeldInput& held() const { return held_; }
  // REQUIRES: a training step is judged.
  Steps& steps();
  // Lets training steps be judged from now on.
  void add_step_model(const StepModel& step) { asked_.step = &step; }

  // The placing of the candidate is not looked at: it is the plan's. Empty,
  // with the reason reported.
  std::optional<Judgement> judge(const Candidate& candidate,
                                 Diagnostics& diags);

  // The parts of it.
  std::optional<Budget> budget(const Candidate& candidate, Diagnostics& diags);
  std::optional<JudgedStep> step(const Candidate& candidate,
                                 const Budget& budget, Diagnostics& diags);
  std::optional<Serving> serving(const Candidate& candidate,
                                 Diagnostics& diags) const;

  // With the bytes of the model's activations, and what is known of who runs it
  // (StepModel::sized). REQUIRES: a training step is judged.
  StepOptions step_of(const Candidate& candidate) const;

  // Exact: the budget with these fits, with one more it does not. `budget` is
  // that of the candidate. Empty without a cache or a limit.
  std::optional<WorkloadHeadroom> headroom(const Candidate& candidate,
                                           const Budget& budget);

  // How long a prompt or a token takes, on the candidate's device as an engine
  // or, where `serving` is null, the plan has it. Empty without a cache or a
  // profile, or where inference is not timed. It raises no diagnostics:
  // InferenceTimes::untimed says why a time is missing.
  std::optional<InferenceTimes> inference(const Candidate& candidate,
                                          const Serving* serving,
                                          const Diagnostics& like) const;

  // Counts of the step that do not divide, so that the framework refuses it;
  // none without a step.
  std::vector<DivisionProblem> refused(const Candidate& candidate);

  // Reports that shapes tell of the step, and what they do not (SP016, a note).
  // Returns the parts of the model that are left out. REQUIRES: shapes tell.
  std::vector<std::string> report_shapes(const Candidate& candidate,
                                         Diagnostics& diags);
  // Empty, with the reason reported (SP010): an axis that the engine does not
  // have.
  std::optional<ServingInput> serving_of(const Candidate& candidate,
                                         Diagnostics& diags) const;

 private:
  PlanJudge(const Asked& asked, const Plan& plan)
      : asked_(asked), plan_(plan) {}
  std::optional<HeldInput> hold(const StateOptions& state, KeptLayers& kept,
                                Diagnostics& diags) const;
  static BudgetOptions options_of(const Candidate& candidate,
                                  const HeldInput& held);
  Workload workload_of(const Candidate& candidate) const;
  const HardwareProfile* card_of(const Candidate& candidate) const;
  // The input for the candidate's optimizer. Null, with the reason reported, if
  // its state cannot be placed.
  const HeldInput* held_for(const Candidate& candidate, Diagnostics& diags);

  Asked asked_;
  const Plan& plan_;
  HeldInput held_;
  // The input for another optimizer, because state rules place its leaves.
  std::optional<HeldInput> other_;
  std::optional<Optimizer> other_of_;
  Diagnostics other_problems_;
  std::optional<Steps> steps_;
};

}  // namespace shardplan
