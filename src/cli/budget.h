// SPDX-License-Identifier: Apache-2.0
// What a device may hold, from --memory, --hardware and --reserve.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/diagnostic.h"
#include "base/host.h"
#include "cli/commands.h"
#include "cli/options.h"
#include "core/manifest.h"
#include "core/plan.h"
#include "memory/budget.h"
#include "memory/kv_cache.h"
#include "memory/stages.h"
#include "memory/state.h"

namespace shardplan::cli {

// Empty when neither --memory nor --hardware is given, which is no mistake, or
// when the profile cannot be read or states no memory: then
// diags.cannot_run(). --memory overrides the profile's size, but a profile
// that is named is read all the same.
std::optional<DeviceLimit> device_limit(const Options& options, Host& host,
                                        Diagnostics& diags);

// --reserve in bytes, rounded up: as given, or the fraction of what is usable.
// Empty, with the reason reported (SP010), for a fraction without a limit.
std::optional<int64_t> reserve_bytes(const Options& options,
                                     const std::optional<DeviceLimit>& limit,
                                     Diagnostics& diags);

// From options and a plan to a budget: what the flags of the group "Memory"
// ask for, checked against one another and the mesh.

// Whether anything was asked for beyond what parameters take.
bool asks_for_budget(const Options& options);

// Mode, batch, optimizer and ZeRO against one another (SP010).
bool check_memory_flags(const Options& options, Diagnostics& diags);

struct BudgetInput {
  BudgetOptions options;  // its state_specs points below
  std::unique_ptr<StateSpecs> state_specs;
  std::optional<KvAxes> kv_axes;  // with options.kv
  LayerUnits units;
};

// What names tell, for plans that differ in the mesh alone: reading them again
// for every mesh would take most of the time.
struct NamesRead {
  std::optional<std::vector<KeyProjection>> projections;
  std::vector<uint32_t> kind_of;  // that the units were told for
  LayerUnits units;
};

// Empty, with the reason reported. Findings about state rules are reported
// too. `read` is of the same manifest.
std::optional<BudgetInput> budget_input(Context& context,
                                        const Manifest& manifest,
                                        const Plan& plan, NamesRead& read);

struct BudgetAnswer {
  BudgetInput input;
  Budget budget;
};
// The budget, with SP301 and SP305 reported.
std::optional<BudgetAnswer> answer_budget(Context& context,
                                          const Manifest& manifest,
                                          const Plan& plan);

}  // namespace shardplan::cli
