// SPDX-License-Identifier: Apache-2.0
// The mesh axes that shard the batch, by their usual names.
//
// A weight that such an axis shards is gathered over it before use (FSDP), and
// sequences are dealt out over it. eformer's PartitionAxis calls them fsdp and
// dp, levanter and t5x data.
#pragma once

#include <algorithm>
#include <array>
#include <string_view>

namespace shardplan {

inline constexpr std::array<std::string_view, 4> kGatheredAxes = {
    "dp", "fsdp", "data", "replica"};

inline bool is_gathered_axis(std::string_view axis) {
  return std::find(kGatheredAxes.begin(), kGatheredAxes.end(), axis) !=
         kGatheredAxes.end();
}

}  // namespace shardplan
