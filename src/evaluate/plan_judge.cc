// SPDX-License-Identifier: Apache-2.0
#include "evaluate/plan_judge.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <utility>

#include "base/checked.h"
#include "base/text.h"
#include "base/words.h"
#include "evaluate/evaluate.h"
#include "evaluate/fit.h"
#include "findings/findings.h"
#include "memory/zero.h"
#include "model/units.h"
#include "serve/engine.h"

namespace shardplan {
namespace {

// Stages hold different layers, so no tensor of a layer is sharded over their
// axis.
bool check_stage_axis(const std::optional<Stages>& stages, const KvAxes& axes,
                      Diagnostics& diags) {
  if (!stages) return true;
  for (const AxisNames* names :
       {&axes.heads, &axes.batch, &axes.sequence, &axes.states}) {
    if (!contains(*names, stages->axis)) continue;
    diags
        .error(Code::Usage, {},
               "axis `" + stages->axis +
                   "` is given to `--stages`, but also shards the KV cache")
        .help(
            "give other axes to `--kv-axes`, `--batch-axes` or "
            "`--sequence-axes`");
    return false;
  }
  return true;
}

// Checks the axes that shard a step's tokens: they must be axes of the mesh, or
// declared axes, which have size 1.
bool check_token_axes(const AskedMemory& asked, const Plan& plan,
                      Diagnostics& diags) {
  const std::array<std::pair<std::string_view, const AxisNames*>, 3> lists = {
      {{"`--batch-axes`", &asked.axes.batch},
       {"`--sequence-axes`", &asked.axes.sequence},
       {"`--ulysses-axes`", &asked.ulysses_axes}}};
  for (const auto& [flag, axes] : lists) {
    for (const AxisName& axis : *axes) {
      if (plan.mesh.has({}, axis) || contains(plan.declared_axes, axis)) {
        continue;
      }
      auto problem =
          diags.error(Code::Usage, {},
                      std::string(flag) + " names " + in_backticks(axis) +
                          ", which is not an axis of the mesh");
      problem.fact("mesh: " + mesh_text(plan.mesh));
      if (plan.mesh.find(axis)) {
        problem.fact(
            "it is an axis of a view, but tokens are sharded over axes of the "
            "mesh");
      }
      problem.help("name axes of the mesh, separated by commas");
      return false;
    }
  }
  return true;
}

// Experts placed whole are counted per layer and divided among the ranks. That
// is exact only if all experts of a layer have the same state.
bool has_alike_experts(const Manifest& manifest, const Plan& plan,
                       const StateSpecs& specs, Diagnostics& diags) {
  const auto is_counted = [](const Placement& placement) {
    return placement.dealt && placement.dealt->rank < 0;
  };
  if (std::ranges::none_of(plan.placements, is_counted)) return true;
  const std::vector<ExpertTensor> tensors =
      expert_tensors(manifest, specs.kind_of);
  for (size_t i = 0; i < manifest.size(); ++i) {
    if (!is_counted(plan.of(i)) || tensors[i].alike) continue;
    diags
        .error(Code::Usage, manifest.where(i),
               "all experts of a layer need the same training state, but " +
                   in_backticks(manifest.name(i)) +
                   " is trained or placed differently")
        .help(
            "make `--trainable`, `--optimizer-of` and `--state-rules` match "
            "all experts of a layer or none");
    return false;
  }
  return true;
}

// Sets the kinds of leaves: from state rules if there are any, else from which
// parameters are trained.
bool place_state(const Asked& asked, const Plan& plan, HeldInput& held,
                 Diagnostics& diags) {
  const AskedMemory& memory = asked.memory;
  const Manifest& manifest = asked.model.manifest;
  std::optional<StateSpecs> specs;
  if (memory.state_rules) {
    const StateRules& by = *memory.state_rules;
    ResolveOptions how = by.resolving;
    how.on_indivisible = plan.on_indivisible;
    specs = resolve_state_rules(manifest, plan, held.options.state, by.rules,
                                how, memory.trained, memory.group_of, diags);
    // Reports findings about state rules like findings about parameter rules.
    if (!specs ||
        !judge_plan(Model(specs->leaves), &by.rules, specs->plan, by.linting,
                    std::array{Needs::Names, Needs::Specs}, diags)) {
      return false;
    }
    for (const SourcePtr& source : by.rules.sources) diags.add_source(source);
  } else if (!frozen_of(manifest, memory.trained).empty() ||
             !memory.group_of.empty()) {
    specs = kinds_by_training(plan, memory.trained, memory.group_of);
  } else {
    return true;
  }
  held.state_specs = std::make_unique<StateSpecs>(*std::move(specs));
  held.options.state_specs = held.state_specs.get();
  return has_alike_experts(manifest, plan, *held.state_specs, diags);
}

// Returns the bytes of cache that exactly fill the fullest device.
// Fragmentation adds ceil(S x f) to a sum S, and S + ceil(S x f) <= A if and
// only if S <= A / (1 + f).
int64_t room_for_cache(const BudgetOptions& options, const Budget& budget) {
  constexpr int64_t kMillion = 1'000'000;  // make_budget's precision of the
                                           // fraction
  const Int128 lost = std::llround(options.fragmentation * kMillion);
  const Int128 usable = options.limit->usable - options.reserve;
  const CategoryBytes& bytes = budget.classes.front().bytes;
  int64_t others = budget.classes.front().total;
  for (const Category category : {Category::KvCache, Category::RecurrentState,
                                  Category::Fragmentation, Category::Reserve}) {
    others -= nth(bytes, category);
  }
  if (usable < 0) return -1;
  return static_cast<int64_t>(usable * kMillion / (kMillion + lost)) - others;
}

constexpr std::array<std::string_view, 3> kEngineDataAxes = {"dp", "data",
                                                             "replica"};

// Returns the axes of a view without the stage axis and axes of size 1. Every
// data-parallel axis is renamed to `dp`, so that names do not matter.
std::vector<Axis> compared_axes(const MeshView& view, const AxisName& stages) {
  std::vector<Axis> axes;
  for (const Axis& axis : view.axes) {
    if (axis.size == 1 || axis.name == stages) continue;
    axes.push_back(axis);
    if (is_data_axis(axis.name)) axes.back().name = "dp";
  }
  return axes;
}

// Returns "`experts:ep=8`", as the engine lays it out; "" if it has no such
// view.
std::string engine_view_text(const Mesh& layout, const std::string& view) {
  if (!layout.has_view(view)) return "";
  return in_backticks(view + ":" + axes_text(layout.axes_of(view)));
}

// Returns the first view of the mesh that is not one of the engine's own.
const MeshView* foreign_view(const Mesh& mesh, const Mesh& layout,
                             const AxisName& stages) {
  const auto is_foreign = [&](const MeshView& view) {
    if (!layout.has_view(view.name)) return true;
    const MeshView own{view.name, layout.axes_of(view.name)};
    return compared_axes(view, stages) != compared_axes(own, "pp");
  };
  const auto found = std::ranges::find_if(mesh.views(), is_foreign);
  return found == mesh.views().end() ? nullptr : &*found;
}

// Applies the requested views, another way to request an expert layout. Reports
// a view that the engine cannot lay out.
std::optional<EngineMesh> with_asked_views(const ServingInput& asked,
                                           const EngineMesh& of,
                                           const Mesh& mesh,
                                           Diagnostics& diags) {
  const AxisName stages = asked.stages ? asked.stages->axis : AxisName();
  EngineMesh dealt = of;
  dealt.expert_parallel = true;
  const Mesh layout = layout_of(*asked.engine, of);
  const Mesh dealt_layout = layout_of(*asked.engine, dealt);
  const MeshView* const foreign = foreign_view(mesh, layout, stages);
  if (foreign == nullptr) return of;
  if (foreign_view(mesh, dealt_layout, stages) == nullptr) return dealt;
  const std::string title(asked.engine->title);
  auto report =
      diags.error(Code::Usage, {},
                  title + " does not shard a model as view `" + foreign->name +
                      ":" + axes_text(foreign->axes) + "`");
  const std::string own = engine_view_text(layout, foreign->name);
  const std::string with = engine_view_text(dealt_layout, foreign->name);
  if (own.empty()) {
    report.help("leave out the view `" + foreign->name + "`");
  } else if (own == with) {
    report.help("write `--view " + own.substr(1));
  } else {
    report.fact("on " + mesh_text(mesh) + " each expert is sharded: " + own);
    report.fact("with `--expert-parallel` each rank holds whole experts: " +
                with);
    report.help("use `--expert-parallel` instead of the view");
  }
  return report;
}

// Returns the degrees over which the engine shards a model on this mesh.
std::optional<EngineMesh> engine_mesh(const ServingInput& asked,
                                      const Mesh& mesh, Diagnostics& diags) {
  EngineMesh of = asked.mesh;
  for (const Axis& axis : mesh.axes()) {
    if (axis.size == 1) continue;
    if (asked.stages && asked.stages->axis == axis.name) {
      of.pp *= axis.size;
    } else if (is_tensor_axis(axis.name)) {
      of.tp *= axis.size;
    } else if (contains(kEngineDataAxes, axis.name)) {
      of.dp *= axis.size;
    } else {
      return diags
          .error(Code::Usage, {},
                 std::string(asked.engine->title) + " does not shard over `" +
                     axis.name + "`")
          .help(
              "use `tp`, `dp` and, with `--stages pp`, `pp`; "
              "`--expert-parallel` places whole experts over them");
    }
  }
  if (mesh.views().empty()) return of;
  return with_asked_views(asked, of, mesh, diags);
}

}  // namespace

const std::shared_ptr<const LayerGroups>& LayerCache::of(
    const Manifest& manifest, const std::vector<uint32_t>& kinds) {
  if (groups == nullptr || kind_of != kinds) {
    groups = std::make_shared<const LayerGroups>(layer_groups(manifest, kinds));
    kind_of = kinds;
  }
  return groups;
}

std::unique_ptr<PlanJudge> PlanJudge::of(const Asked& asked, const Plan& plan,
                                         LayerCache& layers,
                                         Diagnostics& diags) {
  std::unique_ptr<PlanJudge> judge(new PlanJudge(asked, plan));
  if (asked.served != nullptr) return judge;
  auto held = judge->hold(asked.memory.options.state, layers, diags);
  if (!held) return nullptr;
  judge->held_ = *std::move(held);
  return judge;
}

std::optional<HeldInput> PlanJudge::hold(const StateOptions& state,
                                         LayerCache& layers,
                                         Diagnostics& diags) const {
  const AskedMemory& asked = asked_.memory;
  const Manifest& manifest = asked_.model.manifest;
  HeldInput held;
  held.options = asked.options;
  held.options.state = state;
  if (asked.workload) {
    if (!check_token_axes(asked, plan_, diags)) return std::nullopt;
    held.options.state.token_axes =
        step_token_axes(asked, asked_.rules, plan_.mesh);
  }
  if (held.options.kv) {
    held.kv_axes =
        kv_axes(manifest, asked.heads, asked.states, plan_, asked.axes, diags);
    if (!held.kv_axes ||
        !check_stage_axis(asked.options.stages, *held.kv_axes, diags)) {
      return std::nullopt;
    }
    held.options.kv_sharding = kv_sharding(plan_.mesh, *held.kv_axes);
  }
  if (!check_state_options(held.options.state, plan_.mesh, diags) ||
      !place_state(asked_, plan_, held, diags)) {
    return std::nullopt;
  }
  held.groups = layers.of(manifest, held.state_specs ? held.state_specs->kind_of
                                                     : plan_.placement_of);
  return held;
}

const HeldInput* PlanJudge::held_for(const Candidate& candidate,
                                     Diagnostics& diags) {
  const AskedMemory& asked = asked_.memory;
  if (!candidate.state || !asked.state_rules ||
      candidate.state->optimizer == asked.options.state.optimizer) {
    return &held_;
  }
  if (other_of_ != candidate.state->optimizer) {
    LayerCache own;
    other_problems_ = {};
    other_ = hold(*candidate.state, own, other_problems_);
    other_of_ = candidate.state->optimizer;
  }
  if (other_) return &*other_;
  diags.add_all(other_problems_);
  return nullptr;
}

Workload PlanJudge::workload_of(const Candidate& candidate) const {
  if (candidate.workload) return *candidate.workload;
  return asked_.memory.workload.value_or(Workload());
}

BudgetOptions PlanJudge::options_of(const Candidate& candidate,
                                    const HeldInput& held) {
  BudgetOptions how = held.options;
  if (candidate.state) {
    AxisNames token_axes = std::move(how.state.token_axes);
    how.state = *candidate.state;
    how.state.token_axes = std::move(token_axes);
  }
  if (candidate.device) {
    how.limit = candidate.device->limit;
    how.reserve = candidate.device->reserve;
  }
  if (how.kv && candidate.workload) {
    how.kv->batch = candidate.workload->batch;
    how.kv->seq = candidate.workload->seq;
  }
  if (how.stages && !candidate.stage_layers.empty()) {
    how.stages->layers = candidate.stage_layers;
  }
  return how;
}

StepOptions PlanJudge::step_of(const Candidate& candidate) const {
  const AskedMemory& asked = asked_.memory;
  return asked_.step->sized(
      candidate.step ? *candidate.step : asked.step,
      candidate.state ? *candidate.state : asked.options.state,
      candidate.device ? candidate.device->hardware : asked.hardware,
      asked.options.stages.has_value());
}

Steps& PlanJudge::steps() {
  if (!steps_) {
    steps_.emplace(asked_.memory, *asked_.step, asked_.model.manifest, plan_,
                   asked_.rules);
  }
  return *steps_;
}

std::vector<DivisionProblem> PlanJudge::refused(const Candidate& candidate) {
  if (asked_.step == nullptr) return {};
  const StepOptions step = step_of(candidate);
  std::optional<StagePlan> made;
  const auto stages = options_of(candidate, held_).stages;
  if (stages && step.schedule == PipelineSchedule::Interleaved) {
    Diagnostics known;  // the budget of the stages reports problems
    made = stages_of_plan(asked_.model.manifest, plan_, *held_.groups, *stages,
                          known);
  }
  return steps().refused(workload_of(candidate), step, made ? &*made : nullptr);
}

std::vector<std::string> PlanJudge::report_shapes(const Candidate& candidate,
                                                  Diagnostics& diags) {
  const StepOptions step = step_of(candidate);
  ShapedLayers shaped = steps().by_shapes(workload_of(candidate), step);
  report_by_shapes(asked_.model.manifest, shaped, step.segments.attention,
                   diags);
  return std::move(shaped.left_out);
}

std::optional<Budget> PlanJudge::budget(const Candidate& candidate,
                                        Diagnostics& diags) {
  const HeldInput* const held = held_for(candidate, diags);
  if (held == nullptr) return std::nullopt;
  return make_budget(asked_.model.manifest, plan_, *held->groups,
                     options_of(candidate, *held), diags);
}

std::optional<JudgedStep> PlanJudge::step(const Candidate& candidate,
                                          const Budget& budget,
                                          Diagnostics& diags) {
  const HeldInput* const held = held_for(candidate, diags);
  if (held == nullptr) return std::nullopt;
  return steps().judge(workload_of(candidate), options_of(candidate, *held),
                       budget, step_of(candidate), card_of(candidate), diags);
}

const HardwareProfile* PlanJudge::card_of(const Candidate& candidate) const {
  return (candidate.device ? candidate.device->card : asked_.memory.card).get();
}

std::optional<InferenceTimes> PlanJudge::inference(
    const Candidate& candidate, const Serving* serving,
    const Diagnostics& like) const {
  const AskedMemory& memory = asked_.memory;
  const HardwareProfile* const card = card_of(candidate);
  if (asked_.passes == nullptr || card == nullptr || !memory.options.kv) {
    return std::nullopt;
  }
  if (serving == nullptr && memory.on_slices) {
    InferenceTimes none;
    none.untimed = std::string(kSlicesUntimed);
    return none;
  }
  KvRequest kv = *memory.options.kv;
  if (candidate.workload) {
    kv.batch = candidate.workload->batch;
    kv.seq = candidate.workload->seq;
  }
  const InferenceQuestion question = {asked_.model, *asked_.passes, memory, kv,
                                      *card};
  return serving != nullptr
             ? engine_inference(question, *serving, like)
             : plan_inference(question, plan_, asked_.rules, like);
}

std::optional<ServingInput> PlanJudge::serving_of(const Candidate& candidate,
                                                  Diagnostics& diags) const {
  if (candidate.serving) return candidate.serving;
  ServingInput input = *asked_.memory.serving;
  const auto mesh = engine_mesh(input, plan_.mesh, diags);
  if (!mesh) return std::nullopt;
  input.mesh = *mesh;
  input.devices = &plan_.mesh;
  if (candidate.device) input.device = *candidate.device->limit;
  if (candidate.workload) {
    input.batch = candidate.workload->batch;
    input.seq = candidate.workload->seq;
  }
  return input;
}

std::optional<Serving> PlanJudge::serving(const Candidate& candidate,
                                          Diagnostics& diags) const {
  const auto input = serving_of(candidate, diags);
  if (!input) return std::nullopt;
  return serve(*asked_.served, *input, diags);
}

std::optional<Judgement> PlanJudge::judge(const Candidate& candidate,
                                          Diagnostics& diags) {
  Judgement judgement;
  if (asked_.served != nullptr) {
    judgement.serving = serving(candidate, diags);
    if (!judgement.serving) return std::nullopt;
    judgement.fit = fit_of(*judgement.serving);
    return judgement;
  }
  judgement.budget = budget(candidate, diags);
  if (!judgement.budget) return std::nullopt;
  judgement.fit = fit_of(*judgement.budget, nullptr);
  if (asked_.step == nullptr) return judgement;
  judgement.step = step(candidate, *judgement.budget, diags);
  if (!judgement.step) return std::nullopt;
  judgement.fit = judgement.step->fit;
  return judgement;
}

std::optional<WorkloadHeadroom> PlanJudge::headroom(const Candidate& candidate,
                                                    const Budget& budget) {
  Diagnostics known;  // the budget has reported them
  const HeldInput* const held = held_for(candidate, known);
  if (held == nullptr) return std::nullopt;
  const BudgetOptions how = options_of(candidate, *held);
  if (!how.kv || !how.limit) return std::nullopt;
  if (!how.stages) {
    const auto layers = kv_layers(asked_.model.manifest.facts);
    if (!layers) return WorkloadHeadroom();
    const int64_t room = room_for_cache(how, budget);
    return WorkloadHeadroom{largest_that_fits(&KvRequest::batch, *layers,
                                              how.kv_sharding, *how.kv, room),
                            largest_that_fits(&KvRequest::seq, *layers,
                                              how.kv_sharding, *how.kv, room)};
  }
  // The fullest stage may change as the cache grows.
  const auto largest = [&](int64_t Workload::*count) {
    return largest_count([&](int64_t value) {
      Candidate larger = candidate;
      larger.workload = Workload{how.kv->batch, how.kv->seq};
      (*larger.workload).*count = value;
      Diagnostics ignored;  // nothing beyond 63 bits fits
      const auto tried = this->budget(larger, ignored);
      return tried && tried->fits();
    });
  };
  return WorkloadHeadroom{largest(&Workload::batch), largest(&Workload::seq)};
}

}  // namespace shardplan
