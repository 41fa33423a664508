// SPDX-License-Identifier: Apache-2.0
#include "session/plan_pricing.h"

#include <algorithm>
#include <utility>

#include "base/words.h"
#include "core/rules.h"
#include "cost/kernels.h"
#include "cost/stage_time.h"

namespace shardplan {
namespace {

std::string first_error(const Diagnostics& diags) {
  for (const Diagnostic& each : diags.all()) {
    if (each.severity == Severity::Error) {
      return code_id(each.code) + ": " + each.message;
    }
  }
  return "";
}

double tensor_waits(const StepTime& time) {
  double waits = 0;
  for (const StepCollective& each : time.collectives) {
    const bool of_tensor = std::ranges::all_of(each.axes, [](const auto& axis) {
      return axis == "tp" || axis == "etp";
    });
    if (of_tensor) waits += each.exposed;
  }
  return waits;
}

// What computing takes, and what tensor parallelism waits for where it lies
// inside the fastest link, which other ways of data parallelism do not change:
// stages wait for the slowest of them in all micro-batches but, in chunks, one.
double least_of_pass(const PlanPoint& point, const StepTime& time) {
  if (point.innermost != PlanAxis::Tensor) return time.unsent;
  const auto rounds = static_cast<double>(point.microbatches * point.chunks);
  return time.unsent + tensor_waits(time) * (1 - 1 / rounds);
}

}  // namespace

// An evaluator of a variant that nobody else uses meanwhile.
class PlanPricing::Lease {
 public:
  Lease(PlanPricing& of, Variant& variant) : of_(of), variant_(variant) {
    const std::lock_guard lock(of.mutex_);
    if (!variant.idle.empty()) {
      evaluator_ = std::move(variant.idle.back());
      variant.idle.pop_back();
    } else {
      evaluator_ = std::make_unique<Evaluator>(*variant.ground, *variant.asked,
                                               Diagnostics());
    }
  }
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;
  ~Lease() {
    const std::lock_guard lock(of_.mutex_);
    variant_.idle.push_back(std::move(evaluator_));
  }
  Evaluator& operator*() const { return *evaluator_; }
  Evaluator* operator->() const { return evaluator_.get(); }

 private:
  PlanPricing& of_;
  Variant& variant_;
  std::unique_ptr<Evaluator> evaluator_;
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
    settle_views(variant.rules, mesh_of(point));
  } else {
    drop_shipped_views(variant.rules);
  }
  variant.memory = in_.asked;
  MemoryRequest request = in_.memory;
  const auto name = [](PlanAxis axis) {
    return AxisName(kPlanAxisNames[static_cast<size_t>(axis)]);
  };
  if (point.of(PlanAxis::Sequence) > 1) request.sequence_axes.push_back(name(PlanAxis::Sequence));
  if (point.tokens_over_tensor) request.sequence_axes.push_back(name(PlanAxis::Tensor));
  variant.memory.axes.sequence = request.sequence_axes;
  if (point.of(PlanAxis::Stages) > 1) {
    request.stages = Stages{name(PlanAxis::Stages), {}};
    variant.memory.options.stages = request.stages;
  }
  Diagnostics diags;
  auto found =
      find_rules(model.manifest, variant.rules, in_.inputs.how, diags);
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

std::optional<std::string> PlanPricing::illegal(
    const Evaluator::Placed& on, const Candidate& candidate) const {
  if (on.judge == nullptr || on.findings.count(Severity::Error) > 0) {
    return first_error(on.findings);
  }
  const auto refused = on.judge->refused(candidate);
  if (!refused.empty()) return refused.front().text;
  return std::nullopt;
}

PlanCost PlanPricing::price(const PlanPoint& point) {
  PlanCost cost;
  Variant& variant = variant_of(point);
  cost.reason = variant.why;
  if (!variant.ground) return cost;
  Lease evaluator(*this, variant);
  const Mesh mesh = mesh_of(point);
  const Candidate candidate = candidate_of(point, mesh, variant);
  Evaluator::Placed& on = evaluator->placed(candidate.placing);
  if (auto why = illegal(on, candidate)) {
    cost.reason = *std::move(why);
    return cost;
  }
  Diagnostics diags = on.findings.fresh();
  const auto budget = on.judge->budget(candidate, diags);
  if (!budget) {
    cost.reason = first_error(diags);
    return cost;
  }
  const int64_t state = budget->classes.front().total;
  cost.least_memory = cost.memory = cost.most_memory = state;
  if (!budget->fits()) {
    cost.verdict = PlanVerdict::Unfit;
    return cost;
  }
  const auto step = on.judge->step(candidate, *budget, diags);
  if (!step) {
    cost.reason = first_error(diags);
    return cost;
  }
  cost.verdict = step->fit.surely()    ? PlanVerdict::Fits
                 : step->fit.perhaps() ? PlanVerdict::MayFit
                                       : PlanVerdict::Unfit;
  cost.least_memory = step->bracket.lower();
  cost.memory = step->bracket.estimate();
  cost.most_memory = step->bracket.upper();
  if (!step->time) {
    cost.verdict = PlanVerdict::Illegal;
    cost.reason = step->untimed;
    return cost;
  }
  cost.timed = true;
  cost.step = step->time->total;
  cost.tokens_per_second = step->time->tokens_per_second();
  cost.mfu = step->time->mfu;
  cost.limited_by = step->time->limited_by;
  cost.least_of_pass = least_of_pass(point, *step->time);
  return cost;
}

std::optional<PlanCost> PlanPricing::refused(const PlanPoint& shape) {
  const auto passes = plan_passes(in_.space, shape);
  const auto points = plan_points(in_.space, passes.front());
  std::optional<PlanCost> refusal;
  for (const PlanPoint* point : {&points.front(), &points.back()}) {
    PlanCost cost;
    Variant& variant = variant_of(*point);
    cost.reason = variant.why;
    if (!variant.ground) return cost;
    Lease evaluator(*this, variant);
    const Mesh mesh = mesh_of(*point);
    const Candidate candidate = candidate_of(*point, mesh, variant);
    Evaluator::Placed& on = evaluator->placed(candidate.placing);
    if (auto why = illegal(on, candidate)) {
      cost.reason = *std::move(why);
      refusal = std::move(cost);
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

namespace {

// m micro-batches take m times the slowest stage, which takes as long as the
// average at least, and what the others take once, in chunks. `seconds`: of a
// micro-batch in all stages.
double of_step(const PlanPoint& pass, double seconds) {
  const double stage = seconds / static_cast<double>(pass.of(PlanAxis::Stages));
  return static_cast<double>(pass.microbatches) * stage +
         (seconds - stage) / static_cast<double>(pass.chunks);
}

}  // namespace

// The first stage keeps what backward reads of as many micro-batches as there
// are stages, if there are so many.
LeastCost PlanPricing::least(const PlanPoint& pass) {
  const int64_t stages = pass.of(PlanAxis::Stages);
  const int64_t parts =
      pass.of(PlanAxis::Tensor) * pass.of(PlanAxis::Sequence);
  const int64_t sequences = in_.space.batch / pass.data() / pass.microbatches;
  LeastCost cost;
  cost.bytes = static_cast<double>(state_) /
                   static_cast<double>(in_.space.devices) +
               static_cast<double>(kept_[pass.remat]) *
                   static_cast<double>(sequences) *
                   static_cast<double>(std::min(pass.microbatches, stages)) /
                   static_cast<double>(stages * parts);
  const auto& limit = in_.asked.options.limit;
  if (limit && cost.bytes > static_cast<double>(limit->usable)) return cost;
  cost.seconds = of_step(pass, shared_seconds(sequences, parts, pass.remat));
  return cost;
}

double PlanPricing::least_seconds(const PlanPoint& pass) {
  // Where experts are dealt out is part of the whole mesh.
  if (pass.experts > 1) return least(pass).seconds;
  const int64_t sequences = in_.space.batch / pass.data() / pass.microbatches;
  const std::array<int64_t, 5> key = {
      pass.of(PlanAxis::Tensor), pass.of(PlanAxis::Sequence),
      pass.tokens_over_tensor ? 1 : 0, sequences,
      static_cast<int64_t>(pass.remat)};
  {
    const std::lock_guard lock(bounds_mutex_);
    const auto known = refined_.find(key);
    if (known != refined_.end()) return of_step(pass, known->second);
  }
  PlanPoint small;
  small.of(PlanAxis::Tensor) = pass.of(PlanAxis::Tensor);
  small.of(PlanAxis::Sequence) = pass.of(PlanAxis::Sequence);
  small.tokens_over_tensor = pass.tokens_over_tensor;
  small.remat = pass.remat;
  double seconds = 0;
  Variant& variant = variant_of(small);
  if (variant.ground) {
    Lease evaluator(*this, variant);
    const Candidate candidate = unlimited(small, sequences, variant);
    Evaluator::Placed& on = evaluator->placed(candidate.placing);
    Diagnostics diags;
    const auto judged =
        on.judge != nullptr ? on.judge->judge(candidate, diags) : std::nullopt;
    if (judged && judged->step->time) {
      const StepTime& time = *judged->step->time;
      for (const StepTimePart& part : time.parts) {
        if (part.part == "products" || part.part == "attention" ||
            part.part == "memory") {
          seconds += part.seconds.estimate;
        }
      }
      seconds += tensor_waits(time);
    }
  }
  const std::lock_guard lock(bounds_mutex_);
  refined_[key] = seconds;
  return of_step(pass, seconds);
}

PlanCosts PlanPricing::costs() {
  return {[this](const PlanPoint& shape) { return refused(shape); },
          [this](const PlanPoint& pass) { return least(pass); },
          [this](const PlanPoint& pass) { return least_seconds(pass); },
          [this](const PlanPoint& point) { return price(point); },
          in_.asked.options.limit
              ? std::optional(in_.asked.options.limit->usable)
              : std::nullopt};
}

// A point with other sequences on devices without a limit.
Candidate PlanPricing::unlimited(const PlanPoint& point, int64_t sequences,
                                 const Variant& variant) const {
  Candidate candidate = candidate_of(point, mesh_of(point), variant);
  candidate.workload = Workload{sequences, in_.space.seq};
  Device device;
  device.hardware = variant.memory.hardware;
  device.card = variant.memory.card;
  candidate.device = device;
  return candidate;
}

struct PlanPricing::Alone {
  std::unique_ptr<Evaluator> evaluator;
  Candidate candidate;
  Evaluator::Placed* on = nullptr;
  std::optional<Budget> budget;
};

PlanPricing::PlanPricing(const PricingInput& input) : in_(input) {}
PlanPricing::~PlanPricing() = default;

double PlanPricing::shared_seconds(int64_t sequences, int64_t parts,
                                   size_t remat) {
  const std::array<int64_t, 3> key = {sequences, parts,
                                      static_cast<int64_t>(remat)};
  Variant& variant = variant_of({});
  if (!variant.ground) return 0;
  const std::lock_guard lock(bounds_mutex_);
  if (const auto known = shared_.find(key); known != shared_.end()) {
    return known->second;
  }
  std::unique_ptr<Alone>& alone = alone_[sequences];
  Diagnostics diags;
  if (alone == nullptr) {
    alone = std::make_unique<Alone>();
    alone->evaluator = std::make_unique<Evaluator>(
        *variant.ground, *variant.asked, Diagnostics());
    alone->candidate = unlimited({}, sequences, variant);
    alone->on = &alone->evaluator->placed(alone->candidate.placing);
    if (alone->on->judge != nullptr) {
      alone->budget = alone->on->judge->budget(alone->candidate, diags);
    }
  }
  double& seconds = shared_[key];
  if (!alone->budget) return seconds = 0;
  PlanJudge& judge = *alone->on->judge;
  alone->candidate.step->remat = remats_[remat];
  seconds = judge.steps()
                .least_seconds(*alone->candidate.workload,
                               judge.held().options, *alone->budget,
                               judge.step_of(alone->candidate), parts,
                               *variant.memory.card, diags)
                .value_or(0);
  return seconds;
}

bool PlanPricing::find_least(Diagnostics& diags) {
  kept_.resize(remats_.size());
  Variant& variant = variant_of({});
  if (!variant.ground) return true;  // every point says why
  Lease evaluator(*this, variant);
  for (size_t remat = 0; remat < remats_.size(); ++remat) {
    PlanPoint point;
    point.remat = remat;
    const Candidate candidate = unlimited(point, 1, variant);
    Evaluator::Placed& on = evaluator->placed(candidate.placing);
    if (on.judge == nullptr) {
      diags.add_all(on.findings);
      return false;
    }
    const auto judged = on.judge->judge(candidate, diags);
    if (!judged) return false;
    if (!judged->step->time) {
      diags.error(Code::Usage, {},
                  "no step has a time: " + judged->step->untimed);
      return false;
    }
    state_ = judged->budget->classes.front().total;
    for (const BracketRow& row : judged->step->bracket.rows) {
      if (row.category == "activations") {
        kept_[remat] = row.bytes[kKeepings - 1];
      }
    }
  }
  return true;
}

}  // namespace shardplan
