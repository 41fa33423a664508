// SPDX-License-Identifier: Apache-2.0
// From options and a plan to a budget: what the flags of the group "Memory"
// ask for, checked against one another and the mesh.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "core/manifest.h"
#include "core/plan.h"
#include "memory/budget.h"
#include "memory/kv_sharding.h"
#include "memory/layers.h"
#include "memory/state_rules.h"

namespace shardplan::cli {

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
