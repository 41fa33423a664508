// SPDX-License-Identifier: Apache-2.0
#include "model/forward/chosen_steps.h"

#include <algorithm>
#include <string>

namespace shardplan {
namespace {

// Omits a step that multiplies a value by 1 or adds 0. The step that makes the
// value gets the axes of the result and, if it has no name, its name. Returns
// false if the result would lose its axes; the step is then computed.
bool leave_out(const ForwardStep& step, ChosenSteps& chosen) {
  const bool has_axes = !step.axes.empty() || !step.layout.empty();
  const auto made = std::ranges::find_if(
      chosen.steps.rbegin(), chosen.steps.rend(),
      [&](const ForwardStep* each) { return each->out == step.in; });
  const bool is_made = made != chosen.steps.rend();
  const bool renames = is_made && (*made)->is_unnamed;
  if (step.in == step.out || renames) {
    if (!has_axes && !renames) return true;
    if (!is_made) return false;
    ForwardStep& changed = chosen.changed.emplace_back(**made);
    changed.out = step.out;
    changed.is_unnamed = step.is_unnamed;
    if (has_axes) {
      changed.axes = step.axes;
      changed.layout = step.layout;
    }
    *made = &changed;
    return true;
  }
  if (has_axes) return false;
  ForwardStep& same = chosen.changed.emplace_back(step);
  same.kind = ForwardStep::Kind::Same;
  chosen.steps.push_back(&same);
  return true;
}

bool choose(const ForwardStep& step, const ValueScope& scope,
            const StepReports& reports, ChosenSteps& chosen) {
  using Kind = ForwardStep::Kind;
  if (step.kind == Kind::Require) {
    const auto holds = scope.flag(*step.argument("require"));
    if (holds == false) {
      reports.diags.error(Code::UnsupportedConfig, reports.config,
                          scope.filled(step.message));
    }
    return holds.value_or(false);
  }
  if (step.kind == Kind::Note) {
    reports.diags.report(Code::UnsupportedConfig, Severity::Note,
                         reports.config, scope.filled(step.message));
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
    const bool is_neutral = by->is_number() && by->as_real() == *step.neutral;
    if (is_neutral && leave_out(step, chosen)) return true;
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
