// SPDX-License-Identifier: Apache-2.0
// ChosenSteps: the steps of a block that run in one call of it.
//
// Conditions depend only on the sizes and options of the model, so all of them
// are decided before anything is computed: conditions of steps and cases are
// evaluated, requirements are checked, notes are reported, and steps that
// multiply by 1 or add 0 are omitted.
#pragma once

#include <deque>
#include <functional>
#include <vector>

#include "base/diagnostic.h"
#include "model/architecture/architecture.h"
#include "model/architecture/scope.h"

namespace shardplan {

struct ChosenSteps {
  std::vector<const ForwardStep*> steps;  // no Switch, Require or Note
  std::deque<ForwardStep> changed;        // the modified ones of `steps`
};

// How choose_steps() reports.
struct StepReports {
  // Counts a step. Returns false if the pass has too many, which is reported.
  std::function<bool(Span)> counted;
  Span config;  // for messages
  Diagnostics& diags;
};

// Appends the steps that run to `chosen`. Returns false, with the reason
// reported, if a condition or number has no value or a requirement does not
// hold. `list` must outlive `chosen`.
bool choose_steps(const std::vector<ForwardStep>& list, const ValueScope& scope,
                  const StepReports& reports, ChosenSteps& chosen);

}  // namespace shardplan
