// SPDX-License-Identifier: Apache-2.0
// What a budget gives cause to report: a plan that does not fit, with what
// would help, and stages that differ.
#pragma once

#include "base/diagnostic.h"
#include "core/manifest.h"
#include "core/plan.h"
#include "memory/budget.h"
#include "memory/stages.h"

namespace shardplan {

// SP301 when the fullest device needs more than the limit. Every help was
// computed: make_budget() with that one change, on the fullest device.
void report_misfit(const Manifest& manifest, const Plan& plan,
                   const LayerUnits& units, const BudgetOptions& options,
                   const Budget& budget, Diagnostics& diags);

// SP305 when layers do not divide by stages and nobody said how to split them.
void report_stages(const Budget& budget, const BudgetOptions& options,
                   Diagnostics& diags);

// "optimizer state"
std::string_view category_title(Category category);

}  // namespace shardplan
