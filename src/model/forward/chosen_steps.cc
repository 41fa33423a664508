// SPDX-License-Identifier: Apache-2.0
#include "model/forward/chosen_steps.h"

#include <string>

namespace shardplan {
namespace {

// A value times 1, or plus 0, is that value. One that has no name of its own
// gets the name of the result, and its axes.
void leave_out(const ForwardStep& step, ChosenSteps& chosen) {
  if (step.in == step.out) return;
  const bool is_unnamed = !chosen.steps.empty() &&
                          chosen.steps.back()->is_unnamed &&
                          chosen.steps.back()->out == step.in;
  ForwardStep& changed =
      chosen.changed.emplace_back(is_unnamed ? *chosen.steps.back() : step);
  if (is_unnamed) {
    chosen.steps.pop_back();
  } else {
    changed.kind = ForwardStep::Kind::Same;
  }
  changed.out = step.out;
  changed.axes = step.axes;
  changed.layout = step.layout;
  changed.is_unnamed = step.is_unnamed;
  chosen.steps.push_back(&changed);
}

bool choose(const ForwardStep& step, const ValueScope& scope,
            const StepReports& reports, ChosenSteps& chosen) {
  using Kind = ForwardStep::Kind;
  if (step.kind == Kind::Require) {
    const auto holds = scope.flag(*step.argument("require"));
    if (holds == false) reports.refused(scope.filled(step.message));
    return holds.value_or(false);
  }
  if (step.kind == Kind::Note) {
    reports.note(scope.filled(step.message));
    return true;
  }
  if (step.kind == Kind::Switch) {
    for (const ForwardCase& one : step.cases) {
      const auto holds = scope.flag(one.when);
      if (!holds) return false;
      if (*holds) return choose_steps(one.steps, scope, reports, chosen);
    }
    return true;
  }
  if (step.neutral) {
    const auto by = scope.value(step.attributes.front().values.front());
    if (!by) return false;
    if (by->is_number() && by->as_real() == *step.neutral) {
      leave_out(step, chosen);
      return true;
    }
  }
  chosen.steps.push_back(&step);
  return true;
}

}  // namespace

bool choose_steps(const std::vector<ForwardStep>& list, const ValueScope& scope,
                  const StepReports& reports, ChosenSteps& chosen) {
  for (const ForwardStep& step : list) {
    if (!reports.counted(step.where)) return false;
    const auto used = scope.flag(step.when);
    if (!used || (*used && !choose(step, scope, reports, chosen))) return false;
  }
  return true;
}

}  // namespace shardplan
