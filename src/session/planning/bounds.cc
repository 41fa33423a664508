// SPDX-License-Identifier: Apache-2.0
// Bounds of the costs of points, by which the search leaves most of them alone:
// from samples on a few devices, and from a priced point of the same pass.
#include <algorithm>
#include <numeric>
#include <utility>

#include "base/checked.h"
#include "base/words.h"
#include "cost/kernels.h"
#include "cost/links.h"
#include "cost/stage_time.h"
#include "session/planning/pricing.h"

namespace shardplan {
namespace {

// Returns the least seconds of a step. m micro-batches take m times the slowest
// stage, which takes at least the average, plus the other stages once, divided
// by the chunks. `seconds` is for one micro-batch in all stages.
double of_step(const PlanPoint& pass, double seconds) {
  const double stage = seconds / static_cast<double>(pass.of(PlanAxis::Stages));
  return static_cast<double>(pass.microbatches) * stage +
         (seconds - stage) / static_cast<double>(pass.chunks);
}

int64_t sequences_of(const PlanSpace& space, const PlanPoint& pass) {
  return space.batch / pass.data() / pass.microbatches;
}

// Returns the fraction of all layers' activations that the fullest stage saves,
// counting each micro-batch in flight. With 1F1B, a stage has as many in flight
// as there are stages from it to the last; interleaving has no fewer. Even
// stages, whose remainder goes to the first ones, save at least this.
double kept_part(const PlanSpace& space, const PlanPoint& point) {
  const int64_t stages = point.of(PlanAxis::Stages);
  const std::vector<int64_t> layers = stage_layers(space, point);
  if (layers.empty()) {
    return static_cast<double>(std::min(point.microbatches, stages)) /
           static_cast<double>(stages);
  }
  int64_t most = 0;
  for (int64_t i = 0; i < stages; ++i) {
    most = std::max(most,
                    nth(layers, i) * std::min(point.microbatches, stages - i));
  }
  return std::min(
      1.0, static_cast<double>(most) / static_cast<double>(space.layers));
}

}  // namespace

// A few devices with the whole model and a given number of sequences at once.
struct PlanPricing::Sample {
  std::mutex mutex;
  std::unique_ptr<Evaluator> evaluator;
  Candidate candidate;
  Evaluator::Placed* on = nullptr;
  std::optional<Budget> budget;
  std::map<std::pair<SharedWork, size_t>, LeastPass> passes;  // by shared work
                                                              // and policy
};

PlanPricing::PlanPricing(const PricingInput& input) : in_(input) {}
PlanPricing::~PlanPricing() = default;

LeastPass PlanPricing::sampled(const PlanPoint& point, SharedWork shared,
                               int64_t sequences, size_t remat) {
  Variant& variant = variant_of(point);
  if (!variant.ground) return {};
  Sample* sample = nullptr;
  {
    const std::lock_guard lock(samples_mutex_);
    auto& known = samples_[{
        point.of(PlanAxis::Tensor), point.of(PlanAxis::Sequence), sequences,
        point.experts, point.expert_tensor, point.tokens_over_tensor ? 1 : 0}];
    if (known == nullptr) known = std::make_unique<Sample>();
    sample = known.get();
  }
  const std::lock_guard lock(sample->mutex);
  Diagnostics diags;
  if (sample->evaluator == nullptr) {
    sample->evaluator = std::make_unique<Evaluator>(
        *variant.ground, *variant.asked, Diagnostics());
    sample->candidate = unlimited(point, sequences * point.data(), variant);
    sample->on = &sample->evaluator->placed(sample->candidate.placing);
    if (sample->on->judge != nullptr) {
      sample->budget = sample->on->judge->budget(sample->candidate, diags);
    }
  }
  const auto [known, is_new] =
      sample->passes.try_emplace({shared, remat}, LeastPass());
  if (!is_new || !sample->budget) return known->second;
  ++evaluations_;
  PlanJudge& judge = *sample->on->judge;
  sample->candidate.step->remat = remats_[remat];
  const auto least = judge.steps().least_pass(
      *sample->candidate.workload, judge.held().options, *sample->budget,
      judge.step_of(sample->candidate), shared, *variant.memory.card, diags);
  if (least) known->second = *least;
  return known->second;
}

PlanPoint PlanPricing::sample_of(const PlanPoint& pass, int64_t sequence) {
  PlanPoint point;
  point.of(PlanAxis::Sequence) = sequence;
  point.of(PlanAxis::Tensor) = pass.of(PlanAxis::Tensor);
  point.tokens_over_tensor = pass.tokens_over_tensor;
  point.experts = pass.experts;
  point.expert_tensor = pass.expert_tensor;
  // Data parallelism provides the devices that experts are placed over.
  const int64_t inside = point.of(PlanAxis::Tensor) * sequence;
  point.of(PlanAxis::Shards) =
      std::lcm(inside, point.experts * point.expert_tensor) / inside;
  return point;
}

AxisNames PlanPricing::waits_of(const PlanPoint& pass) const {
  if (in_.space.experts > 1 && pass.of(PlanAxis::Sequence) > 1) {
    return {"tp", "etp"};
  }
  return {};
}

double PlanPricing::bounded(const PlanPoint& pass, const LeastPass& least,
                            double parts, double kept) const {
  const auto stages = static_cast<double>(pass.of(PlanAxis::Stages));
  const double computing =
      static_cast<double>(pass.microbatches) * least.computed / stages;
  // Experts elsewhere are updated there.
  const double parameters =
      trained_ / (stages * static_cast<double>(pass.experts));
  return of_step(pass, least.shared_by(parts)) +
         exposed_ahead(gathering(pass, kept), computing) +
         update_starting(*in_.asked.card, in_.asked.step, kEstimate,
                         parameters);
}

// Returns at least kMost sequences: those of the pass, doubled as often as
// needed.
int64_t PlanPricing::most_sequences(const PlanPoint& pass) const {
  constexpr int64_t kMost = 64;
  int64_t sequences = sequences_of(in_.space, pass);
  while (sequences < kMost) sequences *= 2;
  return sequences;
}

double PlanPricing::bytes_of(const PlanPoint& point, double kept) const {
  const int64_t parts =
      point.of(PlanAxis::Tensor) * point.of(PlanAxis::Sequence);
  const auto copies = static_cast<double>(point.of(PlanAxis::Replicas));
  const Held& held = held_[point.remat];
  return (held.copied * copies + held.shared * (point.zero > 0 ? 1 : copies)) /
             static_cast<double>(in_.space.devices) +
         kept * static_cast<double>(sequences_of(in_.space, point)) /
             static_cast<double>(parts);
}

SharedWork PlanPricing::shared_work(const PlanPoint& pass,
                                    int64_t sequences) const {
  return {pass.of(PlanAxis::Tensor) * pass.of(PlanAxis::Sequence) *
          (sequences / sequences_of(in_.space, pass))};
}

LeastCost PlanPricing::least(const PlanPoint& point) {
  LeastCost cost;
  const double kept = held_[point.remat].kept * kept_part(in_.space, point);
  cost.bytes = bytes_of(point, kept);
  const auto& limit = in_.asked.options.limit;
  if (limit && cost.bytes > static_cast<double>(limit->usable)) return cost;
  const int64_t sequences = most_sequences(point);
  const SharedWork shared = shared_work(point, sequences);
  const LeastPass least = sampled({}, shared, sequences, point.remat);
  cost.seconds = bounded(point, least, shared.parts(), kept);
  return cost;
}

// Prices tensor parallelism separately, because it does not shard everything
// that is saved.
double PlanPricing::kept(const PlanPoint& pass) {
  if (pass.experts > 1) return held_[pass.remat].kept;
  const std::lock_guard lock(kept_mutex_);
  const auto [known, is_new] = kept_in_parts_.try_emplace(
      {pass.of(PlanAxis::Tensor), pass.tokens_over_tensor, pass.remat},
      held_[pass.remat].kept);
  if (!is_new) return known->second;
  PlanPoint point;
  point.of(PlanAxis::Tensor) = pass.of(PlanAxis::Tensor);
  point.tokens_over_tensor = pass.tokens_over_tensor;
  point.remat = pass.remat;
  Diagnostics quiet;
  if (const auto found = held_by(point, quiet)) {
    const auto parts = static_cast<double>(pass.of(PlanAxis::Tensor));
    known->second = std::max(known->second, found->kept * parts);
  }
  return known->second;
}

double PlanPricing::kept_on(const PlanPoint& pass) {
  return kept(pass) * kept_part(in_.space, pass);
}

// Weights that do not fit unsharded are gathered for forward and for backward
// of each micro-batch, and their gradients are reduce-scattered.
double PlanPricing::gathering(const PlanPoint& pass, double kept) const {
  // Experts placed whole are gathered over fewer devices.
  const auto& limit = in_.asked.options.limit;
  if (pass.experts > 1 || !limit || layer_weights_ == 0) return 0;
  int64_t ranks = pass.data();
  for (const PlanPoint& point : plan_points(in_.space, pass)) {
    if (bytes_of(point, kept) <= static_cast<double>(limit->usable)) {
      ranks = std::min(ranks, point.of(PlanAxis::Shards));
    }
  }
  if (ranks == 1) return 0;
  const HardwareProfile& card = *in_.asked.card;
  const auto places = places_of(card, Mesh({{"ranks", ranks}}), {"ranks"});
  if (!places) return 0;
  const double payload =
      layer_weights_ / static_cast<double>(pass.of(PlanAxis::Stages) *
                                           pass.of(PlanAxis::Tensor));
  double seconds = 0;
  for (const CollectiveKind kind :
       {CollectiveKind::AllGather, CollectiveKind::AllGather,
        CollectiveKind::ReduceScatter}) {
    const auto time = collective_time(card, kind, *places, payload);
    if (time) seconds += time->seconds.estimate;
  }
  return seconds * static_cast<double>(pass.microbatches);
}

// Samples of a model with experts have whole sequences: if sequences are
// sharded, the exchanged tokens depend on data parallelism, which a sample
// lacks.
int64_t PlanPricing::sampled_parts(const PlanPoint& pass) const {
  return in_.space.experts > 1 ? 1 : pass.of(PlanAxis::Sequence);
}

// What the pass's own parallelism waits for is added, with many sequences and
// the policy that saves most.
LeastCost PlanPricing::waiting(const PlanPoint& pass) {
  constexpr size_t kSavesMost = 0;
  const int64_t sequences = most_sequences(pass);
  const int64_t parts = sampled_parts(pass);
  const SharedWork shared = shared_work(pass, sequences);
  LeastPass least = sampled({}, shared, sequences, pass.remat);
  least.waited = sampled(sample_of(pass, parts), {.waits = waits_of(pass)},
                         sequences, kSavesMost)
                     .waited;
  LeastCost cost;
  cost.bytes = bytes_of(plan_points(in_.space, pass).front(), kept_on(pass));
  cost.seconds = bounded(
      pass, least,
      shared.parts() / static_cast<double>(pass.of(PlanAxis::Tensor) * parts),
      kept_on(pass));
  return cost;
}

// The pass's own number of sequences.
LeastCost PlanPricing::closest(const PlanPoint& pass) {
  const int64_t parts = sampled_parts(pass);
  const SharedWork shared = {.tokens = pass.of(PlanAxis::Sequence) / parts,
                             .waits = waits_of(pass)};
  const LeastPass least = sampled(sample_of(pass, parts), shared,
                                  sequences_of(in_.space, pass), pass.remat);
  LeastCost cost;
  cost.seconds = bounded(pass, least, shared.parts(), kept_on(pass));
  return cost;
}

// The two points run the same program, with other ranks in its collectives.
// Stages wait for the slowest of them in all rounds (micro-batches times
// chunks) but one.
double PlanPricing::beside(const PlanPoint& priced, const PlanPoint& other) {
  // Without FSDP, rules may place experts in another way.
  if (in_.space.experts > 1 &&
      (priced.of(PlanAxis::Shards) == 1) != (other.of(PlanAxis::Shards) == 1)) {
    return 0;
  }
  const Priced* known = nullptr;
  {
    const std::lock_guard lock(mutex_);
    known = &known_.at(priced);
  }
  PlanPoint flat = other;
  flat.experts = 1;
  const Mesh mesh = mesh_of(flat);
  const HardwareProfile& card = *in_.asked.card;
  const auto sent = [&](CollectiveKind kind, AxisNames axes, double payload) {
    erase_if(axes,
             [&](const AxisName& axis) { return mesh.size_of(axis) == 1; });
    if (axes.empty()) return 0.0;
    const auto places = places_of(card, mesh, axes);
    const auto time =
        places ? collective_time(card, kind, *places, payload) : std::nullopt;
    return time ? time->seconds.estimate : 0.0;
  };
  const auto microbatches = static_cast<double>(other.microbatches);
  const double rounds = microbatches * static_cast<double>(other.chunks);
  // Payloads that depend on no axis but those of the pass. Where sequences are
  // sharded, the tokens that experts exchange depend on data parallelism.
  AxisNames waiting_axes = {"tp"};
  if (in_.space.experts <= 1) waiting_axes.push_back("sp");
  AxisNames gathering_axes = waiting_axes;
  gathering_axes.push_back("fsdp");
  double waited = 0;
  double gathered = 0;
  for (const Sending& each : known->sends) {
    if (each.direction == Direction::Update) continue;
    const auto all_in = [&](const AxisNames& axes) {
      return std::ranges::all_of(each.named, [&](const AxisName& axis) {
        return contains(axes, axis);
      });
    };
    const bool is_gathered = contains(each.named, AxisName("fsdp"));
    if (is_gathered && other.of(PlanAxis::Shards) == 1) continue;
    if (all_in(each.ahead ? gathering_axes : waiting_axes)) {
      (each.ahead ? gathered : waited) +=
          each.count * sent(each.kind, each.named, each.payload);
    } else if (!each.ahead && all_in({"tp", "etp"}) &&
               other.innermost == PlanAxis::Tensor) {
      waited += each.count * each.each.seconds.estimate;
    }
  }
  double summed = 0;
  if (other.experts == 1) {
    const double gradients = layer_weights_ *
                             static_cast<double>(other.of(PlanAxis::Replicas)) /
                             static_cast<double>(in_.space.devices);
    summed = sent(other.zero > 0 ? CollectiveKind::ReduceScatter
                                 : CollectiveKind::AllReduce,
                  {"dp"}, gradients);
  }
  return std::max(known->unsent,
                  known->computed + waited * microbatches * (1 - 1 / rounds) +
                      exposed_ahead(gathered * microbatches, known->computed) +
                      exposed_ahead(summed, known->computed / microbatches));
}

}  // namespace shardplan
