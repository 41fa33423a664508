// SPDX-License-Identifier: Apache-2.0
// Runs the search for a training plan, and judges its winner again.
#include "session/planning/planner.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "base/checked.h"
#include "base/forwarding_host.h"
#include "base/parallel.h"
#include "base/text.h"
#include "base/words.h"
#include "core/views.h"
#include "io/export.h"

namespace shardplan {
namespace {

// Returns the rules of a plan as a rules file.
std::optional<std::string> written_rules(const Session& session,
                                         const std::string& flags,
                                         Diagnostics& diags) {
  ExportInput input{session.model.manifest, session.plan};
  input.no_rules = "written by `shardplan plan`, for: " + flags;
  return export_text(kYamlTarget, input, diags);
}

// Returns the request with which `analyze` judges the point.
PlanRequest planning_of(const PlannerRequest& request, const PlanPoint& point) {
  PlanRequest planning = request.planning;
  const Mesh mesh = mesh_of(point);
  planning.mesh =
      std::make_shared<SourceFile>("--mesh", axes_text(mesh.axes()));
  planning.views.clear();
  for (const MeshView& view : mesh.views()) {
    planning.views.push_back(std::make_shared<SourceFile>(
        "--view", view.name + ":" + axes_text(view.axes)));
  }
  planning.find_fixes = false;
  return planning;
}

MemoryRequest memory_of(const PlannerRequest& request, const PlanSpace& space,
                        const PlanPoint& point) {
  MemoryRequest memory = request.memory;
  if (point.of(PlanAxis::Stages) > 1) {
    memory.stages = Stages{"pp", stage_layers(space, point)};
  }
  if (point.of(PlanAxis::Sequence) > 1) memory.sequence_axes.push_back("sp");
  if (point.tokens_over_tensor) memory.sequence_axes.push_back("tp");
  memory.state.zero = point.zero;
  if (point.zero > 0) memory.state.zero_axes = {"dp"};
  return memory;
}

std::optional<WorkloadRequest> workload_of(const PlannerRequest& request,
                                           const PlanSpace& space,
                                           const PlanPoint& point,
                                           Diagnostics& diags) {
  WorkloadRequest workload = request.workload;
  workload.step.microbatches = point.microbatches;
  auto remat = read_remat(space.remats[point.remat], diags);
  if (!remat) return std::nullopt;
  workload.step.remat = *std::move(remat);
  if (point.chunks > 1) {
    workload.step.schedule = PipelineSchedule::Interleaved;
    workload.step.chunks = point.chunks;
  }
  return workload;
}

// Judges the plan again from the rules that are written for it. This path
// shares nothing with the search.
std::optional<VerifiedPlan> verified(const PlanQuestion& question,
                                     const PricedPlan& plan, Host& host,
                                     Diagnostics& diags,
                                     ProgressListener& progress) {
  progress.stage("judging the plan again");
  const PlannerRequest& request = question.request;
  const PlanSpace& space = question.space;
  const PlanPoint& point = plan.point;
  const MemoryRequest memory = memory_of(request, space, point);
  const auto workload = workload_of(request, space, point, diags);
  if (!workload) return std::nullopt;
  PlanRequest planning = planning_of(request, point);
  Diagnostics quiet = diags.fresh();
  // Use the question's rules: they may have one rule more than the request.
  RuleSet rules = question.inputs.rules;
  if (point.experts == 1) drop_shipped_views(rules);
  auto session = open_session(planning, memory,
                              {question.inputs.model, std::move(rules), {}},
                              host, quiet, progress);
  SHARDPLAN_CHECK(session.has_value());
  auto written =
      written_rules(*session, flags_text(flags_of(space, point)), quiet);
  SHARDPLAN_CHECK(written.has_value());
  const std::string name = "the plan's rules";
  HostWithFile with_rules(host, name, *written);
  planning.rules = {name};
  planning.pattern = nullptr;
  planning.mesh = nullptr;
  planning.views.clear();
  Diagnostics found = diags.fresh();
  auto again = open_session(planning, memory, with_rules, found, progress);
  SHARDPLAN_CHECK(again.has_value());
  const EngineRequest no_engine;
  const MemoryQuestion judged = {planning, memory, *workload, no_engine};
  auto answer =
      answer_memory(judged, *again, Headroom::Leave, with_rules, found);
  SHARDPLAN_CHECK(answer.has_value() && answer->step && answer->step->time);
  const MemoryBracket& bracket = answer->step->bracket;
  SHARDPLAN_CHECK(fingerprint(session->model.manifest, session->plan) ==
                  fingerprint(again->model.manifest, again->plan));
  SHARDPLAN_CHECK(bracket.lower() == plan.cost.least_memory &&
                  bracket.upper() == plan.cost.most_memory);
  const double seconds = answer->step->time->total.estimate;
  SHARDPLAN_CHECK(std::abs(seconds - plan.cost.step.estimate) <=
                  1e-9 * seconds);
  return VerifiedPlan{*std::move(again), *std::move(answer),
                      *std::move(written)};
}

// Returns the point whose upper bound on memory is the least; empty if none is
// legal.
std::optional<PricedPlan> smallest_of(const PlanSpace& space,
                                      const PlanCosts& costs, int threads) {
  const std::vector<PlanPoint> points = smallest_points(space, costs);
  std::vector<PlanCost> found(points.size());
  parallel_for(std::ssize(points), threads,
               [&](int64_t i) { nth(found, i) = costs.price(nth(points, i)); });
  std::optional<PricedPlan> smallest;
  for (size_t i = 0; i < points.size(); ++i) {
    if (found[i].verdict == PlanVerdict::Illegal) continue;
    // A point with a time was judged in full, not by its state alone.
    const auto rank = [](const PlanCost& cost) {
      return std::pair(!cost.timed, cost.most_memory);
    };
    if (!smallest || rank(found[i]) < rank(smallest->cost)) {
      smallest = PricedPlan{points[i], found[i]};
    }
  }
  return smallest;
}

// Returns "@llama", or the files as given.
std::string rules_text(const PlanQuestion& question) {
  const PlanRequest& planning = question.request.planning;
  if (!planning.rules.empty()) return joined(planning.rules, ", ");
  if (question.inputs.rules.sources.empty()) return "";
  const std::string& name = question.inputs.rules.sources.front()->name();
  const size_t from = name.rfind('/') + 1;
  return "@" + name.substr(from, name.rfind('.') - from);
}

// Returns the best plan of each shape, the rivals to keep, and rivals that
// turned out to be better.
std::vector<ShownPlan> shown_plans(const PlannedTraining& planned,
                                   const std::vector<RivalPlan>& kept) {
  const PlannerRequest& request = planned.question->request;
  const std::string own_rules = rules_text(*planned.question);
  std::vector<ShownPlan> shown;
  for (const size_t i : best_of_shapes(planned.answer, request.shapes)) {
    shown.push_back({planned.answer.priced[i], own_rules});
  }
  const auto value = [&](const PricedPlan& plan) {
    return objective_of(request.objective, plan.cost);
  };
  const double best = shown.empty() ? std::numeric_limits<double>::infinity()
                                    : value(shown.front().plan);
  const auto add = [&](const RivalPlan& rival, bool always) {
    if (rival.verdict != PlanVerdict::Fits) return;
    if (!always && value(*rival.best) >= best) return;
    const bool has_rules = rival.question != nullptr;
    shown.push_back(
        {*rival.best, has_rules ? rival.candidate : own_rules, rival.question});
  };
  for (const RivalPlan& rival : kept) add(rival, true);
  for (const RivalPlan& rival : planned.why_not) add(rival, false);
  std::ranges::stable_sort(
      shown, {}, [&](const ShownPlan& each) { return value(each.plan); });
  return shown;
}

// Finds the least memory, and a number of devices that suffices.
bool find_lacking(PlannedTraining& planned, Diagnostics& diags) {
  const PlanQuestion& question = *planned.question;
  const int threads = threads_of(question);
  planned.smallest =
      smallest_of(question.space, question.pricing->costs(), threads);
  const bool may_grow = question.request.fixed_mesh == nullptr &&
                        !question.request.planning.topology;
  constexpr int64_t kMostTimesMore = 64;
  for (int64_t factor = 2; may_grow && factor <= kMostTimesMore; factor *= 2) {
    PlanSpace larger = question.space;
    larger.devices *= factor;
    const auto more = PlanPricing::of(pricing_input(question, larger), diags);
    if (more == nullptr) return false;
    auto found = smallest_of(larger, more->costs(), threads);
    if (!found || found->cost.verdict != PlanVerdict::Fits) continue;
    planned.with_more = std::move(found);
    planned.more_devices = larger.devices;
    return true;
  }
  return true;
}

// Runs one search. Empty, with the reason reported.
std::optional<PlannedTraining> search_training(const PlannerRequest& request,
                                               Host& host, Diagnostics& diags,
                                               ProgressListener& progress) {
  PlannedTraining planned;
  planned.question = plan_question(request, nullptr, host, diags, progress);
  if (planned.question == nullptr) return std::nullopt;
  const PlanQuestion& question = *planned.question;
  progress.stage("searching for plans");
  planned.answer = search_for(question, question.space, request.shapes);
  std::vector<RivalPlan> kept;
  const auto look_at = [&](const SourcePtr& text,
                           std::vector<RivalPlan>& rivals) {
    auto rival =
        rival_plan(text, question, planned.answer, host, diags, progress);
    if (rival) rivals.push_back(*std::move(rival));
    return rival.has_value();
  };
  for (const SourcePtr& text : request.why_not) {
    if (!look_at(text, planned.why_not)) return std::nullopt;
  }
  for (const std::string& rules : request.keep) {
    if (!look_at(std::make_shared<SourceFile>("--keep", rules), kept)) {
      return std::nullopt;
    }
  }
  planned.shown = shown_plans(planned, kept);
  planned.why_not.insert(planned.why_not.end(), kept.begin(), kept.end());
  if (planned.shown.empty()) return planned;
  const ShownPlan& best = planned.shown.front();
  const PlanQuestion& of_best = best.question ? *best.question : question;
  planned.winner = verified(of_best, best.plan, host, diags, progress);
  if (!planned.winner) return std::nullopt;
  planned.unknown = of_best.pricing->unknown_of(best.plan.point);
  return planned;
}

}  // namespace

std::vector<PlanFlag> flags_of(const PlanSpace& space, const PlanPoint& point) {
  const Mesh mesh = mesh_of(point);
  std::vector<PlanFlag> flags = {{"mesh", axes_text(mesh.axes())}};
  for (const MeshView& view : mesh.views()) {
    flags.push_back({"view", view.name + ":" + axes_text(view.axes)});
  }
  if (point.of(PlanAxis::Stages) > 1) {
    const std::string layers =
        joined_of(stage_layers(space, point), ",",
                  [](int64_t each) { return std::to_string(each); });
    flags.push_back({"stages", layers.empty() ? "pp" : "pp:" + layers});
  }
  if (point.chunks > 1) {
    flags.push_back(
        {"schedule", "interleaved:" + std::to_string(point.chunks)});
  }
  std::string tokens = point.of(PlanAxis::Sequence) > 1 ? "sp" : "";
  if (point.tokens_over_tensor) tokens += tokens.empty() ? "tp" : ",tp";
  if (!tokens.empty()) flags.push_back({"sequence-axes", tokens});
  if (point.zero > 0) {
    flags.push_back({"zero", std::to_string(point.zero)});
    flags.push_back({"zero-axes", "dp"});
  }
  if (point.microbatches > 1) {
    flags.push_back({"microbatches", std::to_string(point.microbatches)});
  }
  if (space.remats[point.remat] != "none") {
    flags.push_back({"remat", space.remats[point.remat]});
  }
  return flags;
}

std::optional<PlannedTraining> plan_training(const PlannerRequest& request,
                                             Host& host, Diagnostics& diags,
                                             ProgressListener& progress) {
  Diagnostics asked = diags.fresh();
  auto planned = search_training(request, host, asked, progress);
  if (!planned || !planned->shown.empty()) {
    diags.add_all(asked);
    return planned;
  }
  // Host memory costs time in every step, so it is tried last.
  PlannerRequest more = request;
  Offload& offload = more.memory.state.offload;
  for (const auto& [flag, what] : {std::pair("optimizer", &Offload::optimizer),
                                   {"weights", &Offload::weights}}) {
    if (offload.*what) continue;
    offload.*what = true;
    more.offloads.emplace_back(flag);
    Diagnostics found = diags.fresh();
    auto offloaded = search_training(more, host, found, progress);
    if (offloaded && !offloaded->shown.empty()) {
      diags.add_all(found);
      return offloaded;
    }
  }
  planned->offloads = std::move(more.offloads);
  diags.add_all(asked);
  if (!find_lacking(*planned, diags)) return std::nullopt;
  return planned;
}

}  // namespace shardplan
