// SPDX-License-Identifier: Apache-2.0
#include "memory/outside.h"

namespace shardplan {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;
// The most that a log shows, for one device and for the increase by a second
// one.
constexpr int64_t kMostSeen = 1833 * kMiB;

int64_t usual_connections(int64_t devices) {
  return (devices > 2 ? 392 : 342) * kMiB;
}

}  // namespace

OutsideRange context_range() {
  return {256 * kMiB, 512 * kMiB, kMostSeen,
          "vllm#10511: up to 1.79 GiB on one device"};
}

OutsideRange connections_range(int64_t devices) {
  const int64_t nccl = usual_connections(devices);
  return {nccl / 2, nccl, kMostSeen,
          "aiconfigurator: NCCL takes 342 MiB for 2 devices, 392 for 4 and 8; "
          "vllm#10511: up to 1.79 GiB more on two"};
}

OutsideRange further_connections_range(int64_t devices, bool all_to_all) {
  if (all_to_all) {
    return {0, usual_connections(devices), 3359 * kMiB,
            "nccl#1685: 3.28 GiB more after a first all-to-all of 8 devices"};
  }
  return {0, usual_connections(devices), (devices > 2 ? 688 : 544) * kMiB,
          "nccl#964: 544 MiB for each group of 2 devices, 688 for larger ones; "
          "nccl#986: none where resources are shared"};
}

}  // namespace shardplan
