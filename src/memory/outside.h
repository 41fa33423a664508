// SPDX-License-Identifier: Apache-2.0
// Memory outside the allocator: what else a process uses of a GPU, as ranges
// taken from logs and issues, each with its source. lower <= estimate <= upper.
// Units: bytes.
#pragma once

#include <cstdint>
#include <string>

namespace shardplan {

struct OutsideRange {
  int64_t lower = 0;
  int64_t estimate = 0;
  int64_t upper = 0;
  std::string source;
};

// Returns the memory of the CUDA context and of libraries.
OutsideRange context_range();

// Returns NCCL's buffers of the first group of `devices` devices that
// communicates. REQUIRES: devices > 1.
OutsideRange connections_range(int64_t devices);

// Returns the buffers of one more group, which may share those of the first.
// `all_to_all`: the group sends from all to all, as experts do.
OutsideRange further_connections_range(int64_t devices, bool all_to_all);

}  // namespace shardplan
