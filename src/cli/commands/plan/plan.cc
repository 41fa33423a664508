// SPDX-License-Identifier: Apache-2.0
// `shardplan plan MODEL`: which mesh and which training setup are fastest.
#include "core/plan.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "base/checked.h"
#include "base/forwarding_host.h"
#include "base/text.h"
#include "base/words.h"
#include "cli/commands.h"
#include "cli/commands/plan/plan_tables.h"
#include "cli/commands/plan/request.h"
#include "cli/commands/plan/serving_tables.h"
#include "cli/commands/plan/written_plan.h"
#include "cli/commands/simulate/checked_run.h"
#include "cli/commands/workload/step.h"
#include "cli/flag_values.h"
#include "cli/flags.h"
#include "cli/options.h"
#include "cli/output.h"
#include "session/planning/planner.h"
#include "session/planning/serving_plan.h"
#include "session/serving.h"

namespace shardplan::cli {
namespace {

PlannerRequest planner_request(const Options& options) {
  PlannerRequest request = {options.planning, options.memory, options.workload};
  request.over = options.sweep.over;
  request.microbatches = options.sweep.microbatches;
  for (const Remat& remat : options.sweep.remat) {
    request.remats.push_back(remat_text(remat));
  }
  request.fixed_mesh = options.plan.fixed_mesh;
  request.forbidden = options.plan.forbidden;
  request.why_not = options.plan.why_not;
  request.keep = options.plan.keep;
  request.shapes = to_size(options.plan.top);
  if (options.sweep.objective == Objective::Memory &&
      options.gives("objective")) {
    request.objective = PlanObjective::Memory;
  }
  return request;
}

const PlanRequest& planning_of_best(const PlannedTraining& planned) {
  const ShownPlan& best = planned.shown.front();
  return (best.question ? *best.question : *planned.question).request.planning;
}

// Returns the best plan's rules as names that another command can read. A plan
// to which the search added a rule uses the file of --write-rules.
std::vector<std::string> named_rules(const Options& options,
                                     const PlannedTraining& planned) {
  if (planned.shown.front().question == nullptr) return options.planning.rules;
  const PlanRequest& own = planning_of_best(planned);
  if (own.rules != options.planning.rules) return own.rules;
  return {options.plan.write_rules.value_or("plan.yaml")};
}

std::vector<PlanFlag> all_flags(const Options& options,
                                const PlannedTraining& planned) {
  const MemoryRequest& memory = planned.question->request.memory;
  std::vector<PlanFlag> flags;
  for (const std::string& rules : named_rules(options, planned)) {
    flags.push_back({"rules", rules});
  }
  if (const auto& axes = planning_of_best(planned).axes; !axes.empty()) {
    flags.push_back({"axes", joined_of(axes, ",", &AxisName::text)});
  }
  append(flags,
         flags_of(planned.question->space, planned.shown.front().plan.point));
  append(flags,
         {{"batch", std::to_string(*memory.batch)},
          {"seq", std::to_string(*memory.seq)},
          {"optimizer", std::string(optimizer_name(memory.state.optimizer))}});
  for (const std::string& what : planned.question->request.offloads) {
    flags.push_back({"offload", what});
  }
  add_given_flags(options, flags);
  return flags;
}

// Returns the same axes on few devices, without pipeline stages, which a
// simulated run does not support.
PlanPoint shrunk(PlanPoint point) {
  constexpr int64_t kMaxSimulatedDevices = 32;
  point.of(PlanAxis::Stages) = 1;
  const auto devices = [&] {
    return std::accumulate(std::begin(point.sizes), std::end(point.sizes),
                           int64_t{1}, std::multiplies<>());
  };
  while (devices() > kMaxSimulatedDevices) {
    int64_t& longest = *std::ranges::max_element(point.sizes);
    int64_t factor = 2;
    while (longest % factor != 0) ++factor;
    if (longest == factor) break;
    longest /= factor;
  }
  if (point.expert_tensor > 1) point.expert_tensor = point.of(PlanAxis::Tensor);
  while (devices() % (point.experts * point.expert_tensor) != 0) {
    int64_t factor = 2;
    while (point.experts % factor != 0) ++factor;
    point.experts /= factor;
  }
  return point;
}

// Runs the plan on a model of smaller sizes and adds the verdict to the report.
//
// REQUIRES: a plan fits.
void verify(Context& context, const PlannedTraining& planned, Report& report) {
  const Mesh mesh = mesh_of(shrunk(planned.shown.front().plan.point));
  const std::string name = "the plan's rules";
  HostWithFile host(context.host, name, planned.winner->rules);
  Options options = context.options;
  options.memory = {};
  options.workload = {};
  PlanRequest& planning = options.planning;
  planning.rules = {name};
  planning.pattern = nullptr;
  planning.dialect.reset();
  planning.topology.reset();
  planning.devices.reset();
  planning.slices.reset();
  planning.mesh =
      std::make_shared<SourceFile>("--mesh", axes_text(mesh.axes()));
  for (const MeshView& view : mesh.views()) {
    planning.views.push_back(std::make_shared<SourceFile>(
        "--view", view.name + ":" + axes_text(view.axes)));
  }
  Diagnostics own = context.diags.fresh();
  Context of_run{options, host, own, context.progress};
  const auto run = checked_run(of_run);
  if (!run) {
    std::string why;
    for (const Diagnostic& each : own.all()) {
      if (each.severity == Severity::Error && why.empty()) why = each.message;
    }
    report.notes.push_back("not verified by simulation: " + why);
    return;
  }
  // A mismatch means that the plan or shardplan's partitioner is wrong.
  SHARDPLAN_CHECK(run->verdict != Verdict::Mismatch);
  report.notes.push_back("simulated with smaller sizes on " +
                         axes_text(mesh.axes()) + ": " + run->text);
}

// Reports flags for training that are given when planning for serving.
bool check_kind(const Options& options, bool serves, Diagnostics& diags) {
  constexpr std::string_view kOfTraining =
      "batch over optimizer microbatches remat keep forbid verify write-rules "
      "plot";
  for (const auto& [flag, value] : options.given) {
    if (!serves || !has_word(kOfTraining, flag)) continue;
    diags
        .error(Code::Usage, {},
               "`--" + std::string(flag) + "` applies only to training plans")
        .help(flag == "batch"
                  ? "`--concurrency` sets the number of concurrent requests"
                  : "leave it out with an engine");
    return false;
  }
  for (const std::string_view flag : {"max-ttft", "max-tpot"}) {
    if (serves || !options.gives(flag)) continue;
    diags
        .error(Code::Usage, {},
               "`--" + std::string(flag) + "` applies only to serving")
        .help("add `--mode decode` and `--engine vllm`");
    return false;
  }
  if (serves && options.gives("objective") &&
      options.sweep.objective != Objective::TokensPerSecond) {
    diags
        .error(Code::Usage, {},
               "with an engine, `plan` maximizes tokens per second")
        .help("leave out `--objective`");
    return false;
  }
  return serves || check_engine_request(options.engine, options.memory,
                                        options.planning, diags);
}

Exit plan_server(Context& context) {
  const Options& options = context.options;
  const ServingPlanRequest request = {
      options.planning,        options.memory,        options.workload,
      options.engine,          options.plan.max_ttft, options.plan.max_tpot,
      options.plan.fixed_mesh, options.plan.why_not};
  const auto planned =
      plan_serving(request, context.host, context.diags, context.progress);
  if (!planned) return Exit::CouldNotRun;
  Report report;
  add_serving_plan(*planned, options.plan.top, report);
  const bool serves =
      !planned->layouts.empty() && planned->layouts.front().is_good();
  if (serves) {
    std::vector<PlanFlag> flags =
        flags_of(planned->request, planned->layouts.front());
    add_given_flags(options, flags);
    if (!hand_over(context, flags, report)) return Exit::CouldNotRun;
  }
  return finish(context, std::move(report), !serves);
}

}  // namespace

Exit run_plan(Context& context) {
  const bool serves = context.options.engine.name.has_value() ||
                      context.options.planning.mode != Mode::Train;
  if (!check_kind(context.options, serves, context.diags)) {
    return Exit::CouldNotRun;
  }
  if (serves) return plan_server(context);
  const auto planned =
      plan_training(planner_request(context.options), context.host,
                    context.diags, context.progress);
  if (!planned) return Exit::CouldNotRun;
  Report report;
  add_plan(*planned, report);
  if (!planned->winner) return finish(context, std::move(report), true);
  if (context.options.plan.verify) verify(context, *planned, report);
  if (const auto& path = context.options.plan.write_rules) {
    if (!write_file(context, *path, planned->winner->rules)) {
      return Exit::CouldNotRun;
    }
    report.notes.push_back("wrote rules, mesh and views to " +
                           in_backticks(*path));
  }
  if (!hand_over(context, all_flags(context.options, *planned), report)) {
    return Exit::CouldNotRun;
  }
  return finish(context, std::move(report));
}

std::vector<Flag> plan_flags() {
  return {
      {"fix-mesh", Takes::Text, "AXES", "Inputs",
       "plan for this mesh: dp=8,fsdp=4,tp=2, major to minor", "plan",
       [](auto& s, auto& o, auto&) { o.plan.fixed_mesh = source_of(s); }, false,
       false},
      {"why-not", Takes::Text, "MESH|NAME=SPEC|RULES", "Inputs",
       "why this mesh, spec or rules file is not the plan; may repeat", "plan",
       [](auto& s, auto& o, auto&) { o.plan.why_not.push_back(source_of(s)); },
       true, false},
      {"keep", Takes::File, "RULES", "Inputs",
       "compare with the best plan under these rules; may repeat", "plan",
       [](auto& s, auto& o, auto&) { o.plan.keep.push_back(path_of(s)); }, true,
       false},
      {"forbid", Takes::Text, "PATTERN=SPEC", "Inputs",
       "exclude plans with this placement: 'lm_head=P(tp, fsdp)'; may "
       "repeat",
       "plan",
       [](auto& s, auto& o, auto&) {
         o.plan.forbidden.push_back(source_of(s));
       },
       true, false},
      {"max-ttft", Takes::Text, "SECONDS", "Memory",
       "upper limit for time to first token", "plan",
       [](auto& s, auto& o, auto& d) { o.plan.max_ttft = number_of(s, d); },
       false, false},
      {"max-tpot", Takes::Text, "SECONDS", "Memory",
       "upper limit for time per output token", "plan",
       [](auto& s, auto& o, auto& d) { o.plan.max_tpot = number_of(s, d); },
       false, false},
      {"verify", Takes::Nothing, "", "Inputs",
       "also run the plan on a smaller model against the unsharded one", "plan",
       [](auto&, auto& o, auto&) { o.plan.verify = true; }, false, false},
      {"top", Takes::Text, "K", "Output",
       "plans to show, one per shape (default 5)", "plan",
       [](auto& s, auto& o, auto& d) {
         o.plan.top = integer_of(s, 1, 1000, d).value_or(5);
       },
       false, false},
      {"write-rules", Takes::File, "FILE", "Output",
       "write the plan's rules, with mesh and views", "plan",
       [](auto& s, auto& o, auto&) { o.plan.write_rules = path_of(s); }, false,
       false},
      {"write-config", Takes::File, "FILE", "Output",
       "write a shardplan.yaml with the plan as a target", "plan",
       [](auto& s, auto& o, auto&) { o.plan.write_config = path_of(s); }, false,
       false},
  };
}

}  // namespace shardplan::cli
