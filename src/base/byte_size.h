// SPDX-License-Identifier: Apache-2.0
// Sizes in bytes as people write them.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace shardplan {

// "80GiB" (2^30), "95.7GB" (10^9), "81559 MiB", "1048576" (bytes), rounded down
// to whole bytes. Empty when it is no size or not within [1, 2^62).
std::optional<int64_t> parse_bytes(std::string_view text);

// What to tell somebody whose size was not understood.
inline constexpr std::string_view kByteSizeHelp =
    "sizes are written like `80GiB` (2^30 bytes) or `95.7GB` (10^9)";

}  // namespace shardplan
