// SPDX-License-Identifier: Apache-2.0
// The least of random trees is found without a look at all of them, whatever
// the number of threads, and bounds stay below what they are of.
#include "search/best_first.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <random>
#include <vector>

#include <doctest/doctest.h>

namespace shardplan {
namespace {

// A tree as a list: children, a value, and a bound that no value below is
// under.
struct TreeNode {
  std::vector<size_t> children;
  std::optional<double> value;
  double bound = 0;
};

struct Tree {
  std::vector<TreeNode> nodes;
  double least = std::numeric_limits<double>::infinity();
};

double grow(Tree& tree, std::mt19937& random, size_t at, int depth) {
  double least = std::numeric_limits<double>::infinity();
  if (random() % 3 != 0) {
    const auto value = static_cast<double>(random() % 50);
    tree.nodes[at].value = value;
    least = value;
  }
  const size_t children = depth == 0 ? 0 : random() % 4;
  for (size_t i = 0; i < children; ++i) {
    tree.nodes.emplace_back();
    const size_t child = tree.nodes.size() - 1;
    tree.nodes[at].children.push_back(child);
    least = std::min(least, grow(tree, random, child, depth - 1));
  }
  tree.nodes[at].bound = std::isinf(least)
                             ? static_cast<double>(random() % 50)
                             : least - static_cast<double>(random() % 5);
  return least;
}

Tree drawn_tree(unsigned seed) {
  std::mt19937 random(seed);
  Tree tree;
  tree.nodes.emplace_back();
  tree.least = grow(tree, random, 0, 4);
  return tree;
}

SearchEnd<size_t> search(const Tree& tree, const SearchBudget& budget) {
  return best_first<size_t>(
      {{tree.nodes[0].bound, 0}}, budget,
      [&](size_t at) {
        LookedAt<size_t> looked;
        looked.value = tree.nodes[at].value;
        for (const size_t child : tree.nodes[at].children) {
          looked.branches.push_back({tree.nodes[child].bound, child});
        }
        return looked;
      },
      [](size_t, const LookedAt<size_t>&) {});
}

TEST_CASE("search: the least of random trees, for any number of threads") {
  int64_t looks = 0;
  int64_t nodes = 0;
  for (unsigned seed = 0; seed < 10'000; ++seed) {
    const Tree tree = drawn_tree(seed);
    SearchBudget budget;
    const auto end = search(tree, budget);
    CAPTURE(seed);
    REQUIRE(end.value.value_or(tree.least) == tree.least);
    REQUIRE(end.value.has_value() == !std::isinf(tree.least));
    if (end.value) REQUIRE(end.lower_bound == *end.value);
    looks += end.looks;
    nodes += static_cast<int64_t>(tree.nodes.size());
    if (seed % 100 != 0) continue;
    budget.threads = 3;
    const auto threaded = search(tree, budget);
    CHECK(threaded.value == end.value);
    CHECK(threaded.looks == end.looks);
  }
  CHECK(looks < nodes);
}

TEST_CASE("search: what a budget leaves alone keeps its bounds") {
  for (unsigned seed = 0; seed < 2'000; ++seed) {
    const Tree tree = drawn_tree(seed);
    SearchBudget budget;
    budget.together = 1;
    budget.looks = seed % 5;
    CAPTURE(seed);
    const auto cut = search(tree, budget);
    CHECK(cut.looks <= budget.looks);
    CHECK(cut.lower_bound <= tree.least);
    budget.looks = 1'000'000;
    budget.exact_looks = 1;
    budget.tolerance = 0.1;
    const auto near = search(tree, budget);
    CHECK(near.lower_bound <= tree.least);
    if (near.value) CHECK(*near.value * 0.9 <= near.lower_bound);
    // A value that is known already is not looked for again.
    budget = {};
    budget.value = tree.least;
    CHECK(search(tree, budget).value.value_or(tree.least) == tree.least);
  }
}

}  // namespace
}  // namespace shardplan
