// SPDX-License-Identifier: Apache-2.0
// Ways out: changes that make a training step, or the state alone, fit in
// memory. ways_out.cc lists them; each is applied and re-estimated.
//
// Of every kind of change (parts of the loss, micro-batches, what is kept, what
// is offloaded, ZeRO, axes of as many devices, more devices) the smallest that
// fits is kept, else the largest. Where none fits alone, several are made
// together, of which none can be left out.
#pragma once

#include <cstdint>
#include <vector>

#include "base/diagnostic.h"
#include "base/host.h"
#include "findings/findings.h"
#include "findings/step_findings.h"
#include "session/budget.h"
#include "session/session.h"
#include "session/step.h"

namespace shardplan {

struct StepChangesInput {
  const StepRequest& request;
  const Session& session;
  const BudgetAnswer& budget;
  const StepModel& model;
  const MemoryBracket& bracket;  // as asked for
};
// REQUIRES: a limit. Other meshes are tried where the request finds fixes.
std::vector<TriedStep> tried_steps(const StepChangesInput& input, Steps& steps,
                                   Host& host);

// Changes to the training state: first those that make it fit, in list order,
// then the two that come closest.
std::vector<TriedState> tried_states(const MemoryInput& asked);

// Adds to the SP301 of state alone the meshes on which it fits, or comes
// nearest to it. Nothing where none was reported.
void add_meshes(const PlanRequest& planning, const MemoryRequest& memory,
                const Session& session, const BudgetAnswer& budget, Host& host,
                Diagnostics& diags);

}  // namespace shardplan
