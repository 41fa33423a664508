// SPDX-License-Identifier: Apache-2.0
// Prices points of a space, and bounds their costs from samples on few devices.
#include "session/planning/pricing.h"

#include <algorithm>
#include <numeric>
#include <tuple>
#include <utility>

#include "base/checked.h"
#include "base/words.h"
#include "core/rules.h"
#include "cost/kernels.h"
#include "cost/links.h"
#include "cost/stage_time.h"
#include "memory/stages.h"

namespace shardplan {
namespace {

std::string first_error(const Diagnostics& diags) {
  const auto first =
      std::ranges::find(diags.all(), Severity::Error, &Diagnostic::severity);
  return first == diags.all().end()
             ? ""
             : code_id(first->code) + ": " + first->message;
}

// Ignores axes of size 1, which shard nothing.
bool is_placed_so(const Plan& plan, const ForbiddenSpec& forbidden) {
  const auto shortened = [](std::vector<AxisNames> dims) {
    while (!dims.empty() && dims.back().empty()) dims.pop_back();
    return dims;
  };
  const auto wanted = shortened(forbidden.spec.dims);
  return std::ranges::any_of(forbidden.parameters, [&](size_t i) {
    const Placement& placement = plan.placements[plan.placement_of[i]];
    if (!placement.view.empty()) return false;
    std::vector<AxisNames> dims = placement.spec.dims;
    for (AxisNames& axes : dims) {
      erase_if(axes, [&](const AxisName& axis) {
        return plan.mesh.size_of(axis) == 1;
      });
    }
    return shortened(std::move(dims)) == wanted;
  });
}

// Returns a key for plans with the same tensor and expert parallelism: their
// degrees, and the dimensions of placements that they shard.
std::string tensor_key(const PlanPoint& point, const Plan& plan) {
  std::string key = std::to_string(point.of(PlanAxis::Tensor)) + "," +
                    std::to_string(point.experts) + "," +
                    std::to_string(point.expert_tensor);
  for (const Placement& placement : plan.placements) {
    key += placement.dealt ? '*' : '/';
    for (const AxisNames& axes : placement.spec.dims) {
      int cut = 0;
      for (const AxisName& axis : axes) {
        cut |= axis == "tp" ? 1 : axis == "etp" ? 2 : axis == "ep" ? 4 : 0;
      }
      key += static_cast<char>('0' + cut);
    }
  }
  return key;
}

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

// Leases an evaluator of a variant for exclusive use. It prefers the one that
// last partitioned the point's program, which is half of the cost of a price.
class PlanPricing::Lease {
 public:
  Lease(PlanPricing& of, Variant& variant, const PlanPoint& point)
      : of_(of), variant_(variant), own_{program_of(point), nullptr} {
    constexpr size_t kMostIdle = 8;
    const std::lock_guard lock(of.mutex_);
    auto& idle = variant.idle;
    auto at = std::ranges::find(idle, own_.program, &Variant::Idle::program);
    if (at == idle.end() && idle.size() >= kMostIdle) at = idle.begin();
    if (at != idle.end()) {
      own_.evaluator = std::move(at->evaluator);
      idle.erase(at);
    } else {
      own_.evaluator = std::make_unique<Evaluator>(
          *variant.ground, *variant.asked, Diagnostics());
    }
  }
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;
  ~Lease() {
    const std::lock_guard lock(of_.mutex_);
    variant_.idle.push_back(std::move(own_));
  }
  Evaluator* operator->() const { return own_.evaluator.get(); }

 private:
  // Returns what the partitioned program depends on.
  static PlanPoint program_of(PlanPoint point) {
    point.chunks = 1;
    point.balanced = false;
    point.zero = 0;
    point.remat = 0;
    return point;
  }

  PlanPricing& of_;
  Variant& variant_;
  Variant::Idle own_;
};

std::unique_ptr<PlanPricing> PlanPricing::of(const PricingInput& input,
                                             Diagnostics& diags) {
  std::unique_ptr<PlanPricing> pricing(new PlanPricing(input));
  for (const std::string& text : input.space.remats) {
    auto remat = read_remat(text, diags);
    if (!remat) return nullptr;
    pricing->remats_.push_back(*std::move(remat));
  }
  count_lines(input.inputs.rules.sources);
  count_lines(input.inputs.model.manifest.sources);
  if (!pricing->find_least(diags)) return nullptr;
  return pricing;
}

size_t PlanPricing::variant_number(const PlanPoint& point) {
  size_t number = point.of(PlanAxis::Stages) > 1 ? 1 : 0;
  if (point.tokens_over_tensor) number += 2;
  if (point.of(PlanAxis::Sequence) > 1) number += 4;
  if (point.experts > 1) number += 8;
  return number;
}

PlanPricing::Variant& PlanPricing::variant_of(const PlanPoint& point) {
  const std::lock_guard lock(mutex_);
  auto& variant = variants_[variant_number(point)];
  if (variant == nullptr) {
    variant = std::make_unique<Variant>();
    make(*variant, point);
  }
  return *variant;
}

void PlanPricing::make(Variant& variant, const PlanPoint& point) {
  const Model& model = in_.inputs.model;
  variant.rules = in_.inputs.rules;
  if (point.experts > 1) {
    mark_inactive_views(variant.rules, mesh_of(point));
  } else {
    drop_shipped_views(variant.rules);
  }
  variant.memory = in_.asked;
  MemoryRequest request = in_.memory;
  const auto name = [](PlanAxis axis) {
    return AxisName(nth(kPlanAxisNames, axis));
  };
  if (point.of(PlanAxis::Sequence) > 1) {
    request.sequence_axes.push_back(name(PlanAxis::Sequence));
  }
  if (point.tokens_over_tensor) {
    request.sequence_axes.push_back(name(PlanAxis::Tensor));
  }
  variant.memory.axes.sequence = request.sequence_axes;
  if (point.of(PlanAxis::Stages) > 1) {
    request.stages = Stages{name(PlanAxis::Stages), {}};
    variant.memory.options.stages = request.stages;
  }
  Diagnostics diags;
  auto found = find_rules(model.manifest, variant.rules, in_.inputs.how, diags);
  if (!found) {
    variant.why = first_error(diags);
    return;
  }
  variant.ground = std::make_unique<const Groundwork>(groundwork_of_rules(
      model.manifest, variant.rules, *std::move(found), model.folding(),
      model.units(), in_.inputs.how,
      lint_options_with(in_.planning, request, {}), Places::LeftOut));
  variant.asked = std::make_unique<const Asked>(Asked{
      model, &variant.rules, variant.memory, &in_.step, nullptr, nullptr});
}

Candidate PlanPricing::candidate_of(const PlanPoint& point, const Mesh& mesh,
                                    const Variant& variant) const {
  Candidate candidate;
  candidate.placing.mesh = mesh;
  candidate.stage_layers = stage_layers(in_.space, point);
  candidate.state = variant.memory.options.state;
  candidate.state->zero = point.zero;
  if (point.zero > 0) candidate.state->zero_axes = {"dp"};
  candidate.step = variant.memory.step;
  candidate.step->microbatches = point.microbatches;
  candidate.step->remat = remats_[point.remat];
  if (point.chunks > 1) {
    candidate.step->schedule = PipelineSchedule::Interleaved;
    candidate.step->chunks = point.chunks;
  }
  return candidate;
}

TensorParallelism PlanPricing::tensor_parallelism(const PlanPoint& point,
                                                  const Plan& plan) {
  const std::string_view target = in_.space.features.written_as;
  if (target.empty() || point.of(PlanAxis::Tensor) == 1) return {};
  const std::lock_guard lock(mutex_);
  const auto [known, is_new] = tensor_.try_emplace(tensor_key(point, plan));
  if (is_new) {
    known->second = tensor_parallelism_in(target, in_.inputs.model, plan);
  }
  if (!known->second.unknown.empty()) unknown_[point] = known->second.unknown;
  return known->second;
}

std::string PlanPricing::unknown_of(const PlanPoint& point) {
  const std::lock_guard lock(mutex_);
  const auto known = unknown_.find(point);
  return known == unknown_.end() ? "" : known->second;
}

std::optional<std::string> PlanPricing::illegal(const PlanPoint& point,
                                                const Evaluator::Placed& on,
                                                const Candidate& candidate) {
  if (on.judge == nullptr || on.findings.count(Severity::Error) > 0) {
    return first_error(on.findings);
  }
  const auto refused = on.judge->refused(candidate);
  if (!refused.empty()) return refused.front().text;
  for (const ForbiddenSpec& each : in_.forbidden) {
    if (is_placed_so(*on.plan, each)) return each.text;
  }
  const auto tensor = tensor_parallelism(point, *on.plan);
  if (!tensor.problem.empty()) return tensor.problem;
  return std::nullopt;
}

PlanCost PlanPricing::price(const PlanPoint& point) {
  {
    const std::lock_guard lock(mutex_);
    const auto known = known_.find(point);
    if (known != known_.end()) return known->second.cost;
  }
  Priced result = priced(point);
  ++evaluations_;
  const std::lock_guard lock(mutex_);
  return known_.emplace(point, std::move(result)).first->second.cost;
}

PlanPricing::Priced PlanPricing::priced(const PlanPoint& point) {
  Priced result;
  PlanCost& cost = result.cost;
  Variant& variant = variant_of(point);
  cost.reason = variant.why;
  if (!variant.ground) return result;
  Lease evaluator(*this, variant, point);
  const Mesh mesh = mesh_of(point);
  const Candidate candidate = candidate_of(point, mesh, variant);
  Evaluator::Placed& on = evaluator->placed(candidate.placing);
  if (auto why = illegal(point, on, candidate)) {
    cost.reason = *std::move(why);
    return result;
  }
  Diagnostics diags = on.findings.fresh();
  const auto budget = on.judge->budget(candidate, diags);
  if (!budget) {
    cost.reason = first_error(diags);
    return result;
  }
  const int64_t state = budget->classes.front().total;
  cost.least_memory = cost.memory = cost.most_memory = state;
  if (!budget->fits()) {
    cost.verdict = PlanVerdict::Unfit;
    return result;
  }
  auto step = on.judge->step(candidate, *budget, diags);
  if (!step) {
    cost.reason = first_error(diags);
    return result;
  }
  cost.verdict = step->fit.will_fit()  ? PlanVerdict::Fits
                 : step->fit.may_fit() ? PlanVerdict::MayFit
                                       : PlanVerdict::Unfit;
  cost.least_memory = step->bracket.lower();
  cost.memory = step->bracket.estimate();
  cost.most_memory = step->bracket.upper();
  if (!step->time) {
    cost.verdict = PlanVerdict::Illegal;
    cost.reason = step->untimed;
    return result;
  }
  cost.timed = true;
  cost.step = step->time->total;
  cost.tokens_per_second = step->time->tokens_per_second();
  cost.mfu = step->time->mfu;
  cost.limited_by = step->time->limited_by;
  for (const StepTimePart& part : step->time->parts) {
    if (part.exposed > 0) cost.parts.emplace_back(part.part, part.exposed);
  }
  result.computed = step->time->computed;
  result.unsent = step->time->unsent;
  result.sends = std::move(step->time->sends);
  return result;
}

// The program is the same, with other ranks in its collectives. Computing and,
// for the collectives that others wait for, stages wait for the slowest of them
// in all rounds (micro-batches times chunks) but one.
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

std::optional<PlanCost> PlanPricing::refused(const PlanPoint& shape) {
  const auto points =
      plan_points(in_.space, plan_passes(in_.space, shape).front());
  std::optional<PlanCost> refusal;
  for (const PlanPoint* point : {&points.front(), &points.back()}) {
    PlanCost cost;
    Variant& variant = variant_of(*point);
    cost.reason = variant.why;
    if (!variant.ground) return cost;
    Lease evaluator(*this, variant, *point);
    const Candidate candidate = candidate_of(*point, mesh_of(*point), variant);
    Evaluator::Placed& on = evaluator->placed(candidate.placing);
    if (auto why = illegal(*point, on, candidate)) {
      cost.reason = *std::move(why);
      if (!refusal) refusal = std::move(cost);
      continue;
    }
    Diagnostics diags = on.findings.fresh();
    const auto budget = on.judge->budget(candidate, diags);
    if (!budget || budget->fits()) return std::nullopt;
    cost.verdict = PlanVerdict::Unfit;
    cost.least_memory = cost.memory = cost.most_memory =
        budget->classes.front().total;
    return cost;
  }
  return refusal;
}

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

PlanCosts PlanPricing::costs() {
  return {[this](const PlanPoint& shape) { return refused(shape); },
          [this](const PlanPoint& point) { return least(point); },
          {[this](const PlanPoint& pass) { return waiting(pass); },
           [this](const PlanPoint& pass) { return closest(pass); }},
          [this](const PlanPoint& point) { return price(point); },
          [this](const PlanPoint& priced, const PlanPoint& other) {
            return beside(priced, other);
          },
          [this] { return evaluations_.load(); },
          in_.asked.options.limit
              ? std::optional(in_.asked.options.limit->usable)
              : std::nullopt};
}

// Returns the point with another number of sequences, on devices without a
// limit.
Candidate PlanPricing::unlimited(const PlanPoint& point, int64_t sequences,
                                 const Variant& variant) const {
  Candidate candidate = candidate_of(point, mesh_of(point), variant);
  candidate.workload = Workload{sequences, in_.space.seq};
  candidate.device.emplace();
  candidate.device->hardware = variant.memory.hardware;
  candidate.device->card = variant.memory.card;
  return candidate;
}

bool PlanPricing::find_least(Diagnostics& diags) {
  const Manifest& manifest = in_.inputs.model.manifest;
  const LayerGroups layers =
      layer_groups(manifest, std::vector<uint32_t>(manifest.size(), 0));
  trained_ = static_cast<double>(
      in_.asked.trained.empty() ? std::ssize(manifest)
                                : std::ranges::count(in_.asked.trained, true));
  if (in_.asked.trained.empty()) {
    for (size_t i = 0; i < manifest.size(); ++i) {
      const LayerGroup& group = layers.groups[layers.group_of[i]];
      if (group.stack < 0) continue;
      const TensorType& type = manifest.type(i);
      layer_weights_ += std::min(static_cast<double>(type.bytes()),
                                 2 * static_cast<double>(type.elements()));
    }
  }
  held_.resize(remats_.size());
  if (!variant_of({}).ground) return true;  // every point reports why
  for (size_t remat = 0; remat < remats_.size(); ++remat) {
    PlanPoint point;
    point.remat = remat;
    const auto held = held_by(point, diags);
    if (!held) return false;
    held_[remat] = *held;
  }
  return true;
}

// Uses so many sequences that their activations exceed everything else, so that
// the peak is at the end of forward.
std::optional<PlanPricing::Held> PlanPricing::held_by(const PlanPoint& point,
                                                      Diagnostics& diags) {
  constexpr int64_t kMany = 64;
  Variant& variant = variant_of(point);
  if (!variant.ground) return std::nullopt;
  ++evaluations_;
  Lease evaluator(*this, variant, point);
  Candidate candidate = unlimited(point, kMany, variant);
  Evaluator::Placed& on = evaluator->placed(candidate.placing);
  if (on.judge == nullptr) {
    diags.add_all(on.findings);
    return std::nullopt;
  }
  const auto budget = on.judge->budget(candidate, diags);
  if (!budget) return std::nullopt;
  const auto bytes_of = [&](Category category) {
    return static_cast<double>(nth(budget->classes.front().bytes, category));
  };
  Held held{
      bytes_of(Category::Parameters) + bytes_of(Category::Gradients),
      bytes_of(Category::MasterWeights) + bytes_of(Category::OptimizerState)};
  candidate.state->optimizer = Optimizer::Sgd;
  candidate.state->no_master = true;
  const auto judged = on.judge->judge(candidate, diags);
  if (!judged) return std::nullopt;
  if (!judged->step->time) {
    diags.error(Code::Usage, {},
                "steps cannot be timed: " + judged->step->untimed);
    return std::nullopt;
  }
  for (const BracketRow& row : judged->step->bracket.rows) {
    if (row.category != "activations") continue;
    held.kept = static_cast<double>(row.bytes[kSavingModes - 1]) / kMany;
  }
  return held;
}

}  // namespace shardplan
