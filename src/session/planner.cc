// SPDX-License-Identifier: Apache-2.0
#include "session/planner.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "base/checked.h"
#include "base/parallel.h"
#include "base/passing_host.h"
#include "base/text.h"
#include "base/words.h"
#include "core/views.h"
#include "io/export.h"
#include "io/load.h"
#include "memory/stages.h"
#include "model/from_config.h"
#include "session/plan_pricing.h"

namespace shardplan {
namespace {

// What a step is assumed to be where nobody says: four million tokens, as
// models of this kind are trained with (Llama 3 405B, 4 to 16 million), and
// with many devices at least one sequence for every eight.
constexpr int64_t kStepTokens = int64_t{1} << 22U;
constexpr int64_t kDevicesPerSequence = 8;
constexpr int64_t kMostTokens = 8192;

// Evaluations after which what is within 2 % of the best is let go, and after
// which the search ends: some seconds of two cores. With experts one takes
// three times as long.
constexpr int64_t kExactLooks = 1000;
constexpr int64_t kLooks = 1800;
constexpr double kTolerance = 0.02;

bool names_axis(const RuleSet& rules, std::string_view axis) {
  const auto is_named = [&](const AxisNames& axes) {
    return std::ranges::any_of(
        axes, [&](const AxisName& each) { return each == axis; });
  };
  return is_named(rules.declared_axes) ||
         std::ranges::any_of(rules.rules,
                             [&](const Rule& rule) {
                               return std::ranges::any_of(rule.spec.dims,
                                                          is_named);
                             }) ||
         std::ranges::any_of(rules.logical_rules, [&](const LogicalRule& rule) {
           return is_named(rule.axes);
         });
}

bool check(const PlannerRequest& request, Diagnostics& diags) {
  const PlanRequest& planning = request.planning;
  if (!planning.devices) {
    diags.error(Code::Usage, {}, "`plan` needs a number of devices")
        .help("add `--devices`, for example `--devices 64`, or `--topology`");
    return false;
  }
  if (!request.memory.hardware) {
    diags.error(Code::Usage, {}, "`plan` needs to know the devices")
        .help("add `--hardware`, for example `--hardware h100-sxm`");
    return false;
  }
  if (planning.mode != Mode::Train) {
    diags
        .error(Code::Usage, {},
               "`plan` looks for ways to train, and `--mode " +
                   std::string(mode_name(planning.mode)) + "` is given")
        .help("`sweep` compares meshes and engines for inference");
    return false;
  }
  if (planning.slices.value_or(1) > 1) {
    diags
        .error(Code::Usage, {},
               "`plan` does not know how axes cross several slices")
        .help("`sweep --mesh` compares meshes whose slices are written");
    return false;
  }
  return true;
}

// What is assumed of a step, in the request and in words.
void assume(PlannerRequest& request, const Manifest& manifest,
            std::vector<std::string>& assumed) {
  MemoryRequest& memory = request.memory;
  if (memory.state.optimizer == Optimizer::None &&
      memory.state.groups.empty()) {
    memory.state.optimizer = Optimizer::AdamW;
    assumed.emplace_back("AdamW (`--optimizer`)");
  }
  if (!memory.seq) {
    memory.seq = kMostTokens;
    if (const auto most = config_positions(manifest)) {
      memory.seq = std::min(*memory.seq, *most);
    }
    assumed.push_back("sequences of " + count_text(*memory.seq) +
                      " tokens (`--seq`)");
  }
  if (!memory.batch) {
    int64_t batch = std::max<int64_t>(kStepTokens / *memory.seq, 1);
    while (batch * kDevicesPerSequence < *request.planning.devices) batch *= 2;
    memory.batch = batch;
    assumed.push_back(plural(batch, "sequence") + " a step (`--batch`)");
  }
  if (!request.workload.step.framework->is_known()) {
    assumed.emplace_back("any framework (`--framework`)");
  }
}

// Devices of the fastest link.
int64_t domain_of(const HardwareProfile& card, int64_t devices) {
  if (card.links.empty() || !card.links.front().devices) return devices;
  return card.links.front().devices->value;
}

std::optional<PlanAxis> find_axis(std::string_view name) {
  for (size_t i = 0; i < kPlanAxes; ++i) {
    if (kPlanAxisNames[i] == name) return static_cast<PlanAxis>(i);
  }
  return std::nullopt;
}

std::string axis_names() {
  return quoted_names(std::vector<std::string>(std::begin(kPlanAxisNames),
                                               std::end(kPlanAxisNames)));
}

// A mesh as the space has it. Empty, with the reason reported (SP010).
std::optional<PlanPoint> point_of(const SourcePtr& text,
                                  const PlanRequest& planning,
                                  Diagnostics& diags) {
  const auto written = written_mesh(text, planning, {}, diags);
  if (!written) return std::nullopt;
  if (written->mesh.devices() != *planning.devices) {
    return diags
        .error(Code::Usage, {},
               in_backticks(text->name() + " " + std::string(text->text())) +
                   " is of " + plural(written->mesh.devices(), "device") +
                   ", and the plan is for " + count_text(*planning.devices))
        .help("give sizes whose product is " +
              std::to_string(*planning.devices));
  }
  PlanPoint point;
  std::vector<PlanAxis> order;
  for (const Axis& axis : written->mesh.axes()) {
    const auto known = find_axis(axis.name);
    if (!known) {
      return diags
          .error(Code::Usage, {},
                 "`plan` has no axis " + in_backticks(axis.name) + ", which " +
                     in_backticks(text->name()) + " names")
          .help("its axes are " + axis_names());
    }
    point.of(*known) = axis.size;
    if (axis.size > 1) order.push_back(*known);
  }
  if (order.empty()) return point;
  point.innermost = order.back();
  std::vector<PlanAxis> sorted = order;
  std::ranges::sort(sorted);
  if (sorted.back() == point.innermost) point.innermost = PlanAxis::Tensor;
  std::erase(sorted, order.back());
  order.pop_back();
  if (sorted != order) {
    return diags
        .error(Code::Usage, {},
               "`plan` does not try the order of axes of " +
                   in_backticks(std::string(text->text())))
        .fact("it has them as pp, dp, fsdp, sp, tp, or with one of them last")
        .help("`analyze --mesh` takes any order");
  }
  return point;
}

// How many layers take as long as the head: a matrix multiplies by each of its
// numbers once per token, of experts those that a token goes to, and attention
// by a sequence's keys and values, of which half are before it.
double head_in_layers(const Manifest& manifest, int64_t seq) {
  const Facts& facts = manifest.facts;
  const LayerGroups groups =
      layer_groups(manifest, std::vector<uint32_t>(manifest.size(), 0));
  std::map<std::pair<uint32_t, uint32_t>, int64_t> alike;
  for (size_t i = 0; i < manifest.size(); ++i) {
    ++alike[{groups.group_of[i], manifest.name_class(i)}];
  }
  const int64_t experts = facts.experts.value_or(0);
  const double routed =
      experts > 1 ? static_cast<double>(facts.experts_per_token.value_or(1)) /
                        static_cast<double>(experts)
                  : 1;
  double in_layers = static_cast<double>(seq);
  for (const auto& count : {facts.layers, facts.heads, facts.head_dim}) {
    in_layers *= static_cast<double>(count.value_or(0));
  }
  double head = 0;
  double embedding = 0;
  for (size_t i = 0; i < manifest.size(); ++i) {
    const TensorType& type = manifest.type(i);
    if (type.shape.size() < 2) continue;
    const LayerGroup& group = groups.groups[groups.group_of[i]];
    const auto numbers = static_cast<double>(type.elements());
    const bool is_expert =
        experts > 1 &&
        (contains(type.shape, experts) ||
         alike[{groups.group_of[i], manifest.name_class(i)}] == experts);
    if (group.stack >= 0) {
      in_layers += numbers * (is_expert ? routed : 1);
    } else if (group.place == GroupPlace::Head) {
      head += numbers;
    } else if (group.is_token_embedding) {
      embedding += numbers;
    }
  }
  if (in_layers == 0) return 0;
  return (head > 0 ? head : embedding) *
         static_cast<double>(facts.layers.value_or(1)) / in_layers;
}

std::optional<PlanSpace> space_of(const PlannerRequest& request,
                                  const Inputs& inputs,
                                  const AskedMemory& asked,
                                  Diagnostics& diags) {
  const Facts& facts = inputs.model.manifest.facts;
  PlanSpace space;
  space.devices = *request.planning.devices;
  space.domain = domain_of(*asked.card, space.devices);
  space.batch = *request.memory.batch;
  space.seq = *request.memory.seq;
  space.layers = facts.layers.value_or(1);
  space.head = head_in_layers(inputs.model.manifest, space.seq);
  space.ways = framework_ways(request.workload.step.framework->name);
  space.microbatches = request.microbatches;
  space.remats = request.remats;
  if (space.remats.empty()) {
    for (const std::string_view name : space.ways.remats) {
      space.remats.emplace_back(name);
    }
  }
  // Rules for experts in a view of their own are what deals them out.
  const auto has_view = [](const auto& rule) {
    return rule.view == kExpertView;
  };
  if (std::ranges::any_of(inputs.rules.rules, has_view) ||
      std::ranges::any_of(inputs.rules.logical_rules, has_view)) {
    space.experts = facts.experts.value_or(0);
  }
  for (const AxisName& axis : request.over) {
    if (find_axis(axis)) continue;
    return diags
        .error(Code::Usage, {},
               "`--over` names axis " + in_backticks(axis) +
                   ", which `plan` does not have")
        .help("its axes are " + axis_names());
  }
  for (size_t i = 0; i < kPlanAxes; ++i) {
    const auto axis = static_cast<PlanAxis>(i);
    const std::string_view name = kPlanAxisNames[i];
    const bool is_asked =
        request.over.empty() || contains(request.over, AxisName(name));
    const bool is_there =
        axis == PlanAxis::Stages     ? space.ways.stages && facts.layers
        : axis == PlanAxis::Replicas ? true
        : axis == PlanAxis::Shards
            ? space.ways.shards && names_axis(inputs.rules, name)
            : names_axis(inputs.rules, name);
    if (is_asked && is_there) space.over.push_back(axis);
  }
  if (request.fixed_mesh != nullptr) {
    space.fixed = point_of(request.fixed_mesh, request.planning, diags);
    if (!space.fixed) return std::nullopt;
  }
  return space;
}

// "@llama", or the files as they were given.
std::string rules_text(const PlanRequest& planning, const Inputs& inputs) {
  if (!planning.rules.empty()) return joined(planning.rules, ", ");
  if (inputs.rules.sources.empty()) return "";
  const std::string& name = inputs.rules.sources.front()->name();
  const size_t from = name.rfind('/') + 1;
  return "@" + name.substr(from, name.rfind('.') - from);
}

// A host that has one more file, whose text nobody has written.
class TextHost : public PassingHost {
 public:
  TextHost(Host& below, std::string name, const std::string& text)
      : PassingHost(below), name_(std::move(name)), text_(text) {}

  std::shared_ptr<const Bytes> read_file(const std::string& path, int64_t limit,
                                         std::string& why) override {
    if (path == name_) return std::make_shared<Text>(text_);
    return PassingHost::read_file(path, limit, why);
  }

 private:
  class Text : public Bytes {
   public:
    explicit Text(std::string text) : text_(std::move(text)) {}
    std::string_view view() const override { return text_; }

   private:
    std::string text_;
  };

  std::string name_;
  const std::string& text_;
};

// The rules of a plan as a file of ours has them.
std::optional<std::string> written_rules(const Session& session,
                                         const std::string& flags,
                                         Diagnostics& diags) {
  ExportInput input{session.model.manifest, session.plan};
  input.no_rules = "written by `shardplan plan`, for: " + flags;
  return export_text(kYamlTarget, input, diags);
}

// What `analyze` would be asked for the point.
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

// Judged from the rules that are written for it, read again, on a path that
// shares nothing with the search.
std::optional<VerifiedPlan> verified(const PlannerRequest& request,
                                     const PlanSpace& space,
                                     const PricedPlan& plan, Host& host,
                                     Diagnostics& diags,
                                     ProgressListener& progress) {
  progress.stage("judging the plan again");
  const PlanPoint& point = plan.point;
  const MemoryRequest memory = memory_of(request, space, point);
  const auto workload = workload_of(request, space, point, diags);
  if (!workload) return std::nullopt;
  PlanRequest planning = planning_of(request, point);
  Diagnostics quiet = diags.fresh();
  auto session = open_session(planning, memory, host, quiet, progress);
  SHARDPLAN_CHECK(session.has_value());
  auto rules = written_rules(*session, flags_of(space, point), quiet);
  SHARDPLAN_CHECK(rules.has_value());
  const std::string name = "the plan's rules";
  TextHost with_rules(host, name, *rules);
  planning.rules = {name};
  planning.mesh = nullptr;
  planning.views.clear();
  Diagnostics found = diags.fresh();
  auto again = open_session(planning, memory, with_rules, found, progress);
  SHARDPLAN_CHECK(again.has_value());
  const EngineRequest no_engine;
  const MemoryQuestion question = {planning, memory, *workload, no_engine};
  auto answer =
      answer_memory(question, *again, Headroom::Leave, with_rules, found);
  SHARDPLAN_CHECK(answer.has_value() && answer->step && answer->step->time);
  const MemoryBracket& bracket = answer->step->bracket;
  SHARDPLAN_CHECK(fingerprint(session->model.manifest, session->plan) ==
                  fingerprint(again->model.manifest, again->plan));
  SHARDPLAN_CHECK(bracket.lower() == plan.cost.least_memory &&
                  bracket.upper() == plan.cost.most_memory);
  const double seconds = answer->step->time->total.estimate;
  SHARDPLAN_CHECK(std::abs(seconds - plan.cost.step.estimate) <=
                  1e-9 * seconds);
  return VerifiedPlan{*std::move(again), *std::move(answer), *std::move(rules)};
}

// The point that holds least at most; empty where none is legal.
std::optional<PricedPlan> smallest_of(const PlanSpace& space,
                                      const PlanCosts& costs, int threads) {
  const std::vector<PlanPoint> points = smallest_points(space, costs);
  std::vector<PlanCost> found(points.size());
  parallel_for(std::ssize(points), threads, [&](int64_t i) {
    const auto at = static_cast<size_t>(i);
    found[at] = costs.price(points[at]);
  });
  std::optional<PricedPlan> smallest;
  for (size_t i = 0; i < points.size(); ++i) {
    if (found[i].verdict == PlanVerdict::Illegal) continue;
    // What has a time was judged as a whole, and not by its state alone.
    const auto rank = [](const PlanCost& cost) {
      return std::pair(!cost.timed, cost.most_memory);
    };
    if (!smallest || rank(found[i]) < rank(smallest->cost)) {
      smallest = PricedPlan{points[i], found[i]};
    }
  }
  return smallest;
}

std::optional<WhyNot> why_not(const SourcePtr& text,
                              const PlannerRequest& request,
                              const PlanSpace& space, const PlanAnswer& answer,
                              const PlanCosts& costs,
                              const SearchBudget& budget, Diagnostics& diags) {
  WhyNot result;
  result.candidate = std::string(text->text());
  PlanSpace only = space;
  only.fixed = point_of(text, request.planning, diags);
  if (!only.fixed) return std::nullopt;
  for (size_t i = 0; i < kPlanAxes; ++i) {
    const auto axis = static_cast<PlanAxis>(i);
    if (only.fixed->of(axis) == 1 || contains(space.over, axis)) continue;
    result.reason =
        "axis " + in_backticks(kPlanAxisNames[i]) +
        " is none of those that are considered: " +
        joined_of(space.over, ", ", [](PlanAxis each) {
          return in_backticks(kPlanAxisNames[static_cast<size_t>(each)]);
        });
    return result;
  }
  const PlanAnswer own = search_plans(only, request.objective, costs, budget);
  if (!own.best.empty()) {
    result.best = own.priced[own.best.front()];
    const bool is_first =
        !answer.best.empty() &&
        answer.priced[answer.best.front()].point == result.best->point;
    result.verdict = PlanVerdict::Fits;
    result.reason = is_first ? "it is the plan" : "";
    return result;
  }
  // What comes nearest: least memory of what is legal, else the first reason.
  for (const PricedPlan& each : own.priced) {
    if (each.cost.verdict == PlanVerdict::Illegal) continue;
    if (!result.best || each.cost.most_memory < result.best->cost.most_memory) {
      result.best = each;
    }
  }
  if (result.best) {
    result.verdict = result.best->cost.verdict;
    return result;
  }
  result.verdict =
      own.rejected.empty() ? PlanVerdict::Illegal : own.rejected[0].verdict;
  result.reason = own.rejected.empty() ? "no way to train is on this mesh"
                                       : own.rejected[0].reason;
  return result;
}

}  // namespace

std::string flags_of(const PlanSpace& space, const PlanPoint& point) {
  const Mesh mesh = mesh_of(point);
  std::string flags = "--mesh " + axes_text(mesh.axes());
  for (const MeshView& view : mesh.views()) {
    flags += " --view " + view.name + ":" + axes_text(view.axes);
  }
  if (point.of(PlanAxis::Stages) > 1) flags += " --stages pp";
  if (const auto layers = stage_layers(space, point); !layers.empty()) {
    flags += ":" + joined_of(layers, ",",
                             [](int64_t each) { return std::to_string(each); });
  }
  if (point.chunks > 1) {
    flags += " --schedule interleaved:" + std::to_string(point.chunks);
  }
  std::string tokens = point.of(PlanAxis::Sequence) > 1 ? "sp" : "";
  if (point.tokens_over_tensor) tokens += tokens.empty() ? "tp" : ",tp";
  if (!tokens.empty()) flags += " --sequence-axes " + tokens;
  if (point.zero > 0) {
    flags += " --zero " + std::to_string(point.zero) + " --zero-axes dp";
  }
  if (point.microbatches > 1) {
    flags += " --microbatches " + std::to_string(point.microbatches);
  }
  if (space.remats[point.remat] != "none") {
    flags += " --remat " + space.remats[point.remat];
  }
  return flags;
}

std::optional<PlannedTraining> plan_training(const PlannerRequest& asked_for,
                                             Host& host, Diagnostics& diags,
                                             ProgressListener& progress) {
  if (!check(asked_for, diags)) return std::nullopt;
  PlannerRequest request = asked_for;
  // Rules of shipped sets for experts in their view are kept.
  request.planning.views = {std::make_shared<SourceFile>(
      "--view", std::string(kExpertView) + ":ep=1")};
  auto inputs = read_inputs(request.planning, host, diags, progress);
  if (!inputs) return std::nullopt;
  PlannedTraining planned;
  assume(request, inputs->model.manifest, planned.assumed);
  const MemoryQuestion question = {request.planning, request.memory,
                                   request.workload, EngineRequest()};
  if (!check_question(question, diags)) return std::nullopt;
  const auto asked =
      asked_memory(request.memory, request.planning, request.workload,
                   inputs->model.manifest, &inputs->rules, host, diags);
  if (!asked) return std::nullopt;
  const auto step = step_model(inputs->model, asked->trained, diags);
  if (!step) return std::nullopt;
  auto space = space_of(request, *inputs, *asked, diags);
  if (!space) return std::nullopt;
  planned.space = *space;
  planned.rules = rules_text(request.planning, *inputs);
  const auto pricing = PlanPricing::of(
      {request.planning, request.memory, *inputs, *asked, *step, planned.space},
      diags);
  if (pricing == nullptr) return std::nullopt;
  progress.stage("searching for plans");
  const PlanCosts costs = pricing->costs();
  SearchBudget budget;
  budget.looks = space->experts > 1 ? kLooks / 3 : kLooks;
  budget.exact_looks = kExactLooks;
  budget.tolerance = kTolerance;
  budget.threads = thread_count(request.planning.jobs);
  planned.answer = search_plans(planned.space, request.objective, costs, budget,
                                request.shapes);
  for (const SourcePtr& text : request.why_not) {
    auto why = why_not(text, request, planned.space, planned.answer, costs,
                       budget, diags);
    if (!why) return std::nullopt;
    planned.why_not.push_back(*std::move(why));
  }
  planned.memory = request.memory;
  if (planned.answer.best.empty()) {
    planned.smallest = smallest_of(planned.space, costs, budget.threads);
    constexpr int64_t kMostTimesMore = 64;
    for (int64_t factor = 2; factor <= kMostTimesMore; factor *= 2) {
      if (request.fixed_mesh != nullptr || request.planning.topology) break;
      PlanSpace larger = planned.space;
      larger.devices *= factor;
      const auto more = PlanPricing::of(
          {request.planning, request.memory, *inputs, *asked, *step, larger},
          diags);
      if (more == nullptr) return std::nullopt;
      auto found = smallest_of(larger, more->costs(), budget.threads);
      if (!found || found->cost.verdict != PlanVerdict::Fits) continue;
      planned.with_more = std::move(found);
      planned.more_devices = larger.devices;
      break;
    }
    return planned;
  }
  planned.winner = verified(request, planned.space,
                            planned.answer.priced[planned.answer.best.front()],
                            host, diags, progress);
  if (!planned.winner) return std::nullopt;
  return planned;
}

}  // namespace shardplan
