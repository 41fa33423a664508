// SPDX-License-Identifier: Apache-2.0
// ChosenSteps: the steps of a block that one use of it runs.
//
// Conditions depend on sizes and options of the model alone, so all of them are
// decided before anything is computed: conditions of steps and cases hold or
// not, requirements are checked, notes are reported, and what multiplies by 1
// or adds 0 is left out.
#pragma once

#include <deque>
#include <functional>
#include <vector>

#include "model/architecture/architecture.h"
#include "model/architecture/scope.h"

namespace shardplan {

struct ChosenSteps {
  std::vector<const ForwardStep*> steps;  // no Switch, Require or Note
  std::deque<ForwardStep> changed;        // those of `steps` that differ
};

// What is reported of a step that is not computed.
struct StepReports {
  // One more step; false where the pass has too many, which is reported.
  std::function<bool(Span)> counted;
  std::function<void(const std::string& message)> note;
  std::function<void(const std::string& message)> refused;
};

// False where a condition or number has no value or a requirement does not
// hold, which is reported. `list` must outlive what is chosen.
bool choose_steps(const std::vector<ForwardStep>& list, const ValueScope& scope,
                  const StepReports& reports, ChosenSteps& chosen);

}  // namespace shardplan
