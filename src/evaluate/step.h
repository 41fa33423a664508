// SPDX-License-Identifier: Apache-2.0
// Steps: training steps under one plan, with the range of their memory
// (activations/step_memory.h), their time, and the counts that a framework
// refuses.
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

// The source that a memory bracket is computed from.
enum class BracketSource : uint8_t { ForwardPass, Shapes };
std::string_view bracket_source_name(BracketSource from);  // "forward_pass"

// Caches the latest forward passes, because most plans of a sweep share them
// and writing one costs as much as partitioning it. Thread-safe.
class WrittenPasses {
 public:
  // Returns forward_graphs() of the same arguments.
  std::shared_ptr<const ForwardGraphs> find(const Manifest& manifest,
                                            const ForwardDefinition& model,
                                            const ForwardPass& pass,
                                            const std::vector<bool>& frozen);

 private:
  static constexpr size_t kMost = 8;  // passes in the cache
  std::mutex mutex_;
  std::vector<std::shared_ptr<const ForwardGraphs>> latest_;
};

// Why there is no time without a forward pass.
inline constexpr std::string_view kPassUntimed =
    "the forward pass is unknown, and weight shapes do not say what is "
    "computed";

// The part of a model that its training steps need on any mesh: which
// parameters are frozen, and which weights matmuls read. Built once for any
// number of plans. The model must outlive it.
struct StepModel {
  const ForwardDefinition* runnable = nullptr;  // null: use shapes
  std::vector<bool> frozen;                     // per parameter; empty: none
  DType most_stored = DType::F32;  // dtype of most elements, used to compute
  // The types of adapters, each with whether they are trained.
  std::vector<std::pair<TensorType, bool>> adapters;
  // The dequantised form of quantised weights, which are frozen.
  std::optional<DequantisedModel> dequantised;
  // The stacked form of a model that stores many experts one by one.
  std::optional<StackedExperts> stacked;
  // The diagnostics of recognising the model; null: none.
  const Diagnostics* recognised = nullptr;
  std::shared_ptr<WrittenPasses> passes = std::make_shared<WrittenPasses>();

  BracketSource from() const {
    return runnable != nullptr ? BracketSource::ForwardPass
                               : BracketSource::Shapes;
  }
  DType activation_dtype(const StateOptions& state) const;
  // Completes `step` with the bytes of this model's activations and the traits
  // of the framework on this hardware (a profile's name; empty: unknown).
  StepOptions sized(StepOptions step, const StateOptions& state,
                    const std::optional<std::string>& hardware,
                    bool has_stages) const;
};
// Returns which parameters are frozen; empty if all are trained. Parameters
// that have no gradient, such as packed weights, count as frozen if any
// parameter is frozen.
std::vector<bool> frozen_of(const Manifest& manifest,
                            const TrainedParameters& trained);
// Builds the step model. Empty, with the reason reported: there are adapters
// but no forward pass, or the config is wrong (SP016); quantised weights are
// trained, or no config describes them (SP009).
std::optional<StepModel> step_model(const Model& of,
                                    const TrainedParameters& trained,
                                    Diagnostics& diags);

// The mesh axes that shard the batch, and those that shard each sequence.
struct WorkloadAxes {
  AxisNames batch;
  AxisNames sequence;
};

// Returns the axes that shard the tokens of a training step, so that weights
// sharded over them are gathered. These are the sequence axes of the workload,
// except an axis over which the rules also shard heads: Megatron's sequence
// parallelism gathers the tokens instead. `rules` is null for a saved plan.
AxisNames step_token_axes(const AskedMemory& asked, const RuleSet* rules,
                          const Mesh& mesh);

// Returns the dtype that most elements are stored in; BF16 if it is no plain
// float type.
DType most_stored_dtype(const Manifest& manifest);

// The estimate of one training step.
struct JudgedStep {
  MemoryBracket bracket;
  std::vector<DivisionProblem> refused;
  Fit fit;  // from the budget and the bracket; ignores `refused`
  // Empty without a profile, or if the profile lacks something, which `untimed`
  // then names.
  std::optional<StepTime> time = {};
  std::string untimed = {};
};

// Training steps under one plan, with any workload and options. Results that
// several steps share are cached, so steps with the same workload and number of
// micro-batches should follow one another. The constructor's arguments must
// outlive it.
class Steps {
 public:
  Steps(const AskedMemory& asked, const StepModel& model,
        const Manifest& manifest, const Plan& plan, const RuleSet* rules);

  const WorkloadAxes& axes() const { return axes_; }
  // The input of one micro-batch's forward pass, on all devices.
  struct Pass {
    ForwardPass pass = {};
    int64_t sequences = 0;  // of a micro-batch, on the fullest device
    int64_t tokens = 0;     // of each sequence, on the fullest device
  };
  Pass pass_of(const Workload& workload, int64_t microbatches) const;

  // Returns the counts that the framework refuses because they do not divide
  // evenly. `stages`: null without a pipeline.
  std::vector<DivisionProblem> refused(const Workload& workload,
                                       const StepOptions& step,
                                       const StagePlan* stages) const;

  // Judges a step. `step` is sized (StepModel::sized). Empty, with the reason
  // reported: neither the forward pass nor the shapes determine the step
  // (SP016), or it cannot be partitioned.
  std::optional<JudgedStep> judge(const Workload& workload,
                                  const BudgetOptions& how,
                                  const Budget& budget, const StepOptions& step,
                                  const HardwareProfile* card,
                                  Diagnostics& diags);
  // Returns a lower bound on the time of one micro-batch if other devices share
  // the work of each of the plan's devices (cost/step_time.h). `step` is sized.
  // Empty if no time is known, or, with the reason reported, as in judge().
  // REQUIRES: a forward pass is known, no stages.
  std::optional<LeastPass> least_pass(
      const Workload& workload, const BudgetOptions& how, const Budget& budget,
      const StepOptions& step, const SharedWork& shared,
      const HardwareProfile& card, Diagnostics& diags);
  // The partitioned forward pass alone, and the manifest of its parameters. Per
  // parameter of that manifest, `computed` and `stored` give the model's
  // parameter that it is, or is dequantised from. Cached until another pass is
  // requested. Empty, with the reason reported. REQUIRES: a forward pass is
  // known.
  struct Forward {
    const RepeatedProgram& program;
    const Manifest& manifest;
    int64_t layers = 0;  // of the model
    std::vector<size_t> computed =
        {};  // parameters before experts were stacked
    const std::vector<size_t>* stored = nullptr;  // per dequantised parameter;
                                                  // null: the same
  };
  std::optional<Forward> forward(const Pass& pass, Diagnostics& diags);
  // Returns the layers estimated from shapes. REQUIRES: no forward pass is
  // known.
  ShapedLayers by_shapes(const Workload& workload,
                         const StepOptions& step) const;

 private:
  // Reports why the dequantised weights have no plan, if they need one.
  bool has_plan(Diagnostics& diags) const;
  // Returns the options with how the program stores experts.
  StepOptions of_program(StepOptions step) const;
  // Returns the layers of a step whose forward pass is known.
  std::optional<StepLayers> layers_of(const Workload& workload,
                                      const StepOptions& step,
                                      Diagnostics& diags);
  StepTimeInput timed(const StepInput& input, const Workload& workload,
                      const HardwareProfile& card) const;
  bool has_modules(const StepOptions& step, Diagnostics& diags) const;
  // Reports the same diagnostics for every step with the same pass.
  bool partition(const Pass& pass, Diagnostics& diags);
  std::optional<RepeatedProgram> partitioned(const Manifest& manifest,
                                             const Plan& plan,
                                             Diagnostics& diags) const;
  // Partitions with experts as stacks; false if that is not possible.
  bool partition_stacked(const Pass& pass, Diagnostics& diags);
  // Return the parameters that a forward pass computes with.
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
  // The plan of the dequantised weights, or why there is none.
  std::optional<DequantisedPlan> dequantised_;
  Diagnostics undequantised_;
  std::optional<Plan> stacked_;  // experts as stacks; empty: they differ
  bool is_stacked_ = false;      // the program computes with stacks
  // Owns the graph that the program refers to.
  std::shared_ptr<const ForwardGraphs> forward_;
  std::optional<RepeatedProgram> program_;
  std::optional<ForwardPass> partitioned_;  // the pass of `program_`
  Diagnostics found_;                       // diagnostics of partitioning it
  // The program's segments without recompute, and their options.
  std::vector<Segment> plain_;
  std::optional<SegmentOptions> plain_of_;
};

// Reports that the bracket comes from shapes, and what it leaves out (SP016, a
// note).
void report_by_shapes(const Manifest& manifest, const ShapedLayers& shaped,
                      AttentionKind attention, Diagnostics& diags);

}  // namespace shardplan
