// SPDX-License-Identifier: Apache-2.0
// What the writer and the reader of saved plans agree on.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "core/facts.h"

namespace shardplan {

inline constexpr std::string_view kPlanFamily = "shardplan.plan/";
inline constexpr std::string_view kPlanSchema = "shardplan.plan/1";

// In the order of FactsFrom.
inline constexpr std::array<std::string_view, 4> kFactsFromNames = {
    "none", "inferred", "manifest", "config"};

inline std::string_view facts_from_name(FactsFrom from) {
  return kFactsFromNames.at(static_cast<size_t>(from));
}

}  // namespace shardplan
