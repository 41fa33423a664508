// SPDX-License-Identifier: Apache-2.0

#include "comm/collective.h"

#include <algorithm>
#include <limits>

#include "base/checked.h"
#include "base/words.h"
#include "comm/algorithms/algorithms.h"

namespace shardplan {
namespace {

// Names in the order of CollectiveKind.
constexpr std::string_view kNames[kCollectiveKinds] = {
    "all-gather", "reduce-scatter", "all-reduce",
    "all-to-all", "permute",        "broadcast"};

// Returns the sizes of the pieces of all shards, cut so that there are `chunks`
// pieces in total.
std::vector<int64_t> piece_sizes(const EvenCut& shards, int64_t chunks) {
  SHARDPLAN_CHECK(chunks % shards.parts == 0);
  std::vector<int64_t> sizes;
  for (int64_t shard = 0; shard < shards.parts; ++shard) {
    const EvenCut pieces{shards.size(shard), chunks / shards.parts};
    for (int64_t i = 0; i < pieces.parts; ++i) sizes.push_back(pieces.size(i));
  }
  return sizes;
}

}  // namespace

std::string_view collective_name(CollectiveKind kind) {
  return nth(kNames, kind);
}

std::optional<CollectiveKind> find_collective(std::string_view name) {
  const auto* found = std::find(std::begin(kNames), std::end(kNames), name);
  if (found == std::end(kNames)) return std::nullopt;
  return static_cast<CollectiveKind>(found - std::begin(kNames));
}

Schedule empty_schedule(int ranks, int64_t chunks) {
  SHARDPLAN_CHECK(ranks >= 1 && chunks <= std::numeric_limits<int>::max());
  return {ranks, static_cast<int>(chunks), {}};
}

void append(Schedule& schedule, const Schedule& next) {
  SHARDPLAN_CHECK(schedule.ranks == next.ranks &&
                  schedule.chunks == next.chunks);
  schedule.steps.insert(schedule.steps.end(), next.steps.begin(),
                        next.steps.end());
}

Schedule backwards(const Schedule& schedule) {
  Schedule result = schedule;
  std::ranges::reverse(result.steps);
  for (Step& step : result.steps) {
    for (Transfer& t : step) {
      std::swap(t.source, t.target);
      t.reduce = true;
    }
  }
  return result;
}

std::vector<int64_t> chunk_sizes(CollectiveKind kind, const Schedule& schedule,
                                 int64_t payload) {
  const int n = schedule.ranks;
  const bool is_sharded = kind == CollectiveKind::AllGather ||
                          kind == CollectiveKind::ReduceScatter ||
                          kind == CollectiveKind::AllToAll;
  // In these, every rank has a payload of its own.
  const int payloads =
      kind == CollectiveKind::AllToAll || kind == CollectiveKind::Permute ? n
                                                                          : 1;
  const auto sizes =
      piece_sizes({payload, is_sharded ? n : 1}, schedule.chunks / payloads);
  std::vector<int64_t> all;
  for (int i = 0; i < payloads; ++i) {
    all.insert(all.end(), sizes.begin(), sizes.end());
  }
  return all;
}

Traffic traffic(const Schedule& schedule,
                const std::vector<int64_t>& chunk_bytes) {
  SHARDPLAN_CHECK(chunk_bytes.size() == to_size(schedule.chunks));
  std::vector<int64_t> before = {0};  // bytes of all chunks before each
  for (const int64_t bytes : chunk_bytes) {
    before.push_back(before.back() + bytes);
  }
  Traffic result;
  std::vector<int64_t> sent(to_size(schedule.ranks), 0);
  for (const Step& step : schedule.steps) {
    int64_t bytes = 0;
    for (const Transfer& t : step) {
      const auto first = to_size(t.first_chunk);
      const auto count = to_size(t.chunk_count);
      const int64_t carried = before[first + count] - before[first];
      nth(sent, t.source) += carried;
      bytes += carried;
    }
    result.total += bytes;
    result.steps += bytes > 0 ? 1 : 0;
  }
  result.busiest = *std::ranges::max_element(sent);
  return result;
}

std::span<const Algorithm> algorithms() {
  // The first algorithm that supports a collective is the default, and sends no
  // more than it must.
  static const Algorithm kAlgorithms[] = {
      kRing,       kRingDown,          kSplitRing,
      kPairwise,   kBidirectionalRing, kHalvingDoubling,
      kBinaryTree, kHierarchical,      kDirect};
  return kAlgorithms;
}

const Algorithm* find_algorithm(std::string_view name) {
  return find_named(algorithms(), name);
}

const Algorithm& algorithm_for(CollectiveKind kind, const Ranks& ranks,
                               const Algorithm* wanted) {
  if (wanted != nullptr && wanted->supports(kind, ranks)) return *wanted;
  const auto all = algorithms();
  const auto first = std::ranges::find_if(all, [&](const Algorithm& algorithm) {
    return algorithm.supports(kind, ranks);
  });
  SHARDPLAN_CHECK(first != all.end());
  return *first;
}

int64_t least_copies(CollectiveKind kind, int ranks) {
  SHARDPLAN_CHECK(ranks >= 1);
  if (kind == CollectiveKind::AllReduce) return 2 * (int64_t{ranks} - 1);
  // A single rank keeps what it has.
  if (kind == CollectiveKind::Permute) return ranks == 1 ? 0 : ranks;
  return ranks - 1;
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

int64_t wrap(int64_t index, int64_t count) {
  const int64_t rest = index % count;
  return rest < 0 ? rest + count : rest;
}

int64_t EvenCut::begin(int64_t part) const {
  return static_cast<int64_t>(Int128{total} * part / parts);
}

int64_t EvenCut::size(int64_t part) const {
  const int64_t at = wrap(part, parts);
  return begin(at + 1) - begin(at);
}

int64_t EvenCut::run(int64_t first, int64_t count) const {
  SHARDPLAN_CHECK(0 <= count && count <= parts);
  const int64_t from = wrap(first, parts);
  const int64_t to = from + count;
  if (to <= parts) return begin(to) - begin(from);
  return total - begin(from) + begin(to - parts);
}

int64_t saturated_product(int64_t a, int64_t b) {
  return checked_mul(a, b).value_or(std::numeric_limits<int64_t>::max());
}

}  // namespace shardplan
