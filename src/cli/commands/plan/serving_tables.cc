// SPDX-License-Identifier: Apache-2.0
// The report of `plan` for serving.
#include "cli/commands/plan/serving_tables.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/text.h"
#include "base/words.h"
#include "cli/commands/plan/plan_tables.h"
#include "cli/commands/workload/step.h"

namespace shardplan::cli {
namespace {

MeshCell mesh_cell(const ServingPlan& plan) {
  std::vector<Axis> axes;
  for (const auto& [name, size] : {std::pair("pp", plan.mesh.pp),
                                   {"dp", plan.mesh.dp},
                                   {"tp", plan.mesh.tp}}) {
    axes.push_back({name, size});
  }
  return MeshCell{Mesh(std::move(axes))};
}

// Returns "4 groups of 2 devices, tensor parallel over 2, 96 requests at once".
std::string way_text(const ServingPlan& plan) {
  const EngineMesh& mesh = plan.mesh;
  std::vector<std::string> parts;
  if (mesh.dp > 1) {
    parts.push_back(count_text(mesh.dp) + " groups of " +
                    plural(mesh.tp * mesh.pp, "device"));
  }
  if (mesh.tp > 1)
    parts.push_back("tensor parallel over " + count_text(mesh.tp));
  if (mesh.pp > 1) parts.push_back(count_text(mesh.pp) + " stages");
  if (mesh.expert_parallel) parts.emplace_back("expert parallel");
  if (mesh.dp_attention) parts.emplace_back("data-parallel attention");
  parts.push_back(plural(plan.requests, "concurrent request"));
  return joined(parts, ", ");
}

bool has_times(const ServingPlan& plan) { return plan.tokens_per_second > 0; }

std::string reason_of(const ServingPlan& plan) {
  if (!plan.reason.empty()) return plan.reason;
  return plan.verdict == PlanVerdict::MayFit
             ? "may not fit: the cache holds a request only in the best case"
             : "does not fit";
}

// Only some keys of a training plan apply to serving.
NamedCells cells_of(const ServingPlan& plan) {
  return {{"mesh", mesh_cell(plan)},
          {"views", Cell()},
          {"remat", Cell()},
          {"microbatches", Cell()},
          {"zero", Cell()},
          {"stages", Count{plan.mesh.pp}},
          {"stage_layers", Cell()},
          {"schedule", Cell()},
          {"sequence_axes", Cell()},
          {"memory_bracket", Cell()},
          {"step_time", Cell()},
          {"tokens_per_second", Ratio{plan.tokens_per_second}},
          {"mfu", Cell()},
          {"limited_by", plan.limited_by},
          {"rules", Cell()},
          {kServingKeys[0], YesNo{plan.mesh.expert_parallel}},
          {kServingKeys[1], YesNo{plan.mesh.dp_attention}},
          {kServingKeys[2], Count{plan.requests}},
          {kServingKeys[3], duration_bracket(plan.first_token)},
          {kServingKeys[4], duration_bracket(plan.next_token)},
          {kServingKeys[5], Count{plan.sequences}}};
}

// Returns the layouts that can serve the workload, the best first.
std::vector<const ServingPlan*> good_ones(const PlannedServing& planned) {
  std::vector<const ServingPlan*> good;
  for (const ServingPlan& plan : planned.layouts) {
    if (plan.is_good()) good.push_back(&plan);
  }
  return good;
}

void add_summary(const PlannedServing& planned, Report& report) {
  const auto good = good_ones(planned);
  const ServingPlan* const best = good.empty() ? nullptr : good.front();
  const auto add = [&](const char* key, Cell cell) {
    report.summary.emplace_back(key, std::move(cell));
  };
  add("objective", "tokens-per-second");
  // Every layout was evaluated, so the best value is also the bound.
  const Cell value = best ? Cell(Ratio{best->tokens_per_second}) : Cell();
  add("value", value);
  add("lower_bound", value);
  add("gap", best ? Cell(Ratio{0}) : Cell());
  add_best(cells_of(best ? *best : ServingPlan()), best != nullptr, report);
  add("considered", Count{planned.considered});
  const auto count = [&](auto is) {
    return Count{std::ranges::count_if(planned.layouts, is)};
  };
  add("illegal", count([](const ServingPlan& plan) {
        return plan.verdict == PlanVerdict::Illegal;
      }));
  add("unfit", count([](const ServingPlan& plan) {
        return plan.verdict == PlanVerdict::Unfit ||
               plan.verdict == PlanVerdict::MayFit;
      }));
  add("priced", Count{planned.considered});
  add("fits", YesNo{best != nullptr});
  add("fingerprint", Cell());
}

void add_plans(const PlannedServing& planned, int64_t top, Report& report) {
  const auto good = good_ones(planned);
  std::vector<Row> people;
  std::vector<NamedCells> plans;
  for (size_t i = 0; i < good.size() && std::ssize(people) < top; ++i) {
    const ServingPlan& plan = *good[i];
    const bool tie =
        plan.tokens_per_second * (1 + kTie) >= good.front()->tokens_per_second;
    people.push_back(
        {rank_text(i, tie), mesh_text(plan.mesh),
         Count{std::llround(plan.tokens_per_second)},
         Duration{plan.first_token.estimate},
         Duration{plan.next_token.estimate}, Count{plan.requests},
         ByteSize{plan.weights},
         Prose{way_text(plan) + "; limited by " + plan.limited_by}});
    plans.push_back(ranked_cells(i, tie, cells_of(plan)));
  }
  report.tables.push_back(
      {"best_servers",
       "Best number of requests for each layout",
       {left("rank", ""), elastic("mesh"),
        right("tokens_per_second", "tokens/s"), right("first", "first token"),
        right("next", "per token"), right("requests"), right("weights"),
        below("way", "")},
       rows_of(std::move(people)),
       Audience::People});
  report.tables.push_back(plans_table(plans));
}

void add_rejected(const PlannedServing& planned, Report& report) {
  std::map<std::string, std::pair<int64_t, const ServingPlan*>> reasons;
  for (const ServingPlan& plan : planned.layouts) {
    if (plan.is_good()) continue;
    auto& [count, example] =
        reasons.try_emplace(reason_of(plan), 0, &plan).first->second;
    ++count;
  }
  std::vector<Row> people;
  std::vector<Row> programs;
  for (const auto& [reason, of] : reasons) {
    const std::string example = mesh_text(of.second->mesh);
    people.push_back({Count{of.first}, reason + ", such as " + example});
    programs.push_back({Prose{reason}, Count{of.first}, example});
  }
  if (!people.empty()) {
    report.tables.push_back({"why_others_are_not",
                             "Why other layouts were rejected",
                             {right("count", "layouts"), elastic("reason")},
                             rows_of(std::move(people)),
                             Audience::People});
  }
  report.tables.push_back({"rejected",
                           "Rejected",
                           {left("reason"), left("count"), left("example")},
                           rows_of(std::move(programs)),
                           Audience::Programs});
}

void add_why_not(const PlannedServing& planned, Report& report) {
  if (planned.why_not.empty()) return;
  const auto good = good_ones(planned);
  std::vector<Row> rows;
  for (const ServingPlan& plan : planned.why_not) {
    std::string verdict = plan.verdict == PlanVerdict::Illegal ? "illegal"
                          : plan.verdict == PlanVerdict::Fits  ? "worse"
                                                               : "unfit";
    std::string text;
    if (!plan.is_good()) {
      text = reason_of(plan);
    } else if (good.front()->mesh == plan.mesh) {
      verdict = "chosen";
      text = "this is the plan";
    } else {
      const double best = good.front()->tokens_per_second;
      text = fmt::format("{:.1f} % fewer tokens per second; ",
                         100 * (1 - plan.tokens_per_second / best)) +
             way_text(plan) + "; limited by " + plan.limited_by;
    }
    rows.push_back({mesh_text(plan.mesh), verdict, Prose{text},
                    plan.is_good() || has_times(plan)
                        ? Cell(Ratio{plan.tokens_per_second})
                        : Cell()});
  }
  add_why_not_rows(std::move(rows), report);
}

}  // namespace

void add_serving_plan(const PlannedServing& planned, int64_t top,
                      Report& report) {
  const ServingPlanRequest& request = planned.request;
  add_summary(planned, report);
  report.headline.push_back(
      request.planning.model + " with " + *request.engine.name + " on " +
      plural(*request.planning.devices, "device") + " of " +
      *request.memory.hardware + ", prompts of " +
      count_text(*request.engine.input_tokens) + " and outputs of " +
      count_text(*request.engine.output_tokens) + " tokens");
  const auto good = good_ones(planned);
  report.headline.push_back(
      plural(std::ssize(planned.layouts), "layout") + " with " +
      plural(planned.considered, "request count") + " considered" +
      (good.empty() ? "; none works" : "; no other is better"));
  if (!planned.assumed.empty()) {
    report.notes.push_back("assumed: " + joined(planned.assumed, ", "));
  }
  if (!good.empty()) {
    add_plans(planned, top, report);
    const ServingPlan& best = *good.front();
    report.notes.push_back(
        "time to first token " + range_text(best.first_token) +
        ", time per output token " + range_text(best.next_token));
  }
  add_why_not(planned, report);
  add_rejected(planned, report);
  if (!good.empty() || planned.layouts.empty()) return;
  // The layout that comes closest: the first that has times, else the first.
  const auto nearest = std::ranges::find_if(planned.layouts, has_times);
  if (nearest == planned.layouts.end()) return;
  report.closing.push_back(
      mesh_text(nearest->mesh) + " comes closest, with " +
      plural(nearest->requests, "concurrent request") +
      ": time to first token " + seconds_text(nearest->first_token.estimate) +
      ", time per output token " + seconds_text(nearest->next_token.estimate));
}

}  // namespace shardplan::cli
