// SPDX-License-Identifier: Apache-2.0
// `--measured`: what somebody measured beside the answer of `analyze`.
#pragma once

#include "base/diagnostic.h"
#include "cost/residual.h"
#include "report/report.h"
#include "session/memory_answer.h"

namespace shardplan::cli {

// False, with the reason reported (SP010), where nothing can be compared.
bool can_compare(const MeasuredStep& measured, const MemoryAnswer& answer,
                 Diagnostics& diags);

// The table, lines that say where the difference may lie, and a finding where a
// bound was broken (SP312). REQUIRES: can_compare().
void add_residual(const MeasuredStep& measured, const StepAnswer& answer,
                  Report& report, Diagnostics& diags);

}  // namespace shardplan::cli
