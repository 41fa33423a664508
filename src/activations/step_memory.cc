// SPDX-License-Identifier: Apache-2.0
// How the peak of a training step is found.
//
// A step is a list of moments. Each moment is a `Parts`: what a device holds
// then, by row of the bracket, beginning with its state. The largest moment
// counts. There is one moment for every use of a segment (segment_uses.h): the
// one at which its backward runs. The step of the optimizer is another, and so
// is the end of forward if casts of weights stay until then (torch.autocast).
//
// Uses are walked in the order of forward, although backward runs the other way
// round, because three sums then say what a moment holds besides its own use:
//
//   before   saved by earlier uses on this stage, whose backward comes later
//   later    weights of later uses: their backward has run, so their gradients
//            exist
//   others   saved by other micro-batches in flight on this stage
//
// With an embedding E, layers 0 to 2 and a head H, at the backward of layer 1
// `before` is what E and layer 0 have saved, `later` are the weights of layer 2
// and H, and the use itself has the most that the segment holds while it runs
// (SegmentMemory::backward). What else a moment holds depends on the framework
// (framework.h): weights gathered ahead, buckets of gradients, copies of loops,
// workspaces. The functions of buffers.h compute these one by one, and here
// they are added up.
//
// All of this is done for every class of devices, for each of its pipeline
// stages, and for each of the three figures, whose peaks may be at different
// moments. To say why two figures differ, the lower end is therefore computed
// once more at the moment of the upper end (`only_`).
#include "activations/step_memory.h"

#include <algorithm>
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

constexpr int64_t kTokenBytes = 8;  // of a token's id

// The peak found so far.
struct Moment {
  bool found = false;
  Parts parts{};
  size_t device = 0;  // device class
  int64_t step = kUpdateStep;
  int64_t stage = 0;
};

class StepMaker {
 public:
  StepMaker(const StepInput& input, const StepOptions& options)
      : input_(input), options_(options) {
    for (const Segment& segment : plain_) {
      if (!segment.is_layer) continue;
      scores_ = std::max(scores_, segment.scores);
      stream_ =
          std::max(stream_, nth(segment.memory, SavingMode::Fused).handed_on);
    }
  }

  std::optional<MemoryBracket> make(Diagnostics& diags) {
    std::array<Moment, kSavingModes> moments;
    std::vector<StageBracket> by_stage;
    for (size_t c = 0; c < input_.budget.classes.size(); ++c) {
      const BudgetClass& device = input_.budget.classes[c];
      std::vector<int64_t> stages = device.stages;
      if (stages.empty()) stages = {0};
      for (const int64_t stage : stages) {
        StageBracket own = {device.label, stage, {}};
        for (const SavingMode figure : kFigures) {
          figure_ = figure;
          const Moment fullest = fullest_moment(c, stage);
          const Int128 total = sum_of(fullest.parts);
          if (total > std::numeric_limits<int64_t>::max()) {
            return diags.error(Code::MemoryBudget, {},
                               "the memory of a training step exceeds 63 bits");
          }
          nth(own.total, figure) = static_cast<int64_t>(total);
          Moment& best = nth(moments, figure);
          if (!best.found || total > sum_of(best.parts)) best = fullest;
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
  // Returns what belongs to the figure that is computed.
  template <typename T>
  T of_figure(const std::array<T, kSavingModes>& figures) const {
    return nth(figures, figure_);
  }
  bool is_wide() const {
    return !input_.layers.wide_plain.empty() &&
           of_figure(options_.segments.in_float32);
  }
  const Segment& plain_of(const SegmentUse& step) const {
    return is_wide() ? input_.layers.wide_plain[step.segment]
                     : plain_[step.segment];
  }
  const Segment& segment_of(const SegmentUse& step) const {
    if (!step.recomputed) return plain_of(step);
    return is_wide() ? input_.layers.wide_recomputed[step.segment]
                     : input_.layers.recomputed[step.segment];
  }
  const SegmentMemory& memory_of(const SegmentUse& step) const {
    // XLA fuses what is recomputed into the backward that reads it.
    const bool fuses =
        step.recomputed && step.layer >= 0 && framework_.stacks_gradients &&
        figure_ < (on_cpu() ? SavingMode::Fused : SavingMode::Eager);
    return nth(segment_of(step).memory,
               fuses ? std::min(mode(), SavingMode::Fused) : mode());
  }
  // Returns the memory of a use if nothing is recomputed.
  const SegmentMemory& plain_memory_of(const SegmentUse& step) const {
    return nth(plain_of(step).memory, mode());
  }
  SavingMode mode() const {
    if (figure_ == SavingMode::Least && pads_heads_) return figure_;
    if (options_.segments.runs_in_order) return figure_;
    if (options_.segments.is_eager) return SavingMode::Eager;
    return of_figure(modes_of(options_.kernels));
  }
  // Returns the bytes of logits and loss. Fused kernels of layers do not imply
  // a fused loss, but eager layers imply an eager one. The loss of a known
  // framework is known for each figure.
  Int128 logits_in(const Segment& segment) const {
    const bool eager =
        options_.kernels == Kernels::Eager && !framework_.is_known();
    return nth(segment.memory, eager ? mode() : figure_).loss;
  }
  bool on_cpu() const {
    return framework_.stacks_gradients &&
           of_figure(options_.segments.in_float32);
  }
  // Returns these bytes of activations in the dtype that this figure has.
  Int128 widened(Int128 bytes) const {
    const SegmentOptions& segments = options_.segments;
    if (!is_wide()) return bytes;
    return bytes * segments.widened().element_bytes / segments.element_bytes;
  }

  Flights flights(int64_t stage) const {
    const auto& of = input_.budget.stages;
    return in_flight(options_, of ? of->stages : 0, stage);
  }

  // Returns whether gradients exist from the start because they are added up.
  bool holds_gradients() const {
    return of_figure(framework_.whole_gradients) || on_cpu() ||
           options_.microbatches > 1 || input_.budget.stages.has_value() ||
           (input_.options.state.zero > 0 &&
            input_.options.state.zero_style == ZeroStyle::Megatron);
  }

  // Counts state in host memory in the optimizer's step: there, or fetched.
  void fetch_state(const BudgetClass& device, Parts& parts) const {
    if (!offload_.optimizer) return;
    if (offload_.pages) {
      nth(parts, Category::OptimizerState) =
          figure_ == SavingMode::Least ? Int128{0} : state_of_one(optimizers_);
      parts[kTemporaries] = 0;  // it is one kernel
      return;
    }
    if (!of_figure(framework_.fetches_state)) {
      parts[kTemporaries] = 0;
      return;
    }
    for (const Category category :
         {Category::Parameters, Category::MasterWeights,
          Category::OptimizerState}) {
      nth(parts, category) = device.held(category);
    }
  }
  // Adds what the framework is known to hold on a device, possibly one of a
  // pipeline stage.
  void add_known(int64_t stage, Parts& parts) const {
    const FrameworkDef& known = framework_;
    parts[kWorkspaces] += of_figure(known.workspaces);
    if (input_.manifest.facts.experts.value_or(0) > 0) {
      parts[kWorkspaces] += of_figure(known.workspaces_experts);
    }
    const auto& stages = input_.budget.stages;
    const bool has_head = !stages || stage + 1 == stages->stages;
    const Int128 shapes =
        (shapes_.in_layers + (has_head ? shapes_.outside : Int128{0})) *
        options_.segments.element_bytes;
    parts[kBuffers] += scores_ * of_figure(known.scores) +
                       input_.token_pairs * of_figure(known.masks) +
                       std::max(weights_.largest * of_figure(known.weights),
                                shapes * of_figure(known.empty_gradients));
    if (!stages) return;
    const int64_t chunks = options_.schedule == PipelineSchedule::Interleaved
                               ? std::max<int64_t>(options_.chunks, 1)
                               : 1;
    // The first chunk of all has the input of an embedding.
    const int64_t handed = chunks - (stage == 0 ? 1 : 0);
    parts[kBuffers] += stream_ * (handed * of_figure(known.inputs) +
                                  of_figure(known.ends_of_stage));
  }

  void add_gathered(const SegmentUse& step, const BudgetClass& device,
                    Parts& parts) const {
    const Int128 planned = nth(device.bytes, Category::GatheredLayer);
    if (planned == 0) return;
    const bool is_layer = step.layer >= 0;
    Int128 gathered = planned;
    if (figure_ == SavingMode::Least && !framework_.stacks_gradients) {
      gathered = is_layer ? gathered_.least_of_layer : Int128{0};
    } else if (figure_ != SavingMode::Eager) {
      gathered = std::min(planned, is_layer ? gathered_.most_of_layer
                                            : gathered_.most_of_others);
    }
    nth(parts, Category::GatheredLayer) = widened(gathered);
    ReductionInput reduction = reduction_;
    reduction.planned = planned;
    parts[kBuffers] = widened(gathered_ahead(reduction, figure_));
    // These are a layer's shards on their way from the host.
    if (offload_.weights) {
      parts[kBuffers] += gathered_.most_sharded * static_cast<int64_t>(figure_);
    }
  }
  // Returns the bytes of copies that stay from step to step.
  Int128 copies_in_fp8(const std::vector<SegmentUse>& own) const {
    if (options_.segments.fp8 == nullptr) return 0;
    return options_.segments.fp8->weight_bytes(
        matrices_of(own) * of_figure(options_.segments.fp8->copies));
  }
  // Returns what a stage retains of gathered weights; 0 if it retains nothing.
  Int128 gathered_on(const std::vector<SegmentUse>& own) const {
    const auto& stages = input_.budget.stages;
    if (!stages || stages->stages == 1 || options_.microbatches == 1 ||
        !of_figure(framework_.retains_stages)) {
      return 0;
    }
    return gathered_together(own, gathered_);
  }

  // Returns the bytes of gradients that wait to be reduced.
  Int128 buckets(const BudgetClass& device) const {
    const Int128 own = device.held(Category::Gradients);
    if (own == 0 || framework_.buffers_gradients) return 0;
    ReductionInput reduction = reduction_;
    const Budget& budget = input_.budget;
    if (budget.all_gradients > 0) {
      reduction.replicated =
          (own * budget.replicated_gradients + budget.all_gradients - 1) /
          budget.all_gradients;
    }
    return widened(gradient_buckets(reduction, figure_));
  }

  // Returns what a loop over stacked layers copies of one layer.
  Int128 layer_copies(const SegmentUse& step) const {
    const Int128 bytes = step.weights * of_figure(framework_.copies_of_layer);
    return is_wide() ? casts_.of(bytes, true) : bytes;
  }

  // Returns whether layers cast weights for products and hold the casts until
  // their backward has run, or under torch.autocast to the end of forward.
  bool casts_by_layer() const {
    return options_.segments.autocast ||
           (framework_.casts_in_layers && figure_ != SavingMode::Least &&
            !on_cpu() && casts_.cast > 0 && !weights_.layers.empty());
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
  Int128 pipeline(const std::vector<SegmentUse>& own, int64_t stage) const {
    const auto& stages = input_.budget.stages;
    const auto layer = std::ranges::find_if(
        own, [](const SegmentUse& step) { return step.layer >= 0; });
    // If a framework's stages are known, its own table has their buffers.
    if (!stages || stages->stages == 1 || layer == own.end() ||
        framework_.ends_of_stage.back() > 0) {
      return 0;
    }
    const Flights flying = flights(stage);
    const RematPolicy* const policy = options_.remat.policy;
    const bool counts = !input_.layers.saves_inputs &&
                        (policy == nullptr || (!policy->offloads_input &&
                                               !policy->offloads_everything));
    // If layers are frozen, backward may not need what is received.
    const bool needs_input =
        input_.layers.frozen.empty() || figure_ != SavingMode::Least;
    return pipeline_buffers({.stream = plain_memory_of(*layer).input,
                             .first = stage == 0,
                             .last = stage + 1 == stages->stages,
                             .microbatches = options_.microbatches,
                             .flying = flying.flying,
                             .chunks = flying.chunks,
                             .saves_input = counts && needs_input,
                             .counts_output = counts && own.back().saves},
                            figure_);
  }

  // Returns the bytes of gradients that exist. `later` are the weights of the
  // uses after this one, `weights` those of the stage.
  Int128 gradients_at(const SegmentUse& step, Int128 later, Int128 weights,
                      Int128 all) const {
    if (holds_gradients() || all == 0) {
      const bool twice = options_.microbatches > 1 && !input_.budget.stages &&
                         of_figure(framework_.adds_whole_gradients);
      return twice ? 2 * all : all;
    }
    if (weights == 0) return 0;
    const bool is_least = figure_ == SavingMode::Least;
    if (!framework_.stacks_gradients ||
        (is_least && options_.kernels == Kernels::Fused)) {
      return all * later / weights;
    }
    // Manifests of stacked tensors do not show what is outside layers.
    if (weights_.layers.empty() && !is_least) return all;
    const LoopGradients of = loop_gradients(weights, all);
    if (step.layer >= 0) return gradients_in_loop(of, figure_);
    return later == 0 && weights > weights_.others
               ? gradients_at_loss(of, figure_)
               : gradients_at_end(of, figure_);
  }
  LoopGradients loop_gradients(Int128 weights, Int128 all) const {
    return {all,
            all * (weights - weights_.others) / weights,
            shapes_.outside,
            reduction_.gradient_bytes,
            reduction_.compute_bytes,
            input_.plan.mesh.devices() > 1};
  }

  // Returns the moment of a stage at which a device of this class holds most,
  // or the only one to look at.
  Moment fullest_moment(size_t number, int64_t stage) {
    Moment best;
    const BudgetClass& device = input_.budget.classes[number];
    const std::vector<SegmentUse>& own = nth(steps_on_, stage);
    const SegmentOptions& segments = options_.segments;
    const bool is_least = figure_ == SavingMode::Least;
    const bool is_most = figure_ == SavingMode::Eager;
    // How many of what may be there several times: none, one or two.
    const auto times = static_cast<int64_t>(figure_);
    const auto update_best = [&](Parts parts, int64_t step) {
      if (only_ && step != *only_) return;
      if (offload_.gradients) nth(parts, Category::Gradients) = 0;
      if (segments.is_eager) {
        // On a CPU, recomputation is between two modes anyway.
        const bool between = on_cpu() && step >= 0 && nth(own, step).recomputed;
        loosen(figure_, between ? kActivationSlack / 2 : kActivationSlack,
               parts);
      }
      if (recorded_ != nullptr) {  // the larger of two moments of a segment
        Parts& known = nth((*recorded_)[step], figure_);
        if (sum_of(parts) > sum_of(known)) known = parts;
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
    const bool sees_autograd = framework_.runs_classes
                                   ? segments.runs_in_order || !is_least
                                   : !framework_.is_known() && is_most;
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
      const SegmentMemory& memory = memory_of(step);
      const int64_t more = more_in_flight(flying, step.chunk);
      others += memory.saved * more;
      if (!step.recomputed) dequantised += step.saved_dequantised * more;
      offloaded += memory.offloaded;
      most_offloaded = std::max(most_offloaded, memory.offloaded);
    }
    Int128& host = nth(host_, figure_);
    host =
        std::max(host, device.host + offloaded * flying.flying / flying.chunks);
    const Int128 between = pipeline(own, stage);
    const Int128 casts =
        of_figure(framework_.casts_once) && !casts_by_layer()
            ? casts_.of(device.held(Category::Parameters), is_wide())
            : Int128{0};
    const Int128 copies = copies_in_fp8(own);
    const Int128 retained = gathered_on(own);
    Int128 later = weights - weights_.others;
    Int128 before = 0;
    Int128 weights_cast = 0;  // of uses before this one, if these stay
    Int128 all_cast = 0;      // the same, and of recomputed uses
    for (size_t i = 0; i < own.size(); ++i) {
      const SegmentUse& step = own[i];
      const auto index = static_cast<int64_t>(i);
      const bool is_layer = step.layer >= 0;
      const Segment& segment = segment_of(step);
      const SegmentMemory& memory = memory_of(step);
      const SegmentMemory& plain = plain_memory_of(step);
      Parts parts = state_of(device);
      Int128 running = std::max(memory.backward, memory.forward) -
                       nth(segment.memory, mode()).loss;
      parts[kLogitRow] = logits_in(segment);
      const bool has_loss = parts[kLogitRow] > 0;
      const bool separate_loss = segments.runs_in_order && has_loss;
      const Int128 headward = running;
      if (separate_loss || (segments.is_eager && is_least && has_loss)) {
        running = memory.saved;
      }
      if (recorded_ != nullptr) {
        // Forward holds no more than backward will.
        Parts forward = state_of(device);
        if (!holds_gradients()) nth(forward, Category::Gradients) = 0;
        forward[kLogitRow] = parts[kLogitRow];
        forward[kActivations] =
            others + before + std::min(running, memory.forward);
        add_gathered(step, device, forward);
        add_known(stage, forward);
        update_best(forward, kForward - index);
      }
      running += plain.saved * step.more_layers;
      parts[kActivations] = others + before + running;
      Int128& gradients = nth(parts, Category::Gradients);
      const Int128 all_gradients = gradients;
      later -= step.weights;
      const bool adds = segments.runs_in_order && is_most;
      gradients = gradients_at(step, later + (adds ? step.weights : Int128{0}),
                               weights, gradients);
      add_gathered(step, device, parts);
      add_known(stage, parts);
      if (is_layer) {
        parts[kBuffers] +=
            stream_ * of_figure(framework_.sums) + layer_copies(step) +
            scores_copied(
                framework_, input_.manifest.facts,
                on_cpu() ? Int128{0}
                         : scores_ * kFloatBytes / segments.element_bytes,
                step.recomputed ? 0 : input_.layers.layers, gradients, figure_);
      }
      parts[kBuffers] += casts;
      if (!is_layer && on_cpu()) {
        // Products outside layers read a copy in another layout.
        parts[kBuffers] +=
            times * std::max(weights_.largest, gathered_.most_of_others);
      }
      if (casts_by_layer()) {
        const Int128 own_cast = cast_of(step, i + 1 == own.size());
        parts[kBuffers] += weights_cast + own_cast;
        all_cast += own_cast;
        if (!step.recomputed) weights_cast += own_cast;
      }
      if (is_layer && (of_figure(framework_.slices_saved) ||
                       (on_cpu() && !step.recomputed))) {
        // Rounding to 16 bits comes between a slice and its readers.
        parts[kBuffers] +=
            is_wide() ? memory.saved : std::min(memory.sliced, plain.sliced);
      }
      parts[kBuffers] +=
          parts[kActivations] * of_figure(framework_.holes) / 100;
      // One layer is copied to host memory or back while another one runs.
      parts[kBuffers] += most_offloaded * times;
      parts[kDequantised] = input_.dequantised * times;
      if (!is_least) {
        parts[kDequantised] += dequantised + step.saved_dequantised;
        // FP8 is converted to float32 first.
        if (is_most && step.saved_dequantised > 0) {
          parts[kDequantised] += 2 * input_.dequantised;
        }
        if (!step.recomputed) dequantised += step.saved_dequantised;
      }
      parts[kFp8] = copies;
      if (is_layer && segments.fp8 != nullptr) {
        parts[kFp8] += options_.segments.fp8->weight_bytes(
            weights_.largest_matrix * of_figure(segments.fp8->moments));
      }
      parts[kBuckets] = buckets(device);
      retain_stage(retained, weights_.share, reduction_, parts);
      // The head's gradient is made after the loss has freed its own tensors.
      const Int128 untabled = parts[kBuckets];
      const OutsideGradients tables = outside_gradients(
          outside, i, freed_before_head(segments, figure_, parts[kLogitRow]));
      parts[kBuckets] += tables.moving;
      if (tables.done > 0) {
        gradients = std::min(gradients + tables.done, all_gradients);
      }
      // Subtracts from what is saved what is freed once it is sent.
      parts[kActivations] +=
          std::max(std::min(between, Int128{0}), -parts[kActivations]);
      parts[kPipeline] = std::max(between, Int128{0});
      update_best(parts, index);
      if (separate_loss) {
        parts[kActivations] += headward - memory.saved;
        parts[kBuckets] = untabled + outside_gradients(outside, i, 0).moving;
        parts[kLogitRow] = logits_as(segment, segments, {1, 0});
        update_best(parts, index);
      }
      if (step.saves) before += memory.saved;
      if (segments.autocast && i + 1 == own.size()) {
        // Forward ends with all casts, logits, and what the loss made of them.
        parts[kActivations] = others + before;
        parts[kBuckets] = untabled;
        parts[kBuffers] += all_cast - weights_cast;
        const int64_t floats = of_figure(segments.loss).floats - 1;
        parts[kLogitRow] = logits_as(segment, segments, {1, floats});
        update_best(parts, kForwardEnd);
      }
    }
    // The optimizer's step. Buffers of received values may stay.
    Parts end = state_of(device);
    Int128& gradients = nth(end, Category::Gradients);
    const bool in_xla =
        framework_.stacks_gradients || (!framework_.is_known() && is_least);
    if (in_xla && weights > 0 && !holds_gradients()) {
      gradients = gradients_at_end(loop_gradients(weights, gradients), figure_);
    }
    end[kTemporaries] =
        update_temporaries(optimizers_, framework_, options_.update,
                           nth(end, Category::OptimizerState),
                           gradients / reduction_.gradient_bytes,
                           reduction_.gradient_bytes, figure_);
    fetch_state(device, end);
    if (is_most) {
      end[kActivations] = input_.tokens * kTokenBytes;  // that it began with
      end[kPipeline] = std::max(between, Int128{0});
      end[kBuckets] = buckets(device);
    }
    end[kFp8] = copies;
    add_known(stage, end);
    update_best(end, kUpdateStep);
    return best;
  }

  // Returns what the lower end holds at the same moment of a step.
  Parts least_at(const Moment& moment) {
    figure_ = SavingMode::Least;
    only_ = moment.step;
    return fullest_moment(moment.device, moment.stage).parts;
  }

  using Recorded = std::map<int64_t, std::array<Parts, kSavingModes>, Earlier>;
  MemoryCurve curve_at(const Moment& peak) {
    Recorded moments;
    recorded_ = &moments;
    for (const SavingMode figure : kFigures) {
      figure_ = figure;
      fullest_moment(peak.device, peak.stage);
    }
    recorded_ = nullptr;
    MemoryCurve curve;
    for (const auto& [moment, parts] : moments) {
      curve.moments.push_back(
          {moment_label(moment, nth(steps_on_, peak.stage), plain_),
           rows_of(parts)});
    }
    return curve;
  }

  std::vector<AliveRow> alive_at(const Moment& moment) const {
    if (moment.step < 0) return {};
    const std::vector<SegmentUse>& own = nth(steps_on_, moment.stage);
    const Flights flying = flights(moment.stage);
    const size_t here = to_size(moment.step);
    std::map<std::string, Int128> saved;
    for (size_t i = 0; i < own.size(); ++i) {
      if (!own[i].saves) continue;
      for (const auto& [name, bytes] : memory_of(own[i]).saved_by) {
        saved[name] +=
            bytes * (more_in_flight(flying, own[i].chunk) + (i < here ? 1 : 0));
      }
    }
    std::map<std::string, Int128> running = memory_of(own[here]).backward_by;
    const auto logits = running.find(std::string(kLogits));
    if (logits != running.end()) {
      logits->second = logits_in(segment_of(own[here]));
    }
    return alive_rows(saved, running);
  }

  bool fetches_ahead() const {
    return options_.remat.policy != nullptr && offloads(*options_.remat.policy);
  }
  std::vector<BracketRow> rows_of(
      const std::array<Parts, kSavingModes>& parts) const {
    return bracket_rows(parts, framework_, options_.segments,
                        input_.dequantised > 0,
                        fetches_ahead() || offload_.weights);
  }

  MemoryBracket bracket(const std::array<Moment, kSavingModes>& moments) {
    MemoryBracket result;
    std::array<Parts, kSavingModes> parts{};
    for (size_t k = 0; k < kSavingModes; ++k) {
      parts[k] = moments[k].parts;
      result.total[k] = static_cast<int64_t>(sum_of(moments[k].parts));
      result.host[k] = static_cast<int64_t>(host_[k]);
      if (k > 0) result.host[k] = std::max(result.host[k], result.host[k - 1]);
    }
    if (offload_.pages) {  // which may all be on the device
      const auto& limit = input_.budget.limit;
      const int64_t room = limit ? limit->usable - result.total[1] : 0;
      result.host[0] = 0;
      result.host[1] -= std::clamp<int64_t>(room, 0, result.host[1]);
    }
    result.offloads = fetches_ahead() || offload_.any();
    result.rows = rows_of(parts);
    result.is_eager = options_.segments.is_eager;
    result.recomputes = !options_.remat.is_none();
    figure_ = SavingMode::Fused;
    const Moment& middle = nth(moments, figure_);
    result.device = input_.budget.classes[middle.device].label;
    result.moment =
        moment_text(middle.step, nth(steps_on_, middle.stage), plain_);
    result.alive = alive_at(middle);
    if (options_.has_curve) result.curve = curve_at(middle);
    return result;
  }

  const StepInput& input_;
  const StepOptions& options_;
  const FrameworkDef& framework_ = *options_.framework;
  const Offload& offload_ = input_.options.state.offload;
  const std::vector<Segment>& plain_ = input_.layers.plain;
  const LayerWeights weights_ =
      layer_weights(input_.manifest, input_.plan, input_.layers.layer_of,
                    input_.layers.frozen);
  const std::vector<std::vector<SegmentUse>> steps_on_ =  // by stage
      uses_of_stages(input_, weights_, options_);
  const WeightCasts casts_ =
      weight_casts(input_.manifest, input_.plan, input_.options.state,
                   input_.layers.frozen, options_.segments.element_bytes);
  const WeightShapes shapes_ =
      weight_shapes(input_.manifest, input_.plan, input_.layers.layer_of,
                    input_.layers.frozen);
  const std::vector<OptimizerInput> optimizers_ =  // by group
      group_optimizers(input_.manifest, input_.plan, input_.layers.frozen,
                       input_.options);
  const GatheredSizes gathered_ = gathered_sizes(input_.budget);
  const ReductionInput reduction_ = reduction_input(
      gathered_, weights_.share, input_.budget, input_.options.state,
      framework_, options_.segments.element_bytes);
  const bool pads_heads_ =
      framework_.stacks_gradients &&
      pads_heads(input_.plan.mesh, input_.manifest.facts, input_.options.state);
  Int128 stream_ = 0;  // the output of a layer
  Int128 scores_ = 0;  // attention scores of one layer, if they are held
  SavingMode figure_ = SavingMode::Least;    // the figure that is computed
  std::optional<int64_t> only_;              // the only moment to look at
  Recorded* recorded_ = nullptr;             // null: moments are not recorded
  std::array<Int128, kSavingModes> host_{};  // a device's bytes in host memory
};

}  // namespace

std::optional<MemoryBracket> step_memory(const StepInput& input,
                                         const StepOptions& options,
                                         Diagnostics& diags) {
  return StepMaker(input, options).make(diags);
}

}  // namespace shardplan
