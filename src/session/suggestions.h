// SPDX-License-Identifier: Apache-2.0
// Suggestions: changes that make a training step, the state alone, or an engine
// fit into memory. suggestions.cc lists them; each is judged as a candidate.
//
// The kinds of change are parts of the loss, micro-batches, recompute, offload,
// ZeRO, axes of as many devices, and more devices. For each kind, the smallest
// change that fits is kept, else the largest. If no single change fits, several
// are combined, none of which can be omitted.
#pragma once

#include <vector>

#include "base/diagnostic.h"
#include "base/host.h"
#include "evaluate/plan_judge.h"
#include "findings/findings.h"
#include "memory/fit.h"
#include "session/session.h"

namespace shardplan {

struct SuggestionsInput {
  const PlanRequest& planning;
  const Session& session;
  const Asked& asked;
  PlanJudge& judge;  // of the session's plan
};

// Returns the changes that were tried on a training step. REQUIRES: a limit,
// and a training step. Tries other meshes if the request looks for fixes.
// `bracket` is the request's.
std::vector<TriedChange> tried_steps(const SuggestionsInput& in,
                                     const MemoryBracket& bracket, Host& host);

// Returns changes to the training state: first those that make it fit, in list
// order, then the two that come closest.
std::vector<TriedChange> tried_states(PlanJudge& judge, const Budget& budget);

// Adds, to the SP301 finding about the state alone, the meshes on which it fits
// or comes closest. Does nothing if there is no such finding.
void add_meshes(const SuggestionsInput& in, const Budget& budget, Host& host,
                Diagnostics& diags);

// Returns, for every kind of change, the smallest that starts and holds the
// requested sequences, else the best. REQUIRES: an engine is judged; `asked` is
// its answer.
std::vector<TriedServing> tried_servings(const SuggestionsInput& in,
                                         const Serving& asked);

}  // namespace shardplan
