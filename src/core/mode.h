// SPDX-License-Identifier: Apache-2.0
// Mode: what the model is run for. It decides which semantic axis table
// applies, and whether there is training state or a KV cache.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

namespace shardplan {

enum class Mode : uint8_t { Train, Prefill, Decode, Insert };

// In the order of Mode.
inline constexpr std::array<std::string_view, 4> kModeNames = {
    "train", "prefill", "decode", "insert"};

inline std::string_view mode_name(Mode mode) {
  return kModeNames.at(static_cast<size_t>(mode));
}

inline std::optional<Mode> find_mode(std::string_view name) {
  for (size_t i = 0; i < kModeNames.size(); ++i) {
    if (kModeNames.at(i) == name) return static_cast<Mode>(i);
  }
  return std::nullopt;
}

}  // namespace shardplan
