// SPDX-License-Identifier: Apache-2.0
#include "cost/stage_time.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "activations/buffers.h"
#include "activations/segment_uses.h"
#include "base/checked.h"
#include "base/text.h"
#include "base/words.h"
#include "core/fold.h"
#include "core/views.h"
#include "cost/pass_time.h"

namespace shardplan {
namespace {

// Bytes that the optimizer's step reads and writes, as a multiple of reading
// gradients and reading and writing all state once: at least, by the estimate,
// and at most. AdamW of torch 2.11 over 268 million numbers in float32 took 2.9
// ms fused and 8.1 ms with foreach on an H100 (one kernel for each of its seven
// operations, each of which reads and writes what it works on); XLA fuses it.
struct UpdatePasses {
  double least, estimate, most;
};
UpdatePasses update_passes(const StepOptions& options) {
  const FrameworkDef& framework = *options.framework;
  const std::optional<Update> update =
      options.update ? options.update : framework.update;
  if (update == Update::Fused) return {1, 1.15, 2};
  if (update == Update::Foreach) return {2.8, 3.3, 4.5};
  if (update == Update::Loop) return {2.8, 3.3, 8};
  if (framework.fuses_updates || framework.updates_in_place) {
    return {1, 1.15, 2};
  }
  return {1, 1.5, 4};
}

// The counterpart of kModuleOverhead for an optimizer's step, per parameter: in
// the same steps, the optimizer takes 10 to 15 microseconds for each beside its
// kernels.
constexpr double kLooksAtParameter = 2;

// The share that computing loses to a collective beside it: NCCL runs on 16 to
// 24 of the 132 multiprocessors of an H100.
constexpr double kShared = 0.15;

// How much slower than FlashAttention 2 the attention of an unknown training
// loop may be: kernels of 2023 in Triton took 3 times as long on an H100 (MPT).
constexpr double kUnknownAttention = 3;

double launch_seconds(const HardwareProfile& card, size_t figure) {
  return pick(eager_launch(card).seconds, std::max(figure, kEstimate));
}

class StageTimer {
 public:
  StageTimer(const StepTimeInput& input, const StepOptions& options,
             LinkPlaces& places, std::string& why)
      : input_(input), options_(options), places_(places), why_(why) {}

  std::optional<StageTimes> run() {
    if (!price_segments()) return std::nullopt;
    uses_ = uses_of_stages(input_.memory, {}, options_);
    for (size_t k = 0; k < kSavingModes; ++k) {
      if (is_left_out(k)) continue;
      for (size_t s = 0; s < uses_.size(); ++s) {
        times_.of[k].emplace_back();
        if (!time_stage(s, k)) return std::nullopt;
      }
    }
    return std::move(times_);
  }

 private:
  bool is_left_out(size_t figure) const {
    return input_.shared && figure != kEstimate;
  }

  // Returns whether a compiler fuses element-by-element operations: XLA,
  // torch.compile.
  bool fuses() const {
    return is_compiled(options_) || (options_.framework->runs_classes &&
                                     options_.kernels == Kernels::Fused);
  }

  bool price_segments() {
    const auto modes = modes_of(options_.kernels);
    for (size_t k = 0; k < kSavingModes; ++k) {
      if (is_left_out(k)) continue;
      if (!price_segments(k, modes[k], priced_[k])) return false;
    }
    // Fusing kernels of layers does not save calls of operations, except those
    // of attention's softmax, which is called as one.
    if (options_.kernels == Kernels::Eager || fuses() || input_.shared) {
      return true;
    }
    return price_segments(kEstimate, SavingMode::Eager, called_);
  }
  bool price_segments(size_t k, SavingMode mode,
                      std::vector<SegmentTime>& into) {
    SegmentOptions own =
        options_.segments.for_figure(static_cast<SavingMode>(k));
    if (&into == &called_) own.attention = AttentionKind::Flash;
    const ProgramView view = view_of(input_.program, own);
    // Training loops with unknown kernels leave the loss to PyTorch's
    // operations more often than not.
    const bool is_any =
        !options_.framework->is_known() && options_.kernels == Kernels::Any;
    const size_t loss = is_any && k == kEstimate ? 2 : k;
    if (options_.framework->scatters_between_stages && k == kEstimate) {
      find_copies(view);
    }
    into = price_pass({view, own, options_.remat, input_.card, input_.precision,
                       fuses(), own.loss.at(loss), attention(),
                       options_.framework->is_known() ? 1 : kUnknownAttention,
                       input_.shared.value_or(SharedWork())},
                      mode, why_);
    return !into.empty();
  }

  // Returns the kernel of attention. XLA and Transformer Engine run the best
  // that was measured, cuDNN's; PyTorch and unknown loops run FlashAttention 2.
  std::string_view attention() const {
    return is_compiled(options_) || options_.framework->buffers_gradients
               ? ""
               : "flash";
  }

  bool time_stage(size_t s, size_t k) {
    StageTime& stage = times_.of[k][s];
    std::array<double, 2> called{};
    std::vector<SentPart> gradients;
    for (const EqualUses& use : equal_uses(s)) {
      const SegmentTime& own = priced_[k][use.segment];
      const Segment& segment = input_.memory.layers.plain[use.segment];
      const std::string where =
          segment.is_layer ? folded_name(segment.label) : segment.label;
      const auto run = [&](const PassTime& pass, Direction direction) {
        add_computing(nth(stage.passes, direction), pass, use.count);
        return send(pass, direction, where, use.count, stage);
      };
      if (!run(own.forward, Direction::Forward) ||
          (use.recomputed && !run(own.recompute, Direction::Backward)) ||
          !run(own.backward, Direction::Backward)) {
        return false;
      }
      const SegmentTime& calls = called_.empty() ? own : called_[use.segment];
      called[0] += calls.forward.kernels * use.count;
      called[1] += (calls.backward.kernels +
                    (use.recomputed ? calls.recompute.kernels : 0)) *
                   use.count;
      for (SentPart part : own.gradients) {
        part.count *= use.count;
        gradients.push_back(std::move(part));
      }
      if (k == kEstimate) times_.flops += own.flops * use.count;
    }
    for (size_t d = 0; k > 0 && !is_compiled(options_) && d < 2; ++d) {
      stage.passes.at(d).starting =
          called.at(d) * launch_seconds(input_.card, k) * kModuleOverhead;
    }
    accumulate_gradients(s, stage);
    copy_to_host(s, k, stage);
    if (!gather_weights(s, stage) || !pass_on(s, stage) ||
        !sum_gradients(gradients, k, stage)) {
      return false;
    }
    update(s, k, stage);
    update_on_host(s, k, stage);
    for (size_t d = 0; d < 2; ++d) sum_up(k, d, stage);
    return true;
  }

  // Layers that one segment stands for, either all recomputed or none.
  struct EqualUses {
    size_t segment = 0;
    bool recomputed = false;
    double count = 0;
  };
  std::vector<EqualUses> equal_uses(size_t s) const {
    std::vector<EqualUses> equal;
    for (const SegmentUse& use : uses_[s]) {
      const auto same = std::ranges::find_if(equal, [&](const EqualUses& each) {
        return each.segment == use.segment && each.recomputed == use.recomputed;
      });
      if (same == equal.end()) {
        equal.push_back({use.segment, use.recomputed, 1});
      } else {
        same->count += 1;
      }
    }
    return equal;
  }

  bool send(const PassTime& pass, Direction direction, const std::string& where,
            double times, StageTime& stage) {
    for (const SentPart& part : pass.sends) {
      const bool ahead =
          input_.hide == Hide::Full ||
          (input_.hide == Hide::Framework &&
           (part.of_weight ||
            (part.of_input && options_.framework->sums_inputs_aside)));
      const AxisNames named =
          reported_axes(input_.program, part.axes, part.node);
      Sending sending = {part.kind, part.axes, named, where, direction};
      sending.count = part.count * times;
      sending.payload = part.bytes;
      sending.ahead = ahead;
      if (!send(std::move(sending), stage)) return false;
    }
    return true;
  }
  bool send(Sending sending, StageTime& stage) {
    const auto each =
        places_.price(sending.kind, sending.axes, sending.payload, why_);
    if (!each) return false;
    sending.each = *each;
    const auto key = [](const Sending& of) {
      return std::tie(of.kind, of.named, of.where, of.direction, of.payload,
                      of.ahead);
    };
    const auto same = std::ranges::find(stage.sends, key(sending), key);
    if (same != stage.sends.end()) {
      same->count += sending.count;
    } else {
      stage.sends.push_back(std::move(sending));
    }
    return true;
  }

  // Returns the class of devices that holds most of a stage.
  const BudgetClass& device_of(size_t s) const {
    const auto& classes = input_.memory.budget.classes;
    const auto found = std::ranges::find_if(classes, [&](const auto& each) {
      return contains(each.stages, static_cast<int64_t>(s));
    });
    return found == classes.end() ? classes.front() : *found;
  }
  double held(size_t s, Category category) const {
    return static_cast<double>(device_of(s).held(category));
  }
  double unit() const {
    return static_cast<double>(options_.segments.element_bytes);
  }
  double gradient_unit() const {
    return static_cast<double>(
        gradient_bytes(input_.memory.budget, options_.segments.element_bytes));
  }

  // Adds the gradients of each of several micro-batches to those before.
  void accumulate_gradients(size_t s, StageTime& stage) const {
    if (options_.microbatches < 2) return;
    const double numbers = held(s, Category::Gradients) / gradient_unit();
    auto priced =
        memory_time(input_.card, numbers * (unit() + 2 * gradient_unit()));
    if (!priced) return;
    priced->seconds.lower = 0;  // fused with the product that makes them
    add(stage.passes[1].memory, *priced);
  }

  // Prices copies to and from the host: what a policy saves there goes and
  // comes back, weights there are fetched for each direction, and gradients go
  // there.
  void copy_to_host(size_t s, size_t k, StageTime& stage) const {
    const Offload& offload = input_.memory.options.state.offload;
    double bytes = 0;
    for (const SegmentUse& use : uses_[s]) {
      const auto& segments = use.recomputed ? input_.memory.layers.recomputed
                                            : input_.memory.layers.plain;
      if (use.segment >= segments.size() || !use.saves) continue;
      bytes +=
          static_cast<double>(segments[use.segment].memory.at(k).offloaded);
    }
    if (offload.weights) bytes += held(s, Category::Parameters);
    for (size_t d = 0; d < 2; ++d) {
      if (d > 0 && offload.gradients) bytes += held(s, Category::Gradients);
      const auto copied = host_copy_time(input_.card, bytes);
      if (bytes > 0 && copied) stage.passes.at(d).copies = *copied;
    }
  }

  // Returns how many devices of the step share a host. If the profile does not
  // say, the lower end assumes one, and the others assume eight.
  double on_one_host(size_t k) const {
    constexpr int64_t kUsual = 8;
    const auto& known = input_.card.devices_per_host;
    const int64_t here = known ? known->value : (k == 0 ? 1 : kUsual);
    return static_cast<double>(std::min(here, input_.program.mesh.devices()));
  }

  // Prices pages that are evicted and fetched again: none in the lower end, and
  // all of them in the estimate if they do not fit beside what stays.
  void move_pages(size_t s, StageTime& stage) const {
    const double state = held(s, Category::OptimizerState);
    const auto copied = host_copy_time(input_.card, 2 * state);
    if (!copied) return;
    stage.state_copies = *copied;
    stage.state_copies.seconds.lower = 0;
    const Budget& budget = input_.memory.budget;
    const bool have_room =
        budget.limit && static_cast<double>(budget.headroom) >= state;
    if (have_room) stage.state_copies.seconds.estimate = 0;
  }

  // Prices state in host memory. It is updated there, from gradients that are
  // sent there for weights that come back; or it is fetched, and sent back.
  void update_on_host(size_t s, size_t k, StageTime& stage) const {
    const StateOptions& state = input_.memory.options.state;
    if (!state.offload.optimizer) return;
    if (state.offload.pages) return move_pages(s, stage);
    const double moved = 2 * (held(s, Category::MasterWeights) +
                              held(s, Category::OptimizerState));
    double bytes = 0;
    if (options_.framework->fetches_state.at(kEstimate)) {
      bytes = moved;
    } else {
      if (!state.offload.gradients) bytes += held(s, Category::Gradients);
      if (!state.offload.weights) bytes += held(s, Category::Parameters);
      const double least = stage.optimizer.seconds.lower;
      stage.optimizer = host_update_time(
          (moved + held(s, Category::Gradients)) * on_one_host(k),
          state.zero_style == ZeroStyle::DeepSpeed);
      stage.optimizer_starting = 0;
      // An unknown framework may do it on the device.
      if (!options_.framework->is_known()) {
        double& lower = stage.optimizer.seconds.lower;
        lower = std::min(lower, least);
      }
    }
    if (const auto copied = host_copy_time(input_.card, bytes)) {
      stage.state_copies = *copied;
      // A framework may send them while backward runs.
      if (k == 0) stage.state_copies.seconds.lower = 0;
    }
  }

  // Returns the program's own axes for those that users name.
  AxisNames parts_of(const AxisNames& axes) const {
    AxisNames parts;
    for (const AxisName& axis : axes) {
      const AxisNames own = shardplan::parts_of(input_.program.mesh, axis);
      parts.insert(parts.end(), own.begin(), own.end());
    }
    return in_mesh_order(input_.program.mesh, parts);
  }

  // Adds what ZeRO-3 sends with each micro-batch: it gathers weights that no
  // spec shards, and reduces their gradients.
  bool gather_weights(size_t s, StageTime& stage) {
    const StateOptions& state = input_.memory.options.state;
    if (state.zero != 3) return true;
    double ranks = 1;
    for (const AxisName& axis : state.zero_axes) {
      ranks *= static_cast<double>(input_.memory.plan.mesh.size_of(axis));
    }
    const double bytes =
        held(s, Category::Gradients) / gradient_unit() * unit() * ranks;
    using enum CollectiveKind;
    using enum Direction;
    for (const auto& [kind, direction] :
         {std::pair(AllGather, Forward), std::pair(AllGather, Backward),
          std::pair(ReduceScatter, Backward)}) {
      Sending sending = {kind, parts_of(state.zero_axes), state.zero_axes,
                         "layers", direction};
      sending.payload = bytes;
      sending.ahead = input_.hide != Hide::Nothing;
      if (!send(std::move(sending), stage)) return false;
    }
    return true;
  }

  // Finds axes along which what a segment reads of earlier ones is not sharded.
  void find_copies(const ProgramView& view) {
    AxisNames all;
    for (const Axis& axis : view.program->mesh.axes()) {
      if (axis.size > 1) all.push_back(axis.name);
    }
    copied_over_.assign(view.layer_of_segment.size(), all);
    for (const InstructionId i : view.instructions()) {
      const int segment = view.segment_of[i];
      if (segment < 0) continue;
      for (const RegisterId r : view.at(i).operands) {
        const HeldRegister& read = view.reg(r);
        if (read.weight || read.loaded || read.segment == segment) continue;
        for (const AxisNames& dim :
             view.program->registers[r].layout.spec.dims) {
          erase_if(nth(copied_over_, segment),
                   [&](const AxisName& axis) { return contains(dim, axis); });
        }
      }
    }
  }

  // Adds what a stage receives from the one before it, and returns. Devices
  // that all have a copy may send a part each, which the receivers gather.
  bool pass_on(size_t s, StageTime& stage) {
    const auto& stages = input_.memory.options.stages;
    const auto layer = std::ranges::find_if(
        uses_[s], [](const SegmentUse& use) { return use.layer >= 0; });
    if (s == 0 || !stages || layer == uses_[s].end()) return true;
    const auto bytes = static_cast<double>(
        input_.memory.layers.plain[layer->segment].memory[kEstimate].input);
    const AxisNames along = parts_of({stages->axis});
    AxisNames copies;
    if (!copied_over_.empty()) {
      copies = copied_over_.at(layer->segment);
      erase_if(copies,
               [&](const AxisName& axis) { return contains(along, axis); });
    }
    const auto parts =
        static_cast<double>(shard_count(input_.program.mesh, copies));
    for (const Direction direction :
         {Direction::Forward, Direction::Backward}) {
      Sending part = {CollectiveKind::Permute,
                      along,
                      {stages->axis},
                      "between stages",
                      direction};
      part.count = chunks_of(options_);
      part.payload = bytes / parts;
      if (!send(part, stage)) return false;
      if (copies.empty()) continue;
      part.kind = CollectiveKind::AllGather;
      part.axes = copies;
      part.named = reported_axes(input_.program, copies, {});
      part.payload = bytes;
      if (!send(std::move(part), stage)) return false;
    }
    return true;
  }

  // Sums gradients, once per step. All with the same axes go in one message.
  bool sum_gradients(const std::vector<SentPart>& gradients, size_t k,
                     StageTime& stage) {
    const double widened = gradient_unit() / unit();
    std::map<AxisNames, std::pair<double, NodeId>> sums;
    for (const SentPart& part : gradients) {
      auto& [bytes, node] = sums[part.axes];
      bytes += part.bytes * part.count * widened;
      node = part.node;
    }
    const StateOptions& state = input_.memory.options.state;
    for (const auto& [axes, sum] : sums) {
      const AxisNames named = reported_axes(input_.program, axes, sum.second);
      const bool shards_state =
          state.zero > 0 &&
          std::ranges::find_first_of(named, state.zero_axes) != named.end();
      if (shards_state && state.zero == 3) continue;  // sent per micro-batch
      // Unknown loops that shard state sum gradients when all are there
      // (nanotron, ZeroRedundancyOptimizer).
      const bool ahead = input_.hide == Hide::Full ||
                         (input_.hide == Hide::Framework &&
                          (!shards_state || options_.framework->is_known()));
      Sending whole = {CollectiveKind::AllReduce, axes, named, "step",
                       Direction::Update};
      if (shards_state) whole.kind = CollectiveKind::ReduceScatter;
      whole.payload = sum.first;
      whole.ahead = ahead;
      if (!send(whole, stage)) return false;
      stage.sums_ahead = ahead;
      stage.summing += pick(stage.sends.back().each.seconds, k);
      if (!shards_state) continue;
      whole.kind = CollectiveKind::AllGather;
      whole.payload = sum.first / widened;
      whole.ahead = false;
      if (!send(std::move(whole), stage)) return false;
      stage.gathering += pick(stage.sends.back().each.seconds, k);
    }
    return true;
  }

  // Prices the optimizer, which reads and writes state and weights, and reads
  // gradients.
  void update(size_t s, size_t k, StageTime& stage) const {
    if (held(s, Category::Gradients) == 0) return;
    const double moved =
        2 * (held(s, Category::Parameters) + held(s, Category::MasterWeights) +
             held(s, Category::OptimizerState)) +
        held(s, Category::Gradients);
    const auto priced = memory_time(input_.card, moved);
    if (!priced) return;
    const UpdatePasses passes = update_passes(options_);
    stage.optimizer = *priced;
    stage.optimizer.seconds = {priced->seconds.lower * passes.least,
                               priced->seconds.estimate * passes.estimate,
                               priced->seconds.upper * passes.most};
    stage.optimizer_starting = update_starting(
        input_.card, options_, k,
        static_cast<double>(input_.memory.budget.updated.at(s)));
  }

  void sum_up(size_t k, size_t d, StageTime& stage) const {
    DirectionTime& time = stage.passes.at(d);
    double waiting = 0;
    for (const Sending& each : stage.sends) {
      if (each.direction != static_cast<Direction>(d)) continue;
      (each.ahead ? time.ahead : waiting) +=
          pick(each.each.seconds, k) * each.count;
    }
    const double computing = computed(time, k);
    const double copies = pick(time.copies.seconds, k);
    if (k == 0) {
      time.total = std::max({computing, waiting + time.ahead, copies});
      return;
    }
    time.exposed_ahead =
        k == kEstimate ? exposed_ahead(time.ahead, computing) : time.ahead;
    time.total = computing + waiting + time.exposed_ahead;
    time.exposed_copies = k == kEstimate && input_.hide != Hide::Nothing
                              ? std::max(copies - time.total, 0.0)
                              : copies;
    time.total += time.exposed_copies;
    time.launches = std::max(time.starting - time.total, 0.0);
    time.total += time.launches;
  }

  const StepTimeInput& input_;
  const StepOptions& options_;
  LinkPlaces& places_;
  std::string& why_;
  std::array<std::vector<SegmentTime>, kSavingModes> priced_;  // by segment
  // Operation by operation, if only kernels are fused; otherwise empty.
  std::vector<SegmentTime> called_;
  std::vector<AxisNames> copied_over_;  // per segment; empty: nothing needs it
  std::vector<std::vector<SegmentUse>> uses_;  // by stage
  StageTimes times_;
};

}  // namespace

double pick(const Seconds& seconds, size_t figure) {
  return figure == 0           ? seconds.lower
         : figure == kEstimate ? seconds.estimate
                               : seconds.upper;
}

double exposed_ahead(double ahead, double computing) {
  return ahead - std::min(ahead, computing) * (1 - kShared);
}

// A Python program looks at each parameter a few times.
double update_starting(const HardwareProfile& card, const StepOptions& options,
                       size_t figure, double parameters) {
  if (figure == 0 || is_compiled(options)) return 0;
  return kLooksAtParameter * launch_seconds(card, figure) * parameters;
}

bool is_compiled(const StepOptions& options) {
  return options.framework->stacks_gradients;
}

double chunks_of(const StepOptions& options) {
  return options.schedule == PipelineSchedule::Interleaved
             ? static_cast<double>(std::max<int64_t>(options.chunks, 1))
             : 1;
}

double computed(const DirectionTime& time, size_t figure) {
  return pick(time.products.seconds, figure) +
         pick(time.attention.seconds, figure) +
         pick(time.memory.seconds, figure);
}

double unhidden_sum(const StageTime& stage, size_t figure, Hide hide) {
  const bool hides = figure == 0 || (figure == kEstimate && stage.sums_ahead &&
                                     hide != Hide::Nothing);
  if (!hides) return stage.summing;
  const double hidden =
      std::min(stage.summing, computed(stage.passes[1], figure));
  return stage.summing - hidden * (figure == 0 ? 1 : 1 - kShared);
}

std::string text_of(const AxisNames& axes) {
  return joined(texts_of(axes), ", ");
}

const std::optional<RankPlaces>& LinkPlaces::of(const AxisNames& axes) {
  const auto [known, is_new] = known_.try_emplace(axes);
  if (is_new && ideal_) {
    const Mesh alone({{"ranks", shard_count(mesh_, axes)}});
    known->second = places_of(card_, alone, {"ranks"});
  } else if (is_new) {
    known->second = places_of(card_, mesh_, axes, slices_);
  }
  return known->second;
}

std::optional<PricedTime> LinkPlaces::price(CollectiveKind kind,
                                            const AxisNames& axes,
                                            double payload, std::string& why) {
  const auto& places = of(axes);
  auto priced =
      places ? collective_time(card_, kind, *places, payload) : std::nullopt;
  if (!priced) {
    why = "the profile " + in_backticks(card_.name) +
          " has no link that spans " + text_of(axes);
  }
  return priced;
}

std::optional<StageTimes> stage_times(const StepTimeInput& input,
                                      const StepOptions& options,
                                      LinkPlaces& places, std::string& why) {
  return StageTimer(input, options, places, why).run();
}

}  // namespace shardplan
