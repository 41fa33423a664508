// SPDX-License-Identifier: Apache-2.0
// A training step under one plan: the bracket of its memory
// (activations/step_memory.h), and counts that a framework refuses.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "activations/bracket.h"
#include "activations/options.h"
#include "activations/segments.h"
#include "activations/shapes.h"
#include "base/diagnostic.h"
#include "core/manifest.h"
#include "core/mesh.h"
#include "core/plan.h"
#include "core/rules.h"
#include "cost/step_time.h"
#include "evaluate/asked_memory.h"
#include "evaluate/dequantised.h"
#include "evaluate/stacked_experts.h"
#include "memory/budget.h"
#include "memory/divisions.h"
#include "memory/fit.h"
#include "model/forward/writer.h"
#include "model/model.h"
#include "sim/repeated_layers.h"

namespace shardplan {

// What a bracket was worked out from.
enum class BracketSource : uint8_t { ForwardPass, Shapes };
std::string_view bracket_source_name(BracketSource from);  // "forward_pass"

// Caches the latest forward passes, since most plans of a sweep share them and
// writing one costs as much as partitioning it. Thread-safe.
class WrittenPasses {
 public:
  // Returns what forward_graphs() makes of the same arguments.
  std::shared_ptr<const ForwardGraphs> find(const Manifest& manifest,
                                            const ForwardDefinition& model,
                                            const ForwardPass& pass,
                                            const std::vector<bool>& frozen);

 private:
  static constexpr size_t kMost = 8;  // that are kept
  std::mutex mutex_;
  std::vector<std::shared_ptr<const ForwardGraphs>> latest_;
};

// The part of a model that its training steps need on any mesh: which
// parameters are frozen, and which weights products use. Built once for any
// number of plans. The model must outlive it.
struct StepModel {
  const ForwardDefinition* runnable = nullptr;  // null: shapes tell
  std::vector<bool> frozen;                     // per parameter; empty: none
  DType most_stored = DType::F32;  // dtype of most numbers, as computed with
  // Types of adapters, and whether these are trained.
  std::vector<std::pair<TensorType, bool>> adapters;
  // Of quantised weights, which are frozen, what they stand for.
  std::optional<DequantisedModel> dequantised;
  // Of a model of many experts that are stored one by one, as stacks.
  std::optional<StackedExperts> stacked;
  // What recognising the model said; null: nothing.
  const Diagnostics* recognised = nullptr;
  std::shared_ptr<WrittenPasses> passes = std::make_shared<WrittenPasses>();

  BracketSource from() const {
    return runnable != nullptr ? BracketSource::ForwardPass
                               : BracketSource::Shapes;
  }
  DType activation_dtype(const StateOptions& state) const;
  // With the bytes of this model's activations, and what is known of the
  // framework on this hardware (a profile's name; empty: nobody says).
  StepOptions sized(StepOptions step, const StateOptions& state,
                    const std::optional<std::string>& hardware,
                    bool has_stages) const;
};
// Nothing where all are trained. What has no gradient, such as packed weights,
// counts as frozen where anything does.
std::vector<bool> frozen_of(const Manifest& manifest,
                            const TrainedParameters& trained);
// Empty, with the reason reported: adapters are there without a forward pass,
// or the config is wrong (SP016); quantised weights are trained, or not
// described by a config (SP009).
std::optional<StepModel> step_model(const Model& of,
                                    const TrainedParameters& trained,
                                    Diagnostics& diags);

// Those of the mesh that cut the batch and the tokens of a sequence.
struct WorkloadAxes {
  AxisNames batch;
  AxisNames sequence;
};

// Axes that cut the tokens of a training step, and over which weights are hence
// gathered that they shard: those of the workload but for one over which the
// rules cut heads as well (Megatron's sequence parallelism, which gathers the
// tokens instead). `rules` is null for a saved plan.
AxisNames step_token_axes(const AskedMemory& asked, const RuleSet* rules,
                          const Mesh& mesh);

// The dtype of most numbers of what can be trained.
DType most_stored_dtype(const Manifest& manifest);

// The estimate of one training step.
struct JudgedStep {
  MemoryBracket bracket;
  std::vector<DivisionProblem> refused;
  Fit fit;  // from the budget and the bracket; ignores `refused`
  // Empty without a profile. A profile that lacks something gives no time
  // either, and `untimed` says what is missing.
  std::optional<StepTime> time = {};
  std::string untimed = {};
};

// Steps under one plan, with any workload and options. What is common to
// several is made once, so those of one workload and as many micro-batches
// should follow one another. What it is made of must outlive it.
class Steps {
 public:
  Steps(const AskedMemory& asked, const StepModel& model,
        const Manifest& manifest, const Plan& plan, const RuleSet* rules);

  const WorkloadAxes& axes() const { return axes_; }
  // What the forward pass of one micro-batch is run on, on all devices.
  struct Pass {
    ForwardPass pass;
    int64_t sequences = 0;  // on the fullest device, of a micro-batch
    int64_t tokens = 0;     // of each of these, on the fullest device
  };
  Pass pass_of(const Workload& workload, int64_t microbatches) const;

  // What the framework refuses of such a step, since it does not divide.
  // `stages`: null without a pipeline.
  std::vector<DivisionProblem> refused(const Workload& workload,
                                       const StepOptions& step,
                                       const StagePlan* stages) const;

  // `step` is sized (StepModel::sized). Empty, with the reason reported:
  // neither the forward pass nor shapes tell (SP016), or it cannot be
  // partitioned.
  std::optional<JudgedStep> judge(const Workload& workload,
                                  const BudgetOptions& how,
                                  const Budget& budget, const StepOptions& step,
                                  const HardwareProfile* card,
                                  Diagnostics& diags);
  // Seconds that one micro-batch takes at least where others share the work of
  // each of the plan's devices (least_pass_seconds, cost/step_time.h).
  // `step` is sized. Empty, with the reason reported, as judge(), or where no
  // time is known. REQUIRES: a forward pass is known, no stages.
  std::optional<double> least_seconds(
      const Workload& workload, const BudgetOptions& how, const Budget& budget,
      const StepOptions& step, const SharedWork& shared,
      const HardwareProfile& card, Diagnostics& diags);
  // The forward pass alone, partitioned, and the manifest of its parameters
  // with, per parameter of it, one of the model's (as stored) that it is, or is
  // made of. Kept until another pass is asked for. Empty, with the reason
  // reported. REQUIRES: a forward pass is known.
  struct Forward {
    const RepeatedProgram& program;
    const Manifest& manifest;
    int64_t layers = 0;  // of the model
    std::vector<size_t> computed =
        {};  // parameters before experts were stacked
    const std::vector<size_t>* stored = nullptr;  // of these; null: the same
  };
  std::optional<Forward> forward(const Pass& pass, Diagnostics& diags);
  // REQUIRES: shapes tell.
  ShapedLayers by_shapes(const Workload& workload,
                         const StepOptions& step) const;

 private:
  // The bracket and the time of a step.
  std::optional<JudgedStep> answer(
      const Workload& workload, const BudgetOptions& how, const Budget& budget,
      const StepOptions& step, const HardwareProfile* card, Diagnostics& diags);
  // Layers of a step whose forward pass is known.
  std::optional<StepLayers> layers_of(const Workload& workload,
                                      const StepOptions& step,
                                      Diagnostics& diags);
  StepTimeInput timed(const StepInput& input, const Workload& workload,
                      const HardwareProfile& card) const;
  bool has_modules(const StepOptions& step, Diagnostics& diags) const;
  // Reports the same for every step of one pass.
  bool partition(const Pass& pass, Diagnostics& diags);
  // With experts as stacks; false where that does not do.
  bool partition_stacked(const Pass& pass, Diagnostics& diags);
  // What a forward pass multiplies with.
  const Manifest& computed() const {
    return model_.dequantised ? model_.dequantised->manifest : manifest_;
  }
  const Plan& computed_plan() const {
    return dequantised_ ? dequantised_->plan : plan_;
  }
  const std::vector<bool>& frozen() const {
    return model_.dequantised ? model_.dequantised->frozen : model_.frozen;
  }

  const AskedMemory& asked_;
  const StepModel& model_;
  const Manifest& manifest_;
  const Plan& plan_;
  RuleSet rules_;
  WorkloadAxes axes_;
  RuleSet placed_by_;
  // Of quantised weights; why there is none.
  std::optional<DequantisedPlan> dequantised_;
  Diagnostics undequantised_;
  std::optional<Plan> stacked_;  // experts as stacks; none: they are not alike
  bool is_stacked_ = false;      // the program is of these
  // The program refers to its graph.
  std::shared_ptr<const ForwardGraphs> forward_;
  std::optional<RepeatedProgram> program_;
  std::optional<Pass> partitioned_;  // the pass that the program is of
  Diagnostics found_;                // while it was partitioned
  // The program's parts where nothing is computed again, and with what.
  std::vector<Segment> plain_;
  std::optional<SegmentOptions> plain_of_;
};

// That shapes told, and what they do not (SP016, a note).
void report_by_shapes(const Manifest& manifest, const ShapedLayers& shaped,
                      AttentionKind attention, Diagnostics& diags);

}  // namespace shardplan
