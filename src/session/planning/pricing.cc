// SPDX-License-Identifier: Apache-2.0
// Prices points of a space; bounds.cc has the bounds of their costs.
#include "session/planning/pricing.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "base/checked.h"
#include "base/words.h"
#include "core/rules.h"
#include "cost/kernels.h"
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
