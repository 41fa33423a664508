// SPDX-License-Identifier: Apache-2.0
#include "comm/collective.h"

#include <algorithm>
#include <limits>

#include "base/checked.h"
#include "comm/algorithms/algorithms.h"
#include "comm/schedule.h"

namespace shardplan {

std::span<const Algorithm> algorithms() {
  // The first that supports a collective does it where none is wished for, and
  // sends no more than it must.
  static const Algorithm kAlgorithms[] = {
      kRing,       kRingDown,          kSplitRing,
      kPairwise,   kBidirectionalRing, kHalvingDoubling,
      kBinaryTree, kHierarchical,      kDirect};
  return kAlgorithms;
}

const Algorithm* find_algorithm(std::string_view name) {
  for (const Algorithm& algorithm : algorithms()) {
    if (algorithm.name == name) return &algorithm;
  }
  return nullptr;
}

const Algorithm& algorithm_for(CollectiveKind kind, const Ranks& ranks,
                               const Algorithm* wanted) {
  if (wanted != nullptr && wanted->supports(kind, ranks)) return *wanted;
  const auto all = algorithms();
  const auto first =
      std::find_if(all.begin(), all.end(), [&](const Algorithm& algorithm) {
        return algorithm.supports(kind, ranks);
      });
  SHARDPLAN_CHECK(first != all.end());
  return *first;
}

int64_t least_copies(CollectiveKind kind, int ranks) {
  SHARDPLAN_CHECK(ranks >= 1);
  if (kind == CollectiveKind::AllReduce) return 2 * (int64_t{ranks} - 1);
  // One rank keeps what it has.
  if (kind == CollectiveKind::Permute) return ranks == 1 ? 0 : ranks;
  return ranks - 1;
}

int64_t least_bytes(CollectiveKind kind, int ranks, int64_t payload) {
  return saturated_product(least_copies(kind, ranks), payload);
}

std::optional<int64_t> priced_bytes(const Algorithm& algorithm,
                                    CollectiveKind kind, const Ranks& ranks,
                                    int64_t payload) {
  if (!algorithm.supports(kind, ranks)) return std::nullopt;
  const int64_t copies = algorithm.copies == nullptr
                             ? least_copies(kind, ranks.count)
                             : algorithm.copies(kind, ranks);
  return saturated_product(copies, payload);
}

std::optional<int64_t> priced_busiest(const Algorithm& algorithm,
                                      CollectiveKind kind, const Ranks& ranks,
                                      int64_t payload) {
  if (!algorithm.supports(kind, ranks)) return std::nullopt;
  // No rank sends more, so that nothing below can overflow.
  if (!checked_mul(payload, 2 * int64_t{ranks.count})) {
    return std::numeric_limits<int64_t>::max();
  }
  int64_t busiest = 0;
  for (int rank = 0; rank < ranks.count; ++rank) {
    busiest = std::max(busiest, algorithm.sent(kind, ranks, rank, payload));
  }
  return busiest;
}

}  // namespace shardplan
