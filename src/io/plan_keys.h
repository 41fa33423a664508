// SPDX-License-Identifier: Apache-2.0
// What the writer and the reader of saved plans agree on.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include "core/manifest.h"

namespace shardplan {

inline constexpr std::string_view kPlanFamily = "shardplan.plan/";
inline constexpr std::string_view kPlanSchema = "shardplan.plan/1";

struct FactKey {
  std::string_view name;
  std::optional<int64_t> ModelFacts::*member;
};
inline constexpr std::array<FactKey, 5> kFactKeys = {{
    {"heads", &ModelFacts::heads},
    {"kv_heads", &ModelFacts::kv_heads},
    {"head_dim", &ModelFacts::head_dim},
    {"experts", &ModelFacts::experts},
    {"layers", &ModelFacts::layers},
}};

// In the order of FactsFrom.
inline constexpr std::array<std::string_view, 4> kFactsFromNames = {
    "none", "inferred", "manifest", "config"};

inline std::string_view facts_from_name(FactsFrom from) {
  return kFactsFromNames.at(static_cast<size_t>(from));
}

}  // namespace shardplan
