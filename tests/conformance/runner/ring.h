// SPDX-License-Identifier: Apache-2.0
// The ring functions of xlstm_jax.distributed.tensor_parallel, for all devices
// of an axis at once: the contents of each device's list, and the order in
// which its sums are added. Both are derived from the schedules of the ring
// algorithms.
//
// For device d of n, with indices modulo n, and an upward ring:
//   async_gather                entry i is the shard of d - i; down: d + i
//   async_gather_bidirectional  the same lists in half the steps
//   async_gather_split          first halves as up, then second halves as down
//   async_scatter               ((xs of d+1 [0] + xs of d+2 [1]) + ..) + own
//                               [n-1]; down: d-1, d-2, ..
//   async_scatter_split         the first half of the features goes up, the
//                               rest down
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "base/checked.h"
#include "base/diagnostic.h"
#include "comm/collective.h"
#include "core/spec.h"

namespace shardplan {

enum class Shift : uint8_t { Up, Down };

// [device][entry]: the device whose shard the entry is.
//
// REQUIRES: devices >= 1.
using SourceLists = std::vector<std::vector<int>>;
SourceLists async_gather(int devices, Shift shift);
SourceLists async_gather_bidirectional(int devices, Shift shift);

// One half of a shard; half 0 has the features [0, features / 2) of the source.
struct ShardHalf {
  int source = 0;
  int half = 0;

  bool operator==(const ShardHalf&) const = default;
};
// Returns [device][entry] with 2 n entries. Returns empty, with the reason
// reported (SP010), if the features cannot be halved.
std::optional<std::vector<std::vector<ShardHalf>>> async_gather_split(
    int devices, int64_t features, Diagnostics& diags);

// Returns the device that receives element k of a device's list.
int scatter_target(int devices, int device, int element, Shift shift);
// Returns whether every device has a list of as many elements as there are
// devices; otherwise reports the reason (SP010).
bool check_lists(const std::vector<size_t>& lengths, Diagnostics& diags);
// Return the reduce-scatter by the ring, and by the split ring, whose chunks 2
// c and 2 c + 1 are the halves for rank c.
Schedule scatter_schedule(int devices, Shift shift);
Schedule split_scatter_schedule(int devices);

// Returns one sum per device of the elements xs[device][k]; `add(arriving,
// own)` adds two. Returns empty, with the reason reported, if check_lists()
// fails.
template <typename T, typename Add>
std::optional<std::vector<T>> async_scatter(
    const std::vector<std::vector<T>>& xs, Shift shift, Add add,
    Diagnostics& diags) {
  std::vector<size_t> lengths;
  for (const auto& list : xs) lengths.push_back(list.size());
  if (!check_lists(lengths, diags)) return std::nullopt;
  const auto n = static_cast<int>(xs.size());
  auto slots = xs;
  for (int d = 0; d < n; ++d) {
    for (int k = 0; k < n; ++k) {
      const auto chunk = static_cast<size_t>(scatter_target(n, d, k, shift));
      slots[static_cast<size_t>(d)][chunk] =
          xs[static_cast<size_t>(d)][static_cast<size_t>(k)];
    }
  }
  execute(scatter_schedule(n, shift), slots, add);
  std::vector<T> sums;
  for (size_t d = 0; d < xs.size(); ++d) sums.push_back(slots[d][d]);
  return sums;
}

// Does the same for elements with features: xs[device][k][feature], with the
// same number of features everywhere.
template <typename T, typename Add>
std::optional<std::vector<std::vector<T>>> async_scatter_split(
    const std::vector<std::vector<std::vector<T>>>& xs, Add add,
    Diagnostics& diags) {
  using Features = std::vector<T>;
  std::vector<size_t> lengths;
  for (const auto& list : xs) lengths.push_back(list.size());
  if (!check_lists(lengths, diags)) return std::nullopt;
  const auto n = static_cast<int>(xs.size());
  std::vector<std::vector<Features>> slots(
      xs.size(), std::vector<Features>(2 * xs.size()));
  for (int d = 0; d < n; ++d) {
    for (int k = 0; k < n; ++k) {
      const Features& x = xs[static_cast<size_t>(d)][static_cast<size_t>(k)];
      const auto middle = x.begin() + static_cast<std::ptrdiff_t>(x.size() / 2);
      auto& own = slots[static_cast<size_t>(d)];
      const auto up = static_cast<size_t>(scatter_target(n, d, k, Shift::Up));
      const auto down =
          static_cast<size_t>(scatter_target(n, d, k, Shift::Down));
      own[2 * up].assign(x.begin(), middle);
      own[2 * down + 1].assign(middle, x.end());
    }
  }
  execute(split_scatter_schedule(n), slots,
          [&](const Features& arriving, const Features& own) {
            SHARDPLAN_CHECK(arriving.size() == own.size());
            Features sums;
            for (size_t i = 0; i < own.size(); ++i) {
              sums.push_back(add(arriving[i], own[i]));
            }
            return sums;
          });
  std::vector<Features> sums;
  for (size_t d = 0; d < xs.size(); ++d) {
    Features both = slots[d][2 * d];
    const Features& rest = slots[d][2 * d + 1];
    both.insert(both.end(), rest.begin(), rest.end());
    sums.push_back(std::move(both));
  }
  return sums;
}

// Returns each device's slice of a dimension of `size`. Slices are equally
// long; the remainder at the end belongs to no device.
std::vector<Slice> split_array_over_mesh(int64_t size, int devices);

}  // namespace shardplan
