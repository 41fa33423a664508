// SPDX-License-Identifier: Apache-2.0
// Plans that somebody has in mind, beside the one that was found: another mesh,
// another spec of one kind of parameter, other rules.
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

// The best way to train that leaves as it is what was asked about.
struct RivalPlan {
  std::string candidate;  // as it was written
  PlanVerdict verdict = PlanVerdict::Illegal;
  std::string reason;  // why it is illegal
  // With its own rules; null: those of the question.
  std::shared_ptr<const PlanQuestion> question = nullptr;
  // The best; where none fits, the one that holds least.
  std::optional<PricedPlan> best;
};

// `text`: a mesh, `NAME=SPEC` or rules (a file, or a shipped set). Specs are
// tried on the mesh of `answer`, rules on every mesh. Empty, with the reason
// reported: what cannot be read, or a spec where there is no plan.
std::optional<RivalPlan> rival_plan(const SourcePtr& text,
                                    const PlanQuestion& question,
                                    const PlanAnswer& answer, Host& host,
                                    Diagnostics& diags,
                                    ProgressListener& progress);

}  // namespace shardplan
