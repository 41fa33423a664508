// SPDX-License-Identifier: Apache-2.0
// Best-first branch and bound: the cheapest of many candidates, without a look
// at most of them.
//
// A branch stands for candidates of which none costs less than its bound. To
// look at a branch gives the value of one of its candidates, branches that the
// others are in, or both. The branch with the least bound comes first, of equal
// ones the one that was there first. It ends where no bound is below the best
// value: that value is the least of all, exactly. A budget counts looks, never
// seconds; what it cuts off keeps its bounds, of which the least is the lower
// bound of the whole (Land and Doig, 1960).
//
// As many branches are looked at together as `together` says, whatever the
// number of threads, so that the answer depends on neither.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <queue>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/parallel.h"

namespace shardplan {

template <typename Item>
struct Branch {
  double bound = 0;
  Item item;
};

template <typename Item>
struct LookedAt {
  std::vector<Branch<Item>> branches;
  std::optional<double> value;  // empty: it is none that counts
};

struct SearchBudget {
  int64_t looks = std::numeric_limits<int64_t>::max();
  size_t together = 8;
  int threads = 1;
};

template <typename Item>
struct SearchEnd {
  std::optional<double> value;  // the least; empty: no candidate counts
  double lower_bound = std::numeric_limits<double>::infinity();
  int64_t looks = 0;
  // Branches that nobody looked at: none of their candidates costs less than
  // the best, or, with an exhausted budget, than `lower_bound`.
  std::vector<Branch<Item>> left;
};

// Calls `look(item)`, which returns a LookedAt or what derives from it, from up
// to `threads` threads at once, and `take(item, looked)` in order from the
// caller's. Branches have no lower bounds than what they are branches of.
template <typename Item, typename Look, typename Take>
SearchEnd<Item> best_first(std::vector<Branch<Item>> roots,
                           const SearchBudget& budget, Look look, Take take) {
  struct Waiting {
    double bound;
    int64_t number;
    Item item;
  };
  const auto later = [](const Waiting& a, const Waiting& b) {
    return std::pair(a.bound, a.number) > std::pair(b.bound, b.number);
  };
  std::priority_queue<Waiting, std::vector<Waiting>, decltype(later)> waiting(
      later);
  int64_t number = 0;
  const auto add = [&](std::vector<Branch<Item>> branches, double least) {
    for (Branch<Item>& each : branches) {
      waiting.push(
          {std::max(each.bound, least), number++, std::move(each.item)});
    }
  };
  add(std::move(roots), -std::numeric_limits<double>::infinity());
  SearchEnd<Item> end;
  const auto is_open = [&] {
    return !waiting.empty() && (!end.value || waiting.top().bound < *end.value);
  };
  while (is_open() && end.looks < budget.looks) {
    std::vector<Branch<Item>> now;
    while (is_open() && now.size() < budget.together &&
           end.looks < budget.looks) {
      now.push_back({waiting.top().bound, waiting.top().item});
      waiting.pop();
      ++end.looks;
    }
    std::vector<std::invoke_result_t<Look, const Item&>> looked(now.size());
    parallel_for(static_cast<int64_t>(now.size()), budget.threads,
                 [&](int64_t i) {
                   const auto at = static_cast<size_t>(i);
                   looked[at] = look(now[at].item);
                 });
    for (size_t i = 0; i < now.size(); ++i) {
      const auto& value = looked[i].value;
      if (value && (!end.value || *value < *end.value)) end.value = value;
      take(now[i].item, looked[i]);
      add(std::move(looked[i].branches), now[i].bound);
    }
  }
  if (end.value) end.lower_bound = *end.value;
  for (; !waiting.empty(); waiting.pop()) {
    end.lower_bound = std::min(end.lower_bound, waiting.top().bound);
    end.left.push_back({waiting.top().bound, waiting.top().item});
  }
  return end;
}

}  // namespace shardplan
