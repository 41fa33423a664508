// SPDX-License-Identifier: Apache-2.0
// The report of `plan` for training, and what it shares with that for serving.
#include "cli/commands/plan/plan_tables.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/text.h"
#include "base/words.h"
#include "cli/commands/workload/step.h"
#include "cli/output.h"
#include "cli/views/figures/plan_figures.h"
#include "core/plan.h"
#include "search/plan_search.h"

namespace shardplan::cli {
namespace {

constexpr size_t kRejectedForPeople = 5;
constexpr size_t kFrontierForPeople = 8;

std::string views_text(const PlanPoint& point) {
  const std::vector<Axis> axes = expert_axes(point);
  if (axes.empty()) return "";
  return std::string(kExpertView) + ":" + axes_text(axes);
}

std::string schedule_text(const PlanPoint& point) {
  return point.chunks > 1 ? "interleaved:" + std::to_string(point.chunks)
                          : "1f1b";
}

// Returns "FSDP over 4, 8 replicas, tensor parallel over 2, ...".
std::string way_text(const PlanSpace& space, const PlanPoint& point) {
  std::vector<std::string> parts;
  const auto add = [&](PlanAxis axis, const std::string& before,
                       const std::string& behind) {
    const int64_t size = point.of(axis);
    if (size > 1) parts.push_back(before + count_text(size) + behind);
  };
  add(PlanAxis::Shards, "FSDP over ", "");
  add(PlanAxis::Replicas, "",
      point.zero > 0 ? " replicas that shard the optimizer state (ZeRO-1)"
                     : " replicas");
  add(PlanAxis::Tensor, "tensor parallel over ",
      point.tokens_over_tensor ? " with sequence parallelism" : "");
  add(PlanAxis::Sequence, "context parallel over ", "");
  if (point.experts > 1) {
    parts.push_back("expert parallel over " + count_text(point.experts));
  }
  std::string of_stages = " stages";
  if (const auto layers = stage_layers(space, point); !layers.empty()) {
    of_stages += " of " + count_text(std::ranges::min(layers)) + " to " +
                 plural(std::ranges::max(layers), "layer");
  }
  if (point.chunks > 1) {
    of_stages += ", " + count_text(point.chunks) + " chunks each";
  }
  add(PlanAxis::Stages, "", of_stages);
  const int64_t sequences = space.batch / point.data() / point.microbatches;
  parts.push_back(plural(point.microbatches, "micro-batch") + " of " +
                  plural(sequences, "sequence") + " per device");
  parts.push_back("remat " + space.remats[point.remat]);
  return joined(parts, ", ");
}

std::string sequence_axes(const PlanPoint& point) {
  std::string axes = point.of(PlanAxis::Sequence) > 1 ? "sp" : "";
  if (point.tokens_over_tensor) axes += axes.empty() ? "tp" : ",tp";
  return axes;
}

ViewsCell views_cell(const PlanPoint& point) {
  const std::vector<Axis> axes = expert_axes(point);
  if (axes.empty()) return {};
  return {{MeshView{std::string(kExpertView), axes}}};
}

// Returns the layers per stage, "7,8,8,7"; empty if they are as even as
// possible.
std::string layers_text(const PlanSpace& space, const PlanPoint& point) {
  return joined_of(stage_layers(space, point), ",",
                   [](int64_t each) { return std::to_string(each); });
}

const PlanCost& best_cost(const PlannedTraining& planned) {
  return planned.shown.front().plan.cost;
}

NamedCells cells_of(const PlanSpace& space, const PricedPlan& plan,
                    const std::string& rules) {
  const auto& [point, cost] = plan;
  NamedCells cells = {
      {"mesh", MeshCell{Mesh(mesh_of(point).axes())}},
      {"views", views_cell(point)},
      {"remat", space.remats.at(point.remat)},
      {"microbatches", Count{point.microbatches}},
      {"zero", Count{point.zero}},
      {"stages", Count{point.of(PlanAxis::Stages)}},
      {"stage_layers", layers_text(space, point)},
      {"schedule", schedule_text(point)},
      {"sequence_axes", sequence_axes(point)},
      {"memory_bracket",
       ByteBracket{cost.least_memory, cost.memory, cost.most_memory}},
      {"step_time", cost.timed ? Cell(duration_bracket(cost.step)) : Cell()},
      {"tokens_per_second", Ratio{cost.tokens_per_second}},
      {"mfu", Ratio{cost.mfu}},
      {"limited_by", cost.limited_by},
      {"rules", rules}};
  for (const char* key : kServingKeys) cells.emplace_back(key, Cell());
  return cells;
}

void add_plan_tables(const PlannedTraining& planned, Report& report) {
  const PlanSpace& space = planned.question->space;
  const double best = best_cost(planned).step.estimate;
  std::vector<Row> rows;
  std::vector<NamedCells> plans;
  const auto limit = planned.winner->answer.fit.usable;
  for (size_t r = 0; r < planned.shown.size(); ++r) {
    const ShownPlan& shown = planned.shown[r];
    const auto& [point, cost] = shown.plan;
    const bool tie = cost.step.estimate <= best * (1 + kTie);
    std::string mesh = axes_text(mesh_of(point).axes());
    if (const std::string views = views_text(point); !views.empty()) {
      mesh += " " + views;
    }
    std::string way =
        way_text(space, point) + "; limited by " + cost.limited_by;
    if (shown.question != nullptr) {
      way = "with " + in_backticks(shown.rules) + ": " + way;
    }
    rows.push_back({rank_text(r, tie), mesh, Duration{cost.step.estimate},
                    Count{std::llround(cost.tokens_per_second)},
                    Percent{cost.mfu}, ByteSize{cost.most_memory},
                    limit ? Cell(ByteSize{*limit - cost.most_memory}) : Cell(),
                    Prose{way}});
    plans.push_back(
        ranked_cells(r, tie, cells_of(space, shown.plan, shown.rules)));
  }
  report.tables.push_back(
      {"best_plans",
       "Best plan of each shape",
       {left("rank", ""), elastic("mesh"), right("step_time", "step"),
        right("tokens_per_second", "tokens/s"), right("mfu", "MFU"),
        right("upper", "max memory"), right("headroom", "free"),
        below("way", "")},
       rows_of(std::move(rows)),
       Audience::People});
  report.tables.push_back(plans_table(plans));
}

// Returns the points that no other point beats in both memory and time.
std::vector<size_t> frontier_of(const PlanAnswer& answer) {
  std::vector<size_t> order = answer.best;
  std::ranges::stable_sort(order, {}, [&](size_t i) {
    const PlanCost& cost = answer.priced[i].cost;
    return std::pair(cost.most_memory, cost.step.estimate);
  });
  std::vector<size_t> frontier;
  for (const size_t i : order) {
    if (frontier.empty() ||
        answer.priced[i].cost.step.estimate <
            answer.priced[frontier.back()].cost.step.estimate) {
      frontier.push_back(i);
    }
  }
  return frontier;
}

void add_frontier(const PlannedTraining& planned, Report& report) {
  const std::vector<size_t> frontier = frontier_of(planned.answer);
  std::vector<Row> rows;
  std::vector<Row> for_programs;
  const size_t skip = std::max<size_t>(
      (frontier.size() + kFrontierForPeople - 1) / kFrontierForPeople, 1);
  for (size_t i = 0; i < frontier.size(); ++i) {
    const auto& [point, cost] = planned.answer.priced[frontier[i]];
    for_programs.push_back(
        {ByteSize{cost.most_memory}, Ratio{cost.step.estimate},
         MeshCell{Mesh(mesh_of(point).axes())}, views_cell(point),
         planned.question->space.remats[point.remat], Count{point.microbatches},
         Count{point.zero}});
    if (i % skip != 0 && i + 1 != frontier.size()) continue;
    rows.push_back({ByteSize{cost.most_memory}, Duration{cost.step.estimate},
                    axes_text(mesh_of(point).axes()), Count{point.microbatches},
                    planned.question->space.remats[point.remat]});
  }
  report.tables.push_back(
      {"memory_and_time",
       "Memory versus step time, of the priced plans",
       {right("memory", "max memory"), right("value", "step"), elastic("mesh"),
        right("microbatches"), left("remat")},
       rows_of(std::move(rows)),
       Audience::People});
  report.tables.push_back(
      {"frontier",
       "Frontier",
       {left("memory"), left("value"), left("mesh"), left("views"),
        left("remat"), left("microbatches"), left("zero")},
       rows_of(std::move(for_programs)),
       Audience::Programs});
}

std::string reason_of(const RejectedPlans& rejected) {
  switch (rejected.verdict) {
    case PlanVerdict::Unfit:
      return "does not fit";
    case PlanVerdict::MayFit:
      return "may not fit: the upper end of its memory range is too large";
    default:
      return rejected.reason;
  }
}

void add_rejected(const PlanAnswer& answer, Report& report) {
  std::vector<RejectedPlans> all = answer.rejected;
  std::ranges::stable_sort(all, std::greater<>(), &RejectedPlans::count);
  const auto add = [&](int64_t count, const char* reason) {
    if (count == 0) return;
    RejectedPlans others;
    others.verdict = PlanVerdict::Fits;
    others.reason = reason;
    others.count = count;
    if (!answer.best.empty()) {
      others.example = answer.priced[answer.best.back()].point;
    }
    all.insert(all.begin(), others);
  };
  add(answer.worse, "cannot beat the plan");
  add(answer.skipped, "not examined: the search ended");
  std::vector<Row> rows;
  std::vector<Row> for_people;
  for (const RejectedPlans& each : all) {
    const Prose reason{reason_of(each)};
    const Count count{each.count};
    rows.push_back({reason, count, axes_text(mesh_of(each.example).axes())});
    if (rows.size() <= kRejectedForPeople)
      for_people.push_back({count, reason});
  }
  report.tables.push_back({"why_others_are_not",
                           "Why other plans were rejected",
                           {right("count", "plans"), elastic("reason")},
                           rows_of(std::move(for_people)),
                           Audience::People});
  report.tables.push_back({"rejected",
                           "Rejected",
                           {left("reason"), left("count"), left("example")},
                           rows_of(std::move(rows)),
                           Audience::Programs});
}

bool is_plan(const RivalPlan& rival, const PlannedTraining& planned) {
  if (rival.verdict != PlanVerdict::Fits || planned.shown.empty()) return false;
  const ShownPlan& best = planned.shown.front();
  return rival.best->point == best.plan.point &&
         rival.best->cost.step.estimate == best.plan.cost.step.estimate &&
         rival.best->cost.most_memory == best.plan.cost.most_memory;
}

std::string verdict_name(const RivalPlan& rival,
                         const PlannedTraining& planned) {
  if (rival.verdict == PlanVerdict::Illegal) return "illegal";
  if (rival.verdict != PlanVerdict::Fits) return "unfit";
  return is_plan(rival, planned) ? "chosen" : "worse";
}

// Returns which part of the step takes longer than in the plan, and by how
// much; if several do, the part that grows most.
std::string growth_text(const PlanCost& rival, const PlanCost& plan) {
  std::string part;
  double most = 0;
  for (const auto& [name, seconds] : rival.parts) {
    double growth = seconds;
    for (const auto& [other, its] : plan.parts) {
      if (other == name) growth = seconds - its;
    }
    if (growth <= most) continue;
    most = growth;
    part = name;
  }
  return part.empty()
             ? ""
             : ", most of it " + part + " (+" + seconds_text(most) + ")";
}

std::string why_text(const RivalPlan& rival, const PlannedTraining& planned) {
  if (rival.verdict == PlanVerdict::Illegal) return rival.reason;
  if (!rival.best) return "the state alone does not fit";
  const PlanCost& cost = rival.best->cost;
  const std::string way = way_text(planned.question->space, rival.best->point);
  if (is_plan(rival, planned)) return "this is the plan";
  if (rival.verdict == PlanVerdict::Fits) {
    const PlanCost& plan = best_cost(planned);
    const std::string mesh = axes_text(mesh_of(rival.best->point).axes());
    return "at best " + seconds_text(cost.step.estimate) + ", " +
           fmt::format("{:.1f} %",
                       100 * (cost.step.estimate / plan.step.estimate - 1)) +
           " more than the plan" + growth_text(cost, plan) + "; " +
           (rival.question != nullptr ? mesh + ", " : "") + way;
  }
  return "needs up to " + bytes_text(cost.most_memory) +
         ", the lowest of its configurations; " + way;
}

void add_why_not(const PlannedTraining& planned, Report& report) {
  if (planned.why_not.empty()) return;
  std::vector<Row> rows;
  for (const RivalPlan& why : planned.why_not) {
    Cell value;
    if (why.best && why.verdict == PlanVerdict::Fits) {
      value = Ratio{why.best->cost.step.estimate};
    } else if (why.best) {
      value = Ratio{static_cast<double>(why.best->cost.most_memory)};
    }
    rows.push_back({why.candidate, verdict_name(why, planned),
                    Prose{why_text(why, planned)}, std::move(value)});
  }
  add_why_not_rows(std::move(rows), report);
}

void add_summary(const PlannedTraining& planned, const PlannerRequest& request,
                 Report& report) {
  const PlanAnswer& answer = planned.answer;
  const auto add = [&](const char* key, Cell cell) {
    report.summary.emplace_back(key, std::move(cell));
  };
  add("objective",
      request.objective == PlanObjective::Memory ? "memory" : "step-time");
  const bool found = planned.winner.has_value();
  const PricedPlan best = found ? planned.shown.front().plan : PricedPlan();
  const double value = objective_of(request.objective, best.cost);
  const double bound = std::min(answer.lower_bound, value);
  add("value", found ? Cell(Ratio{value}) : Cell());
  add("lower_bound", found ? Cell(Ratio{bound}) : Cell());
  add("gap", found ? Cell(Ratio{(value - bound) / value}) : Cell());
  add_best(cells_of(planned.question->space, best, ""), found, report);
  int64_t illegal = 0;
  int64_t unfit = 0;
  for (const RejectedPlans& each : answer.rejected) {
    (each.verdict == PlanVerdict::Illegal ? illegal : unfit) += each.count;
  }
  add("considered", Count{answer.considered});
  add("illegal", Count{illegal});
  add("unfit", Count{unfit});
  add("priced", Count{std::ssize(answer.priced)});
  add("fits", YesNo{found});
  add("fingerprint",
      found ? Cell(fingerprint(planned.winner->session.model.manifest,
                               planned.winner->session.plan))
            : Cell());
}

std::string gap_text(const PlannedTraining& planned,
                     const PlannerRequest& request) {
  const PlanAnswer& answer = planned.answer;
  const double value = objective_of(request.objective, best_cost(planned));
  const double gap = (value - answer.lower_bound) / value;
  std::string text = count_text(answer.considered) + " plans considered, " +
                     count_text(std::ssize(answer.priced)) + " priced";
  if (gap <= 0) return text + "; no other plan is better";
  return text +
         fmt::format("; no other plan is more than {:.1f} % better", 100 * gap);
}

}  // namespace

std::string rank_text(size_t rank, bool tie) {
  return std::to_string(rank + 1) + (tie && rank > 0 ? " tie" : "");
}

NamedCells ranked_cells(size_t rank, bool tie, NamedCells cells) {
  NamedCells all = {{"rank", Count{static_cast<int64_t>(rank) + 1}},
                    {"tie", YesNo{tie}}};
  append(all, std::move(cells));
  return all;
}

Table plans_table(const std::vector<NamedCells>& plans) {
  std::vector<Column> columns;
  for (const auto& named : plans.front()) columns.push_back(left(named.first));
  std::vector<Row> rows;
  for (const NamedCells& plan : plans) {
    Row& row = rows.emplace_back();
    for (const auto& named : plan) row.push_back(named.second);
  }
  return {"plans", "Plans", std::move(columns), rows_of(std::move(rows)),
          Audience::Programs};
}

void add_best(const NamedCells& best, bool found, Report& report) {
  for (const auto& [key, cell] : best) {
    if (std::string_view(key) == "rules") continue;
    report.summary.emplace_back(key, found ? cell : Cell());
  }
}

void add_why_not_rows(std::vector<Row> rows, Report& report) {
  std::vector<Column> columns = {left("candidate"), left("verdict"),
                                 below("reason", ""), left("value")};
  report.tables.push_back(
      {"why_not", "Why not", columns, rows_of(rows), Audience::Programs});
  columns.pop_back();
  for (Row& row : rows) row.pop_back();
  report.tables.push_back({"why_not_these", "Why not", std::move(columns),
                           rows_of(std::move(rows)), Audience::People});
}

Plot memory_and_time(const PlannedTraining& planned) {
  const PlanSpace& space = planned.question->space;
  Plot plot;
  plot.title = "A step on " + plural(space.devices, "device");
  plot.subtitle =
      plural(space.batch, "sequence") + " of " + plural(space.seq, "token");
  plot.x_title = "memory per device (upper end)";
  plot.y_title = "seconds";
  PlotSeries fastest{"fastest priced plan", {}};
  for (const size_t i : frontier_of(planned.answer)) {
    const PlanCost& cost = planned.answer.priced[i].cost;
    plot.x_labels.push_back(bytes_text(cost.most_memory));
    fastest.points.push_back(cost.step.estimate);
  }
  plot.series = {std::move(fastest)};
  return plot;
}

void add_plan(const PlannedTraining& planned, Report& report) {
  const PlannerRequest& request = planned.question->request;
  const PlanAnswer& answer = planned.answer;
  add_summary(planned, request, report);
  const PlanSpace& space = planned.question->space;
  report.headline.push_back(request.planning.model + " on " +
                            count_text(space.devices) + " devices of " +
                            *request.memory.hardware + ", " +
                            plural(space.batch, "sequence") + " of " +
                            count_text(space.seq) + " tokens per step");
  if (const auto& assumed = planned.question->assumed; !assumed.empty()) {
    report.notes.push_back("assumed: " + joined(assumed, ", "));
  }
  if (planned.winner) {
    add_plan_tables(planned, report);
    add_frontier(planned, report);
    report.figures.push_back({"plans", "Memory and time of the fastest plans",
                              [&] { return memory_and_time(planned); }});
    add_plan_figures(planned.winner->session, &planned.winner->answer,
                     Mode::Train, report);
  }
  add_why_not(planned, report);
  add_rejected(answer, report);
  if (planned.winner) {
    report.headline.push_back(gap_text(planned, request));
    report.notes.push_back(planned.winner->answer.step->workload);
    if (!planned.unknown.empty()) {
      report.notes.push_back(
          "not known whether tensor-parallel styles can run the plan: " +
          planned.unknown);
    }
    add_step_text(*planned.winner->answer.step, report);
    return;
  }
  report.headline.push_back(
      answer.exhausted
          ? "none of " + count_text(answer.considered) +
                " plans is certain to fit"
          : "none of the plans examined is certain to fit; not all of " +
                count_text(answer.considered) + " were examined");
  if (planned.smallest) {
    const PlanCost& cost = planned.smallest->cost;
    report.closing.push_back(
        cost.timed
            ? "the smallest plan needs up to " + bytes_text(cost.most_memory) +
                  ", with " +
                  flags_text(flags_of(space, planned.smallest->point))
            : "weights, gradients and optimizer state alone need at least " +
                  bytes_text(cost.most_memory) + " per device");
  }
  if (!planned.offloads.empty()) {
    report.closing.push_back("nothing fits even with " +
                             joined(planned.offloads, " and ") +
                             " in host memory (`--offload`)");
  }
  if (planned.with_more) {
    report.closing.push_back(
        count_text(planned.more_devices) + " devices are enough, with " +
        flags_text(flags_of(space, planned.with_more->point)) + ": up to " +
        bytes_text(planned.with_more->cost.most_memory));
  }
}

}  // namespace shardplan::cli
