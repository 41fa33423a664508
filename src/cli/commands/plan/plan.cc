// SPDX-License-Identifier: Apache-2.0
// `shardplan plan MODEL`: which mesh, and which way to train on it.
#include "core/plan.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/text.h"
#include "base/words.h"
#include "cli/commands.h"
#include "cli/commands/plan/plan_tables.h"
#include "cli/commands/plan/request.h"
#include "cli/commands/workload/step.h"
#include "cli/flag_values.h"
#include "cli/flags.h"
#include "cli/options.h"
#include "cli/output.h"
#include "session/planner.h"

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
  request.why_not = options.plan.why_not;
  request.shapes = static_cast<size_t>(options.plan.top);
  if (options.sweep.objective == Objective::Memory &&
      contains(options.given, std::string_view("objective"))) {
    request.objective = PlanObjective::Memory;
  }
  return request;
}

// "shardplan analyze config.json --rules @llama --mesh .."
std::string command_text(const Context& context, const PlannedTraining& planned,
                         const std::string& flags) {
  const Options& options = context.options;
  std::string text = "shardplan analyze " + options.arguments.front();
  for (const std::string& rules : options.planning.rules) {
    text += " --rules " + rules;
  }
  const auto& topology = options.planning.topology;
  text += " " + flags +
          (topology ? " --topology " + topology->name
                    : " --hardware " + *options.memory.hardware) +
          " --batch " + std::to_string(*planned.memory.batch) + " --seq " +
          std::to_string(*planned.memory.seq) + " --optimizer " +
          std::string(optimizer_name(planned.memory.state.optimizer));
  const FrameworkDef& framework = *options.workload.step.framework;
  if (framework.is_known()) {
    text += " --framework " + std::string(framework.name);
  }
  return text;
}

// Flags that say more of the step or of the model than the command has.
std::vector<std::string> further_flags(const Options& options) {
  constexpr std::string_view kSaid =
      "hardware topology devices batch seq optimizer framework rules over "
      "fix-mesh why-not objective remat microbatches jobs max-memory config "
      "isolated mode";
  std::vector<std::string> flags;
  for (const std::string_view name : options.given) {
    const Flag* const flag = find_flag(name);
    const bool counts = flag != nullptr &&
                        (flag->group == "Inputs" || flag->group == "Memory") &&
                        !has_word(kSaid, name);
    std::string text = "`--" + std::string(name) + "`";
    if (counts && !contains(flags, text)) flags.push_back(std::move(text));
  }
  return flags;
}

}  // namespace

Exit run_plan(Context& context) {
  const PlannerRequest request = planner_request(context.options);
  const auto planned =
      plan_training(request, context.host, context.diags, context.progress);
  if (!planned) return Exit::CouldNotRun;
  Report report;
  report.command = "plan";
  report.diagnostics = &context.diags;
  add_plan(*planned, request, context.options.plan.top, report);
  if (!planned->winner) {
    const Exit exit = finish(context, std::move(report));
    return exit == Exit::Fine ? Exit::Findings : exit;
  }
  const PricedPlan& best = planned->answer.priced[planned->answer.best.front()];
  report.next_step =
      command_text(context, *planned, flags_of(planned->space, best.point));
  if (const auto more = further_flags(context.options); !more.empty()) {
    report.notes.push_back("the command below says the same with " +
                           joined(more, ", ", " and ") + " as given here");
  }
  if (const auto& path = context.options.plan.write_rules) {
    const std::string& rules = planned->winner->rules;
    if (!write_file(context, *path,
                    [&](const TextSink& sink) { return sink(rules); })) {
      return Exit::CouldNotRun;
    }
    report.notes.push_back("rules, with mesh and views, are in " +
                           in_backticks(*path));
  }
  return finish(context, std::move(report));
}

const std::vector<Flag>& plan_flags() {
  static const std::vector<Flag> kFlags = {
      {"fix-mesh", Takes::Text, "AXES", "Inputs",
       "the mesh to plan for: dp=8,fsdp=4,tp=2, major to minor", "plan",
       [](auto& s, auto& o, auto&) {
         o.plan.fixed_mesh =
             std::make_shared<SourceFile>("--fix-mesh", s.value);
       },
       false, false},
      {"why-not", Takes::Text, "AXES", "Inputs",
       "a mesh that might have been the plan: what is wrong with it; may "
       "repeat",
       "plan",
       [](auto& s, auto& o, auto&) {
         o.plan.why_not.push_back(
             std::make_shared<SourceFile>("--why-not", s.value));
       },
       true, false},
      {"top", Takes::Text, "K", "Output",
       "plans to show, each of another shape (default 5)", "plan",
       [](auto& s, auto& o, auto& d) {
         o.plan.top = integer_of(s, 1, 1000, d).value_or(5);
       },
       false, false},
      {"write-rules", Takes::File, "FILE", "Output",
       "write the plan's rules to FILE, with its mesh and views", "plan",
       [](auto& s, auto& o, auto&) { o.plan.write_rules = path_of(s); }, false,
       false},
  };
  return kFlags;
}

}  // namespace shardplan::cli
