// SPDX-License-Identifier: Apache-2.0
// The file format of saved plans: `*.plan.json`, schema "shardplan.plan/1".
//
// Like a Plan in memory, a file has each distinct placement once and a number
// per parameter, so the plan of a million tensors is written and read as a
// stream. Readers accept unknown keys within version 1 and refuse other
// versions (SP002).
#pragma once

#include <array>
#include <string_view>

#include "core/facts.h"
#include "io/saved_plan.h"

namespace shardplan {

// Names shared by the writer and the reader of saved plans.

inline constexpr std::string_view kPlanFamily = "shardplan.plan/";
inline constexpr std::string_view kPlanSchema = "shardplan.plan/1";

// Names in the order of FactsFrom.
inline constexpr std::array<std::string_view, 4> kFactsFromNames = {
    "none", "inferred", "manifest", "config"};

// The value of `run_as`; a plan without that key is run by a compiler.
inline constexpr std::string_view kRunByHooks = "hooks";

// Names in the order of HookLayout and of ModuleHook::Task. A hook with an
// unknown task is not written, so Unknown has no name.
inline constexpr std::array<std::string_view, 4> kHookLayoutNames = {
    "as_is", "whole", "last", "tokens"};
inline constexpr std::array<std::string_view, 6> kHookTaskNames = {
    "none",        "sum_gradients", "sum_output_gradients",
    "read_shards", "sum_experts",   "own_experts"};

}  // namespace shardplan
