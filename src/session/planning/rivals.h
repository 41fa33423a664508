// SPDX-License-Identifier: Apache-2.0
// RivalPlan: a plan to compare with the one that was found, with another mesh,
// another spec of one kind of parameter, or other rules.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "base/diagnostic.h"
#include "base/host.h"
#include "search/plan_search.h"
#include "session/planning/question.h"
#include "session/progress_listener.h"

namespace shardplan {

// The best plan that keeps the user's choice unchanged.
struct RivalPlan {
  std::string candidate;  // as the user wrote it
  PlanVerdict verdict = PlanVerdict::Illegal;
  std::string reason;  // why it is illegal
  // Set if it has its own rules; null: those of the question.
  std::shared_ptr<const PlanQuestion> question = nullptr;
  // The best plan; if none fits, the one that needs the least memory.
  std::optional<PricedPlan> best;
};

// Searches for the best plan with the user's choice. `text` is a mesh,
// `NAME=SPEC` or rules (a file, or a shipped set). Specs are tried on the mesh
// of `answer`, rules on every mesh. Empty, with the reason reported: the text
// cannot be read, or there is no plan to try a spec in.
std::optional<RivalPlan> rival_plan(const SourcePtr& text,
                                    const PlanQuestion& question,
                                    const PlanAnswer& answer, Host& host,
                                    Diagnostics& diags,
                                    ProgressListener& progress);

}  // namespace shardplan
