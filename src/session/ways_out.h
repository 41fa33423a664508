// SPDX-License-Identifier: Apache-2.0
// Ways out: changes that make a training step, the state alone or an engine fit
// in memory. ways_out.cc lists them; each is a candidate that is judged.
//
// Of every kind of change (parts of the loss, micro-batches, what is kept, what
// is offloaded, ZeRO, axes of as many devices, more devices) the smallest that
// fits is kept, else the largest. Where none fits alone, several are made
// together, of which none can be left out.
#pragma once

#include <vector>

#include "base/diagnostic.h"
#include "base/host.h"
#include "evaluate/plan_judge.h"
#include "findings/findings.h"
#include "memory/fit.h"
#include "session/session.h"

namespace shardplan {

struct WaysOutInput {
  const PlanRequest& planning;
  const Session& session;
  const Asked& asked;
  PlanJudge& judge;  // of the session's plan
};

// REQUIRES: a limit, and a training step. Other meshes are tried where the
// request finds fixes. `bracket` is that of the request.
std::vector<TriedChange> tried_steps(const WaysOutInput& in,
                                     const MemoryBracket& bracket, Host& host);

// Changes to the training state: first those that make it fit, in list order,
// then the two that come closest.
std::vector<TriedChange> tried_states(PlanJudge& judge, const Budget& budget);

// Adds to the SP301 of state alone the meshes on which it fits, or comes
// nearest to it. Nothing where none was reported.
void add_meshes(const WaysOutInput& in, const Budget& budget, Host& host,
                Diagnostics& diags);

// For every kind of change the smallest that starts and holds the sequences
// asked for, else the best. REQUIRES: an engine is judged; `asked` is its
// answer.
std::vector<TriedServing> tried_servings(const WaysOutInput& in,
                                         const Serving& asked);

}  // namespace shardplan
