// SPDX-License-Identifier: Apache-2.0
#include "activations/step_memory.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <utility>

#include "activations/bracket_rows.h"
#include "activations/buffers.h"
#include "activations/segment_uses.h"
#include "activations/segments.h"
#include "base/checked.h"

namespace shardplan {
namespace {

size_t index_of(Category category) { return static_cast<size_t>(category); }

constexpr int64_t kTokenBytes = 8;   // of a token's id
constexpr int64_t kUpdate = -1;      // the optimizer's step
constexpr int64_t kForwardEnd = -2;  // before backward begins

// The peak found so far.
struct Moment {
  bool found = false;
  Parts parts{};
  size_t device = 0;  // device class
  int64_t step = -1;  // or kUpdate, kForwardEnd
  int64_t stage = 0;
};

class StepMaker {
 public:
  StepMaker(const StepInput& input, const StepOptions& options)
      : input_(input), options_(options), plain_(input.layers.plain) {
    weights_ = layer_weights(input_.manifest, input_.plan,
                             input_.layers.layer_of, input_.layers.frozen);
    steps_on_ = uses_of_stages(input_, weights_, options_);
    find_gathered();
    optimizers_ = group_optimizers(input_.manifest, input_.plan,
                                   input_.layers.frozen, input_.options);
    casts_ =
        weight_casts(input_.manifest, input_.plan, input_.options.state,
                     input_.layers.frozen, options_.segments.element_bytes);
    shapes_ = weight_shapes(input_.manifest, input_.plan,
                            input_.layers.layer_of, input_.layers.frozen);
  }

  std::optional<MemoryBracket> make(Diagnostics& diags) {
    std::array<Moment, kSavingModes> moments;
    host_ = {};
    std::vector<StageBracket> by_stage;
    for (size_t c = 0; c < input_.budget.classes.size(); ++c) {
      const BudgetClass& device = input_.budget.classes[c];
      std::vector<int64_t> stages = device.stages;
      if (stages.empty()) stages = {0};
      for (const int64_t stage : stages) {
        StageBracket own = {device.label, stage, {}};
        for (size_t k = 0; k < kSavingModes; ++k) {
          Moment fullest;
          look_at(c, stage, static_cast<SavingMode>(k), fullest);
          const Int128 total = sum_of(fullest.parts);
          if (total > std::numeric_limits<int64_t>::max()) {
            return diags.error(Code::MemoryBudget, {},
                               "the memory of a training step exceeds 63 bits");
          }
          own.total[k] = static_cast<int64_t>(total);
          if (!moments[k].found || total > sum_of(moments[k].parts)) {
            moments[k] = fullest;
          }
        }
        if (input_.budget.stages) by_stage.push_back(std::move(own));
      }
    }
    std::ranges::stable_sort(by_stage, {}, &StageBracket::stage);
    for (const Int128 bytes : host_) {
      if (bytes > std::numeric_limits<int64_t>::max()) {
        return diags.error(
            Code::MemoryBudget, {},
            "the host memory of a training step exceeds 63 bits");
      }
    }
    MemoryBracket result = bracket(moments);
    result.widened = widenings(least_at(moments.back()), moments.back().parts,
                               options_.segments);
    result.stages = std::move(by_stage);
    return result;
  }

 private:
  bool is_wide(size_t figure) const {
    return !input_.layers.wide_plain.empty() &&
           options_.segments.in_float32.at(figure);
  }
  const Segment& plain_of(const SegmentUse& step, size_t figure) const {
    return is_wide(figure) ? input_.layers.wide_plain[step.segment]
                           : plain_[step.segment];
  }
  const Segment& segment_of(const SegmentUse& step, size_t figure) const {
    if (!step.recomputed) return plain_of(step, figure);
    return is_wide(figure) ? input_.layers.wide_recomputed[step.segment]
                           : input_.layers.recomputed[step.segment];
  }
  // Returns the memory of a use for one of the three figures.
  const SegmentMemory& memory_of(const SegmentUse& step, size_t figure) const {
    // XLA fuses what is recomputed into the backward that reads it.
    const bool fuses = step.recomputed && step.layer >= 0 &&
                       framework().stacks_gradients &&
                       figure < (on_cpu(figure) ? 1 : 2);
    const auto fused = static_cast<size_t>(SavingMode::Fused);
    return segment_of(step, figure)
        .memory.at(fuses ? std::min(mode_of(figure), fused) : mode_of(figure));
  }
  size_t mode_of(size_t figure) const {
    if (figure == 0 && pads_heads_) return 0;
    if (options_.segments.runs_in_order) return figure;
    if (options_.segments.is_eager)
      return static_cast<size_t>(SavingMode::Eager);
    return static_cast<size_t>(modes_of(options_.kernels).at(figure));
  }
  // Returns the bytes of logits and loss. Fused kernels of layers do not imply
  // a fused loss, but eager layers imply an eager one. The loss of a known
  // framework is known for each figure.
  Int128 logits_in(const Segment& segment, size_t figure) const {
    const bool eager =
        options_.kernels == Kernels::Eager && !framework().is_known();
    return segment.memory.at(eager ? mode_of(figure) : figure).loss;
  }
  const FrameworkDef& framework() const { return *options_.framework; }
  bool on_cpu(size_t figure) const {
    return framework().stacks_gradients &&
           options_.segments.in_float32.at(figure);
  }
  // Returns these bytes of activations in the dtype that this figure has.
  Int128 widened(Int128 bytes, size_t figure) const {
    const SegmentOptions& segments = options_.segments;
    if (!is_wide(figure)) return bytes;
    return bytes * segments.widened().element_bytes / segments.element_bytes;
  }

  // Finds what is gathered at once, in layers and outside them, and what layers
  // pass on.
  void find_gathered() {
    for (const Segment& segment : plain_) {
      if (!segment.is_layer) continue;
      scores_ = std::max(scores_, segment.scores);
      stream_ = std::max(
          stream_,
          segment.memory[static_cast<size_t>(SavingMode::Fused)].handed_on);
    }
    gathered_ = gathered_sizes(input_.budget);
    reduction_.all_gathered = gathered_.layers + gathered_.others;
    // The largest part is among what is gathered as planned.
    reduction_.outside = framework().gathers_outside
                             ? gathered_.others - gathered_.most_of_others
                             : Int128{0};
    const StateOptions& state = input_.options.state;
    reduction_.style = state.zero_style;
    reduction_.zero = state.zero;
    if (framework().runs_fsdp2 && state.zero_style == ZeroStyle::Jax) {
      reduction_.style = ZeroStyle::Fsdp2;
      reduction_.zero = 3;
    }
    reduction_.ahead = framework().gathers_ahead;
    reduction_.trained = input_.budget.trained.elements;
    reduction_.compute_bytes = options_.segments.element_bytes;
    reduction_.gradient_bytes =
        gradient_bytes(input_.budget, options_.segments.element_bytes);
    reduction_.layer.gathered = gathered_.most_of_layer;
    const auto [part, of] = weights_.share;
    reduction_.layer.gradients =
        of > 0 ? (gathered_.most_of_layer * part + of - 1) / of : Int128{0};
    const int64_t wider =
        std::max(reduction_.gradient_bytes, reduction_.compute_bytes);
    reduction_.layer.reduced =
        framework().stacks_gradients
            ? Int128{0}  // it goes into a shard of a stack
            : reduction_.layer.gradients * wider / reduction_.compute_bytes;
  }

  const std::vector<SegmentUse>& steps_on(int64_t stage) const {
    return steps_on_[static_cast<size_t>(stage)];
  }

  Flights flights(int64_t stage) const {
    const auto& of = input_.budget.stages;
    return in_flight(options_, of ? of->stages : 0, stage);
  }

  // Returns whether gradients exist from the start because they are added up.
  bool holds_gradients(SavingMode mode) const {
    const auto figure = static_cast<size_t>(mode);
    return framework().whole_gradients.at(figure) || on_cpu(figure) ||
           options_.microbatches > 1 || input_.budget.stages.has_value() ||
           (input_.options.state.zero > 0 &&
            input_.options.state.zero_style == ZeroStyle::Megatron);
  }

  Parts state_of(const BudgetClass& device) const {
    Parts parts{};
    for (size_t i = 0; i < kCategories; ++i) parts[i] = device.bytes[i];
    parts[index_of(Category::GatheredLayer)] = 0;
    // With offload().gradients, update_best() takes them out again; until then
    // they show how much is trained.
    parts[index_of(Category::Gradients)] = device.held(Category::Gradients);
    return parts;
  }
  const Offload& offload() const { return input_.options.state.offload; }

  // Counts state in host memory in the optimizer's step: there, or fetched.
  void fetch_state(const BudgetClass& device, size_t figure,
                   Parts& parts) const {
    if (!offload().optimizer) return;
    if (offload().pages) {
      parts[index_of(Category::OptimizerState)] =
          figure > 0 ? state_of_one(optimizers_) : Int128{0};
      parts[kTemporaries] = 0;  // it is one kernel
      return;
    }
    const bool fetches = framework().fetches_state.at(figure);
    for (const Category category :
         {Category::Parameters, Category::MasterWeights,
          Category::OptimizerState}) {
      if (fetches) parts[index_of(category)] = device.held(category);
    }
    if (!fetches) parts[kTemporaries] = 0;
  }
  // Adds what the framework is known to hold on a device, possibly one of a
  // pipeline stage.
  void add_known(int64_t stage, size_t figure, Parts& parts) const {
    const FrameworkDef& known = framework();
    parts[kWorkspaces] += known.workspaces.at(figure);
    if (input_.manifest.facts.experts.value_or(0) > 0) {
      parts[kWorkspaces] += known.workspaces_experts.at(figure);
    }
    const auto& stages = input_.budget.stages;
    const bool has_head = !stages || stage + 1 == stages->stages;
    const Int128 shapes =
        (shapes_.in_layers + (has_head ? shapes_.outside : Int128{0})) *
        options_.segments.element_bytes;
    parts[kBuffers] += scores_ * known.scores.at(figure) +
                       input_.token_pairs * known.masks.at(figure) +
                       std::max(weights_.largest * known.weights.at(figure),
                                shapes * known.empty_gradients.at(figure));
    if (!stages) return;
    const int64_t chunks = options_.schedule == PipelineSchedule::Interleaved
                               ? std::max<int64_t>(options_.chunks, 1)
                               : 1;
    // The first chunk of all has the input of an embedding.
    const int64_t handed = chunks - (stage == 0 ? 1 : 0);
    parts[kBuffers] += stream_ * (handed * known.inputs.at(figure) +
                                  known.ends_of_stage.at(figure));
  }

  void add_gathered(const SegmentUse& step, SavingMode mode,
                    const BudgetClass& device, Parts& parts) const {
    const Int128 planned = device.bytes[index_of(Category::GatheredLayer)];
    if (planned == 0) return;
    const auto k = static_cast<size_t>(mode);
    const bool is_layer = step.layer >= 0;
    Int128 gathered = planned;
    if (mode == SavingMode::Least && !framework().stacks_gradients) {
      gathered = is_layer ? gathered_.least_of_layer : Int128{0};
    } else if (mode != SavingMode::Eager) {
      gathered = std::min(planned, is_layer ? gathered_.most_of_layer
                                            : gathered_.most_of_others);
    }
    parts[index_of(Category::GatheredLayer)] = widened(gathered, k);
    ReductionInput reduction = reduction_;
    reduction.planned = planned;
    parts[kBuffers] = widened(gathered_ahead(reduction, mode), k);
    // These are a layer's shards on their way from the host.
    if (offload().weights) {
      parts[kBuffers] += gathered_.most_sharded * static_cast<int64_t>(k);
    }
  }
  // Returns the bytes of so many elements of weights in 8 bits.
  Int128 in_fp8(Int128 numbers) const {
    return (numbers * options_.segments.fp8->weight + Fp8Recipe::kUnit - 1) /
           Fp8Recipe::kUnit;
  }
  // Returns the bytes of copies that stay from step to step.
  Int128 copies_in_fp8(const std::vector<SegmentUse>& own,
                       size_t figure) const {
    if (options_.segments.fp8 == nullptr) return 0;
    Int128 numbers = 0;
    for (const SegmentUse& step : own) numbers += step.matrices;
    return in_fp8(numbers * options_.segments.fp8->copies.at(figure));
  }
  // Returns what a stage retains of gathered weights; 0 if it retains nothing.
  Int128 gathered_on(const std::vector<SegmentUse>& own,
                     SavingMode mode) const {
    const auto& stages = input_.budget.stages;
    if (!stages || stages->stages == 1 || options_.microbatches == 1 ||
        !framework().retains_stages.at(static_cast<size_t>(mode))) {
      return 0;
    }
    Int128 layers = 0;
    Int128 others = 0;
    for (const SegmentUse& step : own) {
      (step.layer >= 0 ? layers : others) +=
          step.layer >= 0 ? gathered_.most_of_layer
                          : gathered_.most_of_others - others;
    }
    return layers + others;
  }

  // Returns the bytes of gradients that wait to be reduced.
  Int128 buckets(SavingMode mode, const BudgetClass& device) const {
    const Int128 own = device.held(Category::Gradients);
    if (own == 0 || framework().buffers_gradients) return 0;
    ReductionInput reduction = reduction_;
    const Budget& budget = input_.budget;
    if (budget.all_gradients > 0) {
      reduction.replicated =
          (own * budget.replicated_gradients + budget.all_gradients - 1) /
          budget.all_gradients;
    }
    return widened(gradient_buckets(reduction, mode),
                   static_cast<size_t>(mode));
  }

  Int128 scores_in_float32() const {
    return scores_ * kFloatBytes / options_.segments.element_bytes;
  }
  // Returns what a loop over stacked layers copies of one layer.
  Int128 layer_copies(const SegmentUse& step, size_t figure) const {
    const Int128 bytes = step.weights * framework().copies_of_layer.at(figure);
    return is_wide(figure) ? casts_.of(bytes, true) : bytes;
  }

  // Returns whether layers cast weights for products and hold the casts until
  // their backward has run, or under torch.autocast to the end of forward.
  bool casts_by_layer(size_t figure) const {
    return options_.segments.autocast ||
           (framework().casts_in_layers && figure > 0 && !on_cpu(figure) &&
            casts_.cast > 0 && !weights_.layers.empty());
  }
  Int128 cast_of(const SegmentUse& step, bool is_last) const {
    const int64_t unit = options_.segments.element_bytes;
    if (options_.segments.autocast) {
      return plain_[step.segment].cast_weights * unit;
    }
    return unit * (step.layer >= 0 ? step.matrices
                   : is_last       ? shapes_.outside
                                   : Int128{0});
  }
  // Returns the buffers of a stage that is one of several.
  Int128 pipeline(const std::vector<SegmentUse>& own, int64_t stage,
                  SavingMode mode) const {
    const auto& stages = input_.budget.stages;
    const auto layer = std::ranges::find_if(
        own, [](const SegmentUse& step) { return step.layer >= 0; });
    // If a framework's stages are known, its own table has their buffers.
    if (!stages || stages->stages == 1 || layer == own.end() ||
        framework().ends_of_stage.back() > 0) {
      return 0;
    }
    PipelineInput of;
    const auto k = static_cast<size_t>(mode);
    of.stream = plain_of(*layer, k).memory.at(mode_of(k)).input;
    of.first = stage == 0;
    of.last = stage + 1 == stages->stages;
    of.microbatches = options_.microbatches;
    const Flights flying = flights(stage);
    of.flying = flying.flying;
    of.chunks = flying.chunks;
    const RematPolicy* const policy = options_.remat.policy;
    const bool counts = !input_.layers.saves_inputs &&
                        (policy == nullptr || (!policy->offloads_input &&
                                               !policy->offloads_everything));
    // If layers are frozen, backward may not need it.
    of.saves_input =
        counts && (input_.layers.frozen.empty() || mode != SavingMode::Least);
    of.counts_output = counts && own.back().saves;
    return pipeline_buffers(of, mode);
  }

  // Returns the bytes of gradients that exist. `later` are the weights of the
  // uses after this one, `weights` those of the stage.
  Int128 gradients_at(const SegmentUse& step, Int128 later, Int128 weights,
                      Int128 all, SavingMode mode) const {
    if (holds_gradients(mode) || all == 0) {
      const bool twice =
          options_.microbatches > 1 && !input_.budget.stages &&
          framework().adds_whole_gradients.at(static_cast<size_t>(mode));
      return twice ? 2 * all : all;
    }
    if (weights == 0) return 0;
    if (!framework().stacks_gradients ||
        (mode == SavingMode::Least && options_.kernels == Kernels::Fused)) {
      return all * later / weights;
    }
    // Manifests of stacked tensors do not show what is outside layers.
    if (weights_.layers.empty() && mode != SavingMode::Least) return all;
    const LoopGradients of = loop_gradients(weights, all);
    if (step.layer >= 0) return gradients_in_loop(of, mode);
    return later == 0 && weights > weights_.others ? gradients_at_loss(of, mode)
                                                   : gradients_at_end(of, mode);
  }
  LoopGradients loop_gradients(Int128 weights, Int128 all) const {
    return {all,
            all * (weights - weights_.others) / weights,
            shapes_.outside,
            reduction_.gradient_bytes,
            reduction_.compute_bytes,
            input_.plan.mesh.devices() > 1};
  }

  void look_at(size_t number, int64_t stage, SavingMode mode, Moment& best) {
    const auto k = static_cast<size_t>(mode);
    const BudgetClass& device = input_.budget.classes[number];
    const std::vector<SegmentUse>& own = steps_on(stage);
    const auto update_best = [&](Parts parts, int64_t step) {
      if (only_ && step != *only_) return;
      if (offload().gradients) parts[index_of(Category::Gradients)] = 0;
      if (options_.segments.is_eager) {
        // On a CPU, recomputation is between two modes anyway.
        const bool between =
            on_cpu(k) && step >= 0 && own[static_cast<size_t>(step)].recomputed;
        loosen(mode, between ? kActivationSlack / 2 : kActivationSlack, parts);
      }
      if (best.found && sum_of(parts) <= sum_of(best.parts)) return;
      best = {true, parts, number, step, stage};
    };
    const Flights flying = flights(stage);
    Int128 others = 0;  // what other micro-batches have saved
    Int128 offloaded = 0;
    Int128 most_offloaded = 0;  // of one layer
    Int128 dequantised = 0;     // dequantised weights that stay
    Int128 weights = weights_.others;
    // Whether PyTorch's autograd makes gradients, or may.
    const bool sees_autograd = framework().runs_classes
                                   ? options_.segments.runs_in_order || k > 0
                                   : !framework().is_known() && k == 2;
    const bool counts_tables =
        sees_autograd && device.held(Category::Gradients) > 0;
    std::vector<OutsideWeight> outside;
    for (size_t i = 0; i < own.size(); ++i) {
      const SegmentUse& step = own[i];
      const Segment& of = plain_[step.segment];
      if (counts_tables && of.trains_weight) {
        outside.push_back(
            {i, of.weight, of.weight_numbers * reduction_.gradient_bytes});
      }
      weights += step.weights;
      if (!step.saves) continue;
      const int64_t more = more_in_flight(flying, step.chunk);
      others += memory_of(step, k).saved * more;
      if (!step.recomputed) dequantised += step.saved_dequantised * more;
      offloaded += memory_of(step, k).offloaded;
      most_offloaded = std::max(most_offloaded, memory_of(step, k).offloaded);
    }
    host_[k] = std::max(
        host_[k], device.host + offloaded * flying.flying / flying.chunks);
    const Int128 between = pipeline(own, stage, mode);
    const Int128 casts =
        framework().casts_once.at(k) && !casts_by_layer(k)
            ? casts_.of(device.held(Category::Parameters), is_wide(k))
            : Int128{0};
    const Int128 copies = copies_in_fp8(own, k);
    const Int128 retained = gathered_on(own, mode);
    Int128 later = weights - weights_.others;
    Int128 before = 0;
    Int128 weights_cast = 0;  // of uses before this one, if these stay
    Int128 all_cast = 0;      // the same, and of recomputed uses
    for (size_t i = 0; i < own.size(); ++i) {
      const SegmentUse& step = own[i];
      const SegmentMemory& memory = memory_of(step, k);
      Parts parts = state_of(device);
      Int128 running = std::max(memory.backward, memory.forward) -
                       segment_of(step, k).memory.at(mode_of(k)).loss;
      parts[kLogitRow] = logits_in(segment_of(step, k), k);
      const bool has_loss = parts[kLogitRow] > 0;
      const bool separate_loss = options_.segments.runs_in_order && has_loss;
      const Int128 headward = running;
      if (separate_loss || (options_.segments.is_eager && k == 0 && has_loss)) {
        running = memory.saved;
      }
      running +=
          plain_of(step, k).memory.at(mode_of(k)).saved * step.more_layers;
      parts[kActivations] = others + before + running;
      Int128& gradients = parts[index_of(Category::Gradients)];
      const Int128 all_gradients = gradients;
      later -= step.weights;
      const bool adds = options_.segments.runs_in_order && k == 2;
      gradients = gradients_at(step, later + (adds ? step.weights : Int128{0}),
                               weights, gradients, mode);
      add_gathered(step, mode, device, parts);
      add_known(stage, k, parts);
      if (step.layer >= 0) {
        parts[kBuffers] +=
            stream_ * framework().sums.at(k) + layer_copies(step, k) +
            scores_copied(framework(), input_.manifest.facts,
                          on_cpu(k) ? Int128{0} : scores_in_float32(),
                          step.recomputed ? 0 : input_.layers.layers, gradients,
                          mode);
      }
      parts[kBuffers] += casts;
      if (step.layer < 0 && on_cpu(k)) {
        // Products outside layers read a copy in another layout.
        parts[kBuffers] += static_cast<int64_t>(k) *
                           std::max(weights_.largest, gathered_.most_of_others);
      }
      if (casts_by_layer(k)) {
        const Int128 own_cast = cast_of(step, i + 1 == own.size());
        parts[kBuffers] += weights_cast + own_cast;
        all_cast += own_cast;
        if (!step.recomputed) weights_cast += own_cast;
      }
      if (step.layer >= 0 &&
          (framework().slices_saved.at(k) || (on_cpu(k) && !step.recomputed))) {
        const SegmentMemory& plain = plain_of(step, k).memory.at(mode_of(k));
        // Rounding to 16 bits comes between a slice and its readers.
        parts[kBuffers] +=
            is_wide(k) ? memory.saved : std::min(memory.sliced, plain.sliced);
      }
      parts[kBuffers] += parts[kActivations] * framework().holes.at(k) / 100;
      // One layer is copied to host memory or back while another one runs.
      parts[kBuffers] += most_offloaded * static_cast<int64_t>(k);
      parts[kDequantised] = input_.dequantised * static_cast<int64_t>(k);
      if (k > 0) {
        parts[kDequantised] += dequantised + step.saved_dequantised;
        // FP8 is converted to float32 first.
        if (k == 2 && step.saved_dequantised > 0) {
          parts[kDequantised] += 2 * input_.dequantised;
        }
        if (!step.recomputed) dequantised += step.saved_dequantised;
      }
      parts[kFp8] = copies;
      if (step.layer >= 0 && options_.segments.fp8 != nullptr) {
        parts[kFp8] +=
            in_fp8(weights_.largest_matrix * options_.segments.fp8->moments[k]);
      }
      parts[kBuckets] = buckets(mode, device);
      retain_stage(retained, weights_.share, reduction_, parts);
      // The head's gradient is made after the loss has freed its own tensors.
      const Int128 untabled = parts[kBuckets];
      const OutsideGradients tables = outside_gradients(
          outside, i,
          freed_before_head(options_.segments, k, parts[kLogitRow]));
      parts[kBuckets] += tables.moving;
      if (tables.done > 0) {
        gradients = std::min(gradients + tables.done, all_gradients);
      }
      // Subtracts from what is saved what is freed once it is sent.
      const Int128 sent_on =
          std::max(std::min(between, Int128{0}), -parts[kActivations]);
      parts[kActivations] += sent_on;
      parts[kPipeline] = std::max(between, Int128{0});
      update_best(parts, static_cast<int64_t>(i));
      if (separate_loss) {
        parts[kActivations] += headward - memory.saved;
        parts[kBuckets] = untabled + outside_gradients(outside, i, 0).moving;
        parts[kLogitRow] =
            logits_as(segment_of(step, k), options_.segments, {1, 0});
        update_best(parts, static_cast<int64_t>(i));
      }
      if (step.saves) before += memory.saved;
      if (options_.segments.autocast && i + 1 == own.size()) {
        // Forward ends with all casts, logits, and what the loss made of them.
        parts[kActivations] = others + before;
        parts[kBuckets] = untabled;
        parts[kBuffers] += all_cast - weights_cast;
        const int64_t floats = options_.segments.loss.at(k).floats - 1;
        parts[kLogitRow] =
            logits_as(segment_of(step, k), options_.segments, {1, floats});
        update_best(parts, kForwardEnd);
      }
    }
    // The optimizer's step. Buffers of received values may stay.
    Parts end = state_of(device);
    Int128& last = end[index_of(Category::Gradients)];
    const bool in_xla = framework().stacks_gradients ||
                        (!framework().is_known() && mode == SavingMode::Least);
    if (in_xla && weights > 0 && !holds_gradients(mode)) {
      last = gradients_at_end(loop_gradients(weights, last), mode);
    }
    end[kTemporaries] = update_temporaries(
        optimizers_, framework(), options_.update,
        end[index_of(Category::OptimizerState)],
        end[index_of(Category::Gradients)] / reduction_.gradient_bytes,
        reduction_.gradient_bytes, mode);
    fetch_state(device, k, end);
    if (mode == SavingMode::Eager) {
      end[kActivations] = input_.tokens * kTokenBytes;  // that it began with
      end[kPipeline] = std::max(between, Int128{0});
      end[kBuckets] = buckets(mode, device);
    }
    end[kFp8] = copies;
    add_known(stage, k, end);
    update_best(end, kUpdate);
  }

  // Returns what the lower end holds at the same moment of a step.
  Parts least_at(const Moment& moment) {
    Moment same;
    only_ = moment.step;
    look_at(moment.device, moment.stage, SavingMode::Least, same);
    only_.reset();
    return same.parts;
  }

  std::string moment_text(const Moment& moment) const {
    if (moment.step == kForwardEnd) return "the end of forward";
    if (moment.step < 0) return "the optimizer's step";
    const SegmentUse& step =
        steps_on(moment.stage)[static_cast<size_t>(moment.step)];
    if (step.layer >= 0) {
      return "backward of layer " + std::to_string(step.layer);
    }
    const std::string& label = plain_[step.segment].label;
    return label == "behind layers"   ? "backward of head and loss"
           : label == "before layers" ? "backward of the embedding"
                                      : "backward between layers";
  }

  std::vector<AliveRow> alive_at(const Moment& moment, SavingMode mode) const {
    const auto k = static_cast<size_t>(mode);
    if (moment.step < 0) return {};
    const std::vector<SegmentUse>& own = steps_on(moment.stage);
    const Flights flying = flights(moment.stage);
    std::map<std::string, Int128> saved;
    for (size_t i = 0; i < own.size(); ++i) {
      if (!own[i].saves) continue;
      const bool own_pass = i < static_cast<size_t>(moment.step);
      for (const auto& [name, bytes] : memory_of(own[i], k).saved_by) {
        saved[name] +=
            bytes * (more_in_flight(flying, own[i].chunk) + (own_pass ? 1 : 0));
      }
    }
    const SegmentUse& at = own[static_cast<size_t>(moment.step)];
    std::map<std::string, Int128> running = memory_of(at, k).backward_by;
    const auto logits = running.find(std::string(kLogits));
    if (logits != running.end()) {
      logits->second = logits_in(segment_of(at, k), k);
    }
    return alive_rows(saved, running);
  }

  MemoryBracket bracket(const std::array<Moment, kSavingModes>& moments) const {
    MemoryBracket result;
    std::array<Parts, kSavingModes> parts{};
    for (size_t k = 0; k < kSavingModes; ++k) {
      parts.at(k) = moments[k].parts;
      result.total[k] = static_cast<int64_t>(sum_of(moments[k].parts));
      result.host[k] = static_cast<int64_t>(host_[k]);
      if (k > 0) result.host[k] = std::max(result.host[k], result.host[k - 1]);
    }
    if (offload().pages) {  // which may all be on the device
      const auto& limit = input_.budget.limit;
      const int64_t room = limit ? limit->usable - result.total[1] : 0;
      result.host[0] = 0;
      result.host[1] -= std::clamp<int64_t>(room, 0, result.host[1]);
    }
    const bool fetches_ahead =
        options_.remat.policy != nullptr && offloads(*options_.remat.policy);
    result.offloads = fetches_ahead || offload().any();
    result.rows = bracket_rows(parts, framework(), options_.segments,
                               input_.dequantised > 0,
                               fetches_ahead || offload().weights);
    result.is_eager = options_.segments.is_eager;
    result.recomputes = !options_.remat.is_none();
    const Moment& middle = moments[static_cast<size_t>(SavingMode::Fused)];
    result.device = input_.budget.classes[middle.device].label;
    result.moment = moment_text(middle);
    result.alive = alive_at(middle, SavingMode::Fused);
    return result;
  }

  const StepInput& input_;
  const StepOptions& options_;
  const std::vector<Segment>& plain_;
  std::vector<std::vector<SegmentUse>> steps_on_;  // by stage
  LayerWeights weights_;
  WeightCasts casts_;
  WeightShapes shapes_;
  const bool pads_heads_ =
      framework().stacks_gradients &&
      pads_heads(input_.plan.mesh, input_.manifest.facts, input_.options.state);
  Int128 stream_ = 0;  // the output of a layer
  Int128 scores_ = 0;  // attention scores of one layer, if they are held
  GatheredSizes gathered_;
  std::optional<int64_t> only_;              // the only moment to look at
  std::array<Int128, kSavingModes> host_{};  // a device's bytes in host memory
  ReductionInput reduction_;
  std::vector<OptimizerInput> optimizers_;  // by group
};

}  // namespace

std::optional<MemoryBracket> step_memory(const StepInput& input,
                                         const StepOptions& options,
                                         Diagnostics& diags) {
  return StepMaker(input, options).make(diags);
}

}  // namespace shardplan
