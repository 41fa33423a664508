// SPDX-License-Identifier: Apache-2.0
// Saved plans: `*.plan.json`, schema "shardplan.plan/1".
//
// Like a Plan in memory, a file holds each distinct placement once and a number
// per parameter, so the plan of a million tensors is written and read as a
// stream. Readers accept keys they do not know within version 1 and refuse
// other versions (SP002).
#pragma once

#include <array>
#include <string_view>

#include "core/facts.h"
#include "io/saved_plan.h"

namespace shardplan {

// What the writer and the reader of saved plans agree on.

inline constexpr std::string_view kPlanFamily = "shardplan.plan/";
inline constexpr std::string_view kPlanSchema = "shardplan.plan/1";

// In the order of FactsFrom.
inline constexpr std::array<std::string_view, 4> kFactsFromNames = {
    "none", "inferred", "manifest", "config"};

// `run_as`; a plan that does not say so is run by a compiler.
inline constexpr std::string_view kRunByHooks = "hooks";

// In the order of HookLayout and of ModuleHook::Task; an unknown one is not
// written.
inline constexpr std::array<std::string_view, 4> kHookLayoutNames = {
    "as_is", "whole", "last", "tokens"};
inline constexpr std::array<std::string_view, 6> kHookTaskNames = {
    "none",        "sum_gradients", "sum_output_gradients",
    "read_shards", "sum_experts",   "own_experts"};

inline std::string_view facts_from_name(FactsFrom from) {
  return kFactsFromNames.at(static_cast<size_t>(from));
}

}  // namespace shardplan
