// SPDX-License-Identifier: Apache-2.0
#include "spmd/groups.h"

#include <algorithm>
#include <set>

#include <doctest/doctest.h>

#include "tests/support/builders.h"
#include "tests/support/random_graph.h"
#include "tests/support/small_graph.h"

namespace shardplan {
namespace {

using testing::layout;
using testing::mesh;
using testing::partial;

using Groups = std::vector<std::vector<int>>;

TEST_CASE("groups: devices that differ along the axes alone, in their order") {
  const Mesh m = mesh("dp=2,tp=3");  // device = 3 dp + tp
  CHECK(device_groups(m, {"tp"}) == Groups{{0, 1, 2}, {3, 4, 5}});
  CHECK(device_groups(m, {"dp"}) == Groups{{0, 3}, {1, 4}, {2, 5}});
  CHECK(device_groups(m, {"dp", "tp"}) == Groups{{0, 1, 2, 3, 4, 5}});
  // tp is the major one: ranks go through dp first.
  CHECK(device_groups(m, {"tp", "dp"}) == Groups{{0, 3, 1, 4, 2, 5}});
  CHECK(device_groups(m, {}) == Groups{{0}, {1}, {2}, {3}, {4}, {5}});
}

TEST_CASE("groups: the last axis is the fast one") {
  const Mesh m = mesh("dp=2,tp=3");
  CHECK(ranks_along(m, {"dp", "tp"}).count == 6);
  CHECK(ranks_along(m, {"dp", "tp"}).inner == 3);
  CHECK(ranks_along(m, {"tp", "dp"}).inner == 2);
  CHECK(ranks_along(m, {"tp"}).count == 3);
  CHECK(ranks_along(m, {"tp"}).inner == 1);
}

TEST_CASE("groups: the shard of every dimension is a mixed-radix number") {
  const Mesh m = mesh("a=2,b=3");
  CHECK(shard_indices(m, layout("(a, b), None", 2), 5) ==
        std::vector<int64_t>{5, 0});
  CHECK(shard_indices(m, layout("(b, a), None", 2), 5) ==
        std::vector<int64_t>{5, 0});
  CHECK(shard_indices(m, layout("(b, a), None", 2), 1) ==
        std::vector<int64_t>{2, 0});
  CHECK(shard_indices(m, layout("b, a", 2), 4) == std::vector<int64_t>{1, 1});
}

TEST_CASE("groups: swapping the axes of a dimension transposes the grid") {
  const Mesh m = mesh("a=2,b=2");
  CHECK(permute_sources(m, layout("(a, b)", 1), layout("(b, a)", 1)) ==
        std::vector<int>{0, 2, 1, 3});
  // Devices 0 and 3 have the same shard either way, and keep it.
  CHECK(permute_sources(m, layout("a", 1), layout("b", 1)) ==
        std::vector<int>{0, 2, 1, 3});
  CHECK(permute_sources(m, layout("a", 1), layout("a", 1)) ==
        std::vector<int>{0, 1, 2, 3});
  // Parts of a sum stay apart.
  CHECK(permute_sources(mesh("a=2,b=2,c=2"), partial("a", 1, {"c"}),
                        partial("b", 1, {"c"})) ==
        std::vector<int>{0, 1, 4, 5, 2, 3, 6, 7});
}

TEST_CASE(
    "groups: a permutation gives everyone what it needs, and everyone "
    "sends once") {
  int tried = 0;
  for (uint64_t seed = 0; seed < 400; ++seed) {
    CAPTURE(seed);
    testing::Random random(seed);
    const Mesh m = testing::random_mesh(random, 24);
    const Shape shape = {24, 24};
    const Layout from = testing::random_layout(random, m, shape);
    const Layout to = testing::random_layout(random, m, shape);
    if (local_shape(m, from, shape) != local_shape(m, to, shape)) continue;
    ++tried;
    const std::vector<int> sources = permute_sources(m, from, to);
    std::set<int> senders(sources.begin(), sources.end());
    CHECK(senders.size() == static_cast<size_t>(m.devices()));
    for (int64_t device = 0; device < m.devices(); ++device) {
      const int64_t source = sources[static_cast<size_t>(device)];
      const auto needed = shard_indices(m, to, device);
      CHECK(shard_indices(m, from, source) == needed);
      if (shard_indices(m, from, device) == needed) CHECK(source == device);
    }
  }
  CHECK(tried > 50);
}

}  // namespace
}  // namespace shardplan
