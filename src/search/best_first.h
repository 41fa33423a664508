// SPDX-License-Identifier: Apache-2.0
// best_first(): best-first branch and bound, which finds the cheapest of many
// candidates without looking at most of them.
//
// A branch represents candidates of which none costs less than its bound. A
// look at a branch gives the value of one of its candidates, branches that
// contain the other candidates, or both. The branch with the lowest bound is
// next; among equal bounds, the oldest. The search ends when no bound is below
// the best value: that value is then the exact minimum. A budget counts looks,
// never seconds. Branches that it skips keep their bounds, the lowest of which
// is the lower bound of the whole search (Land and Doig, 1960).
//
// Each round looks at `together` branches, whatever the number of threads, so
// that the answer does not depend on that number.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <queue>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/checked.h"
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
  std::optional<double> value;  // empty: no value counts
};

struct SearchBudget {
  // Returns the number of looks so far, if some of them are free; empty: each
  // look counts. It is called between rounds, and must not depend on the
  // threads.
  std::function<int64_t()> spent = {};
  // The maximum number of looks. After `exact_looks`, branches are skipped if
  // their bound is within the fraction `tolerance` of the best value.
  int64_t looks = std::numeric_limits<int64_t>::max();
  int64_t exact_looks = std::numeric_limits<int64_t>::max();
  double tolerance = 0;
  size_t together = 8;
  int threads = 1;
  std::optional<double> value = {};  // of a candidate that is already known
};

template <typename Item>
struct SearchEnd {
  std::optional<double> value;  // the minimum; empty: no candidate counts
  double lower_bound = std::numeric_limits<double>::infinity();
  int64_t looks = 0;
  // Branches without a look. None of their candidates costs less than the best
  // value or, if the budget skipped them, less than `lower_bound`.
  std::vector<Branch<Item>> left;
};

// Calls `look(item)`, which returns a LookedAt or a class derived from it, from
// up to `threads` threads at once, and `take(item, looked)` in order from the
// caller's thread. A branch's bound is at least that of its parent.
template <typename Item, typename Look, typename Take>
SearchEnd<Item> best_first(std::vector<Branch<Item>> roots,
                           const SearchBudget& budget, Look look, Take take) {
  struct Waiting : Branch<Item> {
    int64_t number = 0;
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
          {{std::max(each.bound, least), std::move(each.item)}, number++});
    }
  };
  add(std::move(roots), -std::numeric_limits<double>::infinity());
  SearchEnd<Item> end;
  end.value = budget.value;
  const auto is_open = [&] {
    if (waiting.empty() || end.looks >= budget.looks) return false;
    if (!end.value) return true;
    const double part =
        end.looks < budget.exact_looks ? 1 : 1 - budget.tolerance;
    return waiting.top().bound < *end.value * part;
  };
  while (is_open()) {
    std::vector<Branch<Item>> now;
    while (is_open() && now.size() < budget.together) {
      now.push_back(waiting.top());
      waiting.pop();
      if (!budget.spent) ++end.looks;
    }
    std::vector<std::invoke_result_t<Look, const Item&>> looked(now.size());
    parallel_for(static_cast<int64_t>(now.size()), budget.threads,
                 [&](int64_t i) {
                   const auto at = to_size(i);
                   looked[at] = look(now[at].item);
                 });
    if (budget.spent) end.looks = budget.spent();
    for (size_t i = 0; i < now.size(); ++i) {
      const auto& value = looked[i].value;
      if (value && (!end.value || *value < *end.value)) end.value = value;
      take(now[i].item, looked[i]);
      add(std::move(looked[i].branches), now[i].bound);
    }
  }
  for (; !waiting.empty(); waiting.pop()) {
    end.lower_bound = std::min(end.lower_bound, waiting.top().bound);
    end.left.push_back(waiting.top());
  }
  if (end.value) end.lower_bound = std::min(end.lower_bound, *end.value);
  return end;
}

}  // namespace shardplan
