// SPDX-License-Identifier: Apache-2.0
// What a process has of a GPU outside of its allocator, as ranges of what logs
// and issues show, each with where it was read. lower <= estimate <= upper.
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

// The CUDA context, and libraries.
OutsideRange context_range();

// NCCL's buffers of the first group of so many devices that exchange anything.
// REQUIRES: devices > 1.
OutsideRange connections_range(int64_t devices);

// Of one more group, which may share those of the first; of one that sends from
// all to all, as experts do.
OutsideRange further_connections_range(int64_t devices, bool all_to_all);

}  // namespace shardplan
