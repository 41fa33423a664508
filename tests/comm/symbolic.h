// SPDX-License-Identifier: Apache-2.0
// Schedules executed on symbols, and held against what their kind promises.
//
// A value is a list of (contributor, chunk); a sum is both lists. What a rank
// has at the end must be the definition's, every contribution exactly once.
#pragma once

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "comm/collective.h"

namespace shardplan::testing {

using Symbols = std::vector<std::pair<int, int>>;  // sorted when compared
using Slots = std::vector<std::vector<Symbols>>;   // [rank][chunk]

inline Symbols sum(const Symbols& arriving, const Symbols& own) {
  Symbols result = arriving;
  result.insert(result.end(), own.begin(), own.end());
  return result;
}

// Who begins with a chunk: everyone for sums, else its owner alone.
inline bool begins_with(CollectiveKind kind, const Schedule& s, int rank,
                        int chunk) {
  const int per_rank = s.chunks / s.ranks;  // where shards are owned
  switch (kind) {
    case CollectiveKind::AllReduce:
    case CollectiveKind::ReduceScatter:
      return true;
    case CollectiveKind::Broadcast:
      return rank == 0;
    default:
      return chunk / per_rank == rank;
  }
}

// What a rank must have of a chunk at the end. `care` is false where the kind
// promises nothing.
inline Symbols promised(CollectiveKind kind, const Schedule& s, int rank,
                        int chunk, bool& care) {
  const int n = s.ranks;
  const int per_rank = s.chunks / n;
  care = true;
  switch (kind) {
    case CollectiveKind::AllGather:
      return {{chunk / per_rank, chunk}};
    case CollectiveKind::ReduceScatter:
    case CollectiveKind::AllReduce: {
      care = kind == CollectiveKind::AllReduce || chunk / per_rank == rank;
      Symbols all;
      for (int r = 0; care && r < n; ++r) all.emplace_back(r, chunk);
      return all;
    }
    case CollectiveKind::AllToAll: {
      const int pieces = per_rank / n;
      care = chunk / pieces % n == rank;
      return {{chunk / per_rank, chunk}};
    }
    case CollectiveKind::Permute:
      care = (chunk / per_rank + 1) % n == rank;
      return {{chunk / per_rank, chunk}};
    case CollectiveKind::Broadcast:
      break;
  }
  return {{0, chunk}};
}

inline Slots beginning(CollectiveKind kind, const Schedule& s) {
  Slots slots(static_cast<size_t>(s.ranks));
  for (int rank = 0; rank < s.ranks; ++rank) {
    auto& own = slots[static_cast<size_t>(rank)];
    own.resize(static_cast<size_t>(s.chunks));
    for (int chunk = 0; chunk < s.chunks; ++chunk) {
      if (!begins_with(kind, s, rank, chunk)) continue;
      own[static_cast<size_t>(chunk)] = {{rank, chunk}};
    }
  }
  return slots;
}

// "" when the schedule does what its kind promises, else the first rank and
// chunk that are wrong.
inline std::string wrong_result(CollectiveKind kind, const Schedule& s) {
  Slots slots = beginning(kind, s);
  execute(s, slots, sum);
  for (int rank = 0; rank < s.ranks; ++rank) {
    for (int chunk = 0; chunk < s.chunks; ++chunk) {
      bool care = true;
      const Symbols wanted = promised(kind, s, rank, chunk, care);
      Symbols& got =
          slots[static_cast<size_t>(rank)][static_cast<size_t>(chunk)];
      std::sort(got.begin(), got.end());
      if (care && got != wanted) {
        return "rank " + std::to_string(rank) + " chunk " +
               std::to_string(chunk);
      }
    }
  }
  return "";
}

// "" when every transfer is within bounds, goes to another rank, and no rank
// both sends and receives a chunk in one step, nor receives one twice unless
// it is added.
inline std::string wrong_step(const Schedule& s) {
  for (size_t i = 0; i < s.steps.size(); ++i) {
    const std::string where = "step " + std::to_string(i);
    if (s.steps[i].empty()) return where + " is empty";
    std::vector<char> received(static_cast<size_t>(s.ranks) *
                               static_cast<size_t>(s.chunks));
    const auto slots = [&](int rank, const Transfer& t) {
      return received.begin() + std::ptrdiff_t{rank} * s.chunks + t.first_chunk;
    };
    for (const Transfer& t : s.steps[i]) {
      if (t.source == t.target || t.source < 0 || t.target < 0 ||
          t.source >= s.ranks || t.target >= s.ranks || t.first_chunk < 0 ||
          t.chunk_count < 1 || t.first_chunk + t.chunk_count > s.chunks) {
        return where + " is out of bounds";
      }
      const auto first = slots(t.target, t);
      if (!t.reduce && std::count(first, first + t.chunk_count, 1) > 0) {
        return where + " overwrites";
      }
      std::fill_n(first, t.chunk_count, 1);
    }
    for (const Transfer& t : s.steps[i]) {
      const auto first = slots(t.source, t);
      if (std::count(first, first + t.chunk_count, 1) > 0) {
        return where + " sends what it receives";
      }
    }
  }
  return "";
}

}  // namespace shardplan::testing
