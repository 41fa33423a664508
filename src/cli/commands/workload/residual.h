// SPDX-License-Identifier: Apache-2.0
// `--measured`: compares measurements with the estimate of `analyze`.
#pragma once

#include "base/diagnostic.h"
#include "cost/residual.h"
#include "report/report.h"
#include "session/memory_answer.h"

namespace shardplan::cli {

// Returns false, with the reason reported (SP010), if nothing can be compared.
bool can_compare(const MeasuredStep& measured, const MemoryAnswer& answer,
                 Diagnostics& diags);

// Adds the table, lines about the likely causes of the difference, and a
// finding if a bound is broken (SP312).
//
// REQUIRES: can_compare().
void add_residual(const MeasuredStep& measured, const StepAnswer& answer,
                  Report& report, Diagnostics& diags);

}  // namespace shardplan::cli
