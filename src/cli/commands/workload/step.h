// SPDX-License-Identifier: Apache-2.0
// What a training step holds: from what is asked for, a plan and its budget to
// a bracket, with what would make it fit.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "activations/bracket.h"
#include "base/diagnostic.h"
#include "base/host.h"
#include "cli/options.h"
#include "report/report.h"
#include "session/budget.h"
#include "session/session.h"

namespace shardplan::cli {

struct StepAnswer {
  MemoryBracket bracket;
  // "8 sequences of 8,192 tokens in 4 micro-batches; 1 per device at a time,
  // over fsdp=4; bf16; remat block; flash attention"
  std::string workload;
  std::vector<std::string> notes;
  // Parts of the model whose activations are not among it: "154 parameters of
  // `model.visual`".
  std::vector<std::string> left_out;
};

// Whether a training step with a workload is asked for.
bool asks_for_step(const Options& options);
// What contradicts itself or needs a workload (SP010).
bool check_step_request(const Options& options, Diagnostics& diags);

// From the model's forward pass; from its shapes, where none is known. Empty,
// with the reason reported: neither tells (SP016), or it cannot be partitioned.
// SP301 and SP306 are reported, with changes that were tried. REQUIRES:
// asks_for_step, check_step_request.
std::optional<StepAnswer> answer_step(const Options& options,
                                      const Session& session,
                                      const BudgetAnswer& budget, Host& host,
                                      Diagnostics& diags);

// `memory_bracket`.
std::vector<std::pair<std::string, Cell>> step_summary(
    const StepAnswer& answer);
// Into the summary, the tables and the notes of a report; the answer must
// outlive it.
void add_step(const StepAnswer& answer, const Budget& budget, Report& report);

}  // namespace shardplan::cli
