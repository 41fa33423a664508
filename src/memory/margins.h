// SPDX-License-Identifier: Apache-2.0
// Margins: how far a workload may grow before a device is full.
#pragma once

#include <cstdint>
#include <optional>

#include "base/diagnostic.h"
#include "core/manifest.h"
#include "core/plan.h"
#include "memory/budget.h"

namespace shardplan {

// The largest batch (context) with which every device still fits while the
// other stays; 0 when not even 1 does, and empty when there is no limit below
// kMaxKvCount.
struct Margins {
  std::optional<int64_t> batch;
  std::optional<int64_t> context;
};

// Exact: the budget with these fits, with one more it does not. REQUIRES:
// `options` has a KV request and a limit, and `budget` is what make_budget gave
// for them. Reports nothing new.
Margins find_margins(const Manifest& manifest, const Plan& plan,
                     const LayerUnits& units, const BudgetOptions& options,
                     const Budget& budget);

}  // namespace shardplan
