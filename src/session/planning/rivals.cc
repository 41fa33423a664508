// SPDX-License-Identifier: Apache-2.0
// Reads what a rival changes, and searches for the best plan with it.
#include "session/planning/rivals.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "base/checked.h"
#include "base/text.h"
#include "base/words.h"

namespace shardplan {
namespace {

// Takes the legal plan with the least memory; if none is legal, takes the most
// common reason.
void take_nearest(const PlanAnswer& own, RivalPlan& rival) {
  for (const PricedPlan& each : own.priced) {
    if (each.cost.verdict == PlanVerdict::Illegal) continue;
    if (!rival.best || each.cost.most_memory < rival.best->cost.most_memory) {
      rival.best = each;
    }
  }
  if (rival.best) {
    rival.verdict = rival.best->cost.verdict;
    return;
  }
  const auto commonest =
      std::ranges::max_element(own.rejected, {}, &RejectedPlans::count);
  if (commonest == own.rejected.end()) {
    rival.reason = "no such plan is possible";
    return;
  }
  rival.verdict = commonest->verdict;
  rival.reason = commonest->reason;
}

void take_best(const PlanAnswer& own, RivalPlan& rival) {
  if (own.best.empty()) return take_nearest(own, rival);
  rival.verdict = PlanVerdict::Fits;
  rival.best = own.priced[own.best.front()];
}

// Asks the question again with other rules. Null, with the reason reported.
std::shared_ptr<const PlanQuestion> asked_again(const PlannerRequest& request,
                                                const Rule* first, Host& host,
                                                Diagnostics& diags,
                                                ProgressListener& progress) {
  Diagnostics own = diags.fresh();
  std::shared_ptr<const PlanQuestion> other =
      plan_question(request, first, host, own, progress);
  if (other == nullptr) diags.add_all(own);
  return other;
}

std::optional<RivalPlan> on_mesh(const SourcePtr& text,
                                 const PlanQuestion& question,
                                 Diagnostics& diags) {
  RivalPlan rival;
  rival.candidate = std::string(text->text());
  PlanSpace only = question.space;
  only.fixed = point_of(text, question.request.planning, diags);
  if (!only.fixed) return std::nullopt;
  for (size_t i = 0; i < kPlanAxes; ++i) {
    const auto axis = static_cast<PlanAxis>(i);
    if (only.fixed->of(axis) == 1 || contains(only.over, axis)) continue;
    rival.reason = "axis " + in_backticks(kPlanAxisNames[i]) +
                   " is not among those considered: " +
                   joined_of(only.over, ", ", [](PlanAxis each) {
                     return in_backticks(nth(kPlanAxisNames, each));
                   });
    return rival;
  }
  const auto& fixed = question.space.fixed;
  if (fixed && *fixed != *only.fixed) {
    rival.reason = "`--fix-mesh` asks for another mesh";
    return rival;
  }
  take_best(search_for(question, only, 0), rival);
  return rival;
}

// Uses the winner's mesh, because a single spec hardly changes the best mesh.
std::optional<RivalPlan> with_spec(const SourcePtr& text,
                                   const PlanQuestion& question,
                                   const PlanAnswer& answer, Host& host,
                                   Diagnostics& diags,
                                   ProgressListener& progress) {
  if (answer.best.empty()) {
    return diags
        .error(Code::Usage, {},
               "no plan was found to try " + in_backticks(text->text()) + " in")
        .help("ask about a mesh, `--why-not fsdp=8,tp=2`");
  }
  const auto spec =
      read_flagged_spec(text, question.inputs.model.manifest, diags);
  if (!spec) return std::nullopt;
  auto other =
      asked_again(question.request, &spec->rule, host, diags, progress);
  if (other == nullptr) return std::nullopt;
  RivalPlan rival;
  rival.candidate = std::string(text->text());
  PlanSpace only = other->space;
  only.fixed = answer.priced[answer.best.front()].point;
  take_best(search_for(*other, only, 0), rival);
  rival.question = std::move(other);
  return rival;
}

std::optional<RivalPlan> with_rules(const SourcePtr& text,
                                    const PlanQuestion& question, Host& host,
                                    Diagnostics& diags,
                                    ProgressListener& progress) {
  PlannerRequest request = question.request;
  request.planning.rules = {std::string(text->text())};
  request.planning.pattern = nullptr;
  auto other = asked_again(request, nullptr, host, diags, progress);
  if (other == nullptr) return std::nullopt;
  RivalPlan rival;
  rival.candidate = std::string(text->text());
  PlanSpace space = other->space;
  // Rules with their own mesh are tried on it.
  if (const auto& mesh = other->inputs.rules.mesh; mesh && !space.fixed) {
    const auto written = std::make_shared<SourceFile>(
        rival.candidate, joined_of(*mesh, ",", [](const AxisRequest& axis) {
          return axis.name.text() + "=" + std::to_string(axis.size);
        }));
    space.fixed = point_of(written, question.request.planning, diags);
    if (!space.fixed) return std::nullopt;
  }
  take_best(search_for(*other, space, 0), rival);
  rival.question = std::move(other);
  return rival;
}

}  // namespace

std::optional<RivalPlan> rival_plan(const SourcePtr& text,
                                    const PlanQuestion& question,
                                    const PlanAnswer& answer, Host& host,
                                    Diagnostics& diags,
                                    ProgressListener& progress) {
  const std::string all(text->text());
  progress.stage("looking at " + all);
  const size_t equals = all.find('=');
  if (equals != all.npos && all.find_first_of("([", equals) != all.npos) {
    return with_spec(text, question, answer, host, diags, progress);
  }
  const bool is_file = all.starts_with('@') || host.file_info(all).has_value();
  if (is_file || equals == all.npos) {
    return with_rules(text, question, host, diags, progress);
  }
  return on_mesh(text, question, diags);
}

}  // namespace shardplan
