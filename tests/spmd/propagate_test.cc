// SPDX-License-Identifier: Apache-2.0
#include "spmd/propagate.h"

#include <doctest/doctest.h>

#include "tests/support/builders.h"
#include "tests/support/small_graph.h"

namespace shardplan {
namespace {

using testing::SmallGraph;
using testing::spec;

// What is suggested for a value.
PartitionSpec suggestion(SmallGraph& g, int value) {
  g.wanted.resize(g.graph.values.size());
  return suggest(g.graph, g.mesh, g.wanted)[static_cast<size_t>(value)];
}

TEST_CASE("propagate: shardings go forwards through operations") {
  SmallGraph g("dp=2,tp=2");
  const int x = g.input({4, 8}, "dp, None");
  const int y = g.einsum("bd,df->bf", x, g.parameter({8, 8}, "None, tp"));
  const int z = g.node("relu", {y});
  CHECK(suggestion(g, y) == spec("dp, tp"));
  CHECK(suggestion(g, z) == spec("dp, tp"));
}

TEST_CASE("propagate: and backwards, from where one is wanted") {
  SmallGraph g("dp=2");
  const int x = g.input({4, 8}, "None, None");
  const int y = g.node("relu", {x});
  const int z = g.node("tanh", {y});
  g.want(z, "None, dp");
  CHECK(suggestion(g, y) == spec("None, dp"));
  CHECK(suggestion(g, x) == spec("None, None"));  // wanted so
}

TEST_CASE("propagate: an axis is suggested for one dimension only") {
  SmallGraph g("tp=2");
  const int x = g.input({4, 8}, "tp, None");
  const int y = g.einsum("bd,df->bf", x, g.parameter({8, 8}, "None, tp"));
  CHECK(suggestion(g, y) == spec("tp, None"));
}

TEST_CASE("propagate: what does not divide is not suggested") {
  SmallGraph g("tp=4");
  const int x = g.input({8, 3}, "tp, None");
  const int y =
      g.node("reshape", {x}, {{"shape", std::vector<int64_t>{2, 12}}});
  CHECK(suggestion(g, y) == spec("None, None"));
}

TEST_CASE("propagate: weights are parameters, and what is made of them alone") {
  SmallGraph g("tp=2");
  const int x = g.input({4, 8}, "None, None");
  const int w = g.parameter({8, 8}, "None, None");
  const int turned =
      g.node("transpose", {w}, {{"order", std::vector<int64_t>{1, 0}}});
  const int y = g.einsum("bd,df->bf", x, turned);
  const std::vector<bool> weights = find_weights(g.graph);
  CHECK_FALSE(weights[static_cast<size_t>(x)]);
  CHECK(weights[static_cast<size_t>(w)]);
  CHECK(weights[static_cast<size_t>(turned)]);
  CHECK_FALSE(weights[static_cast<size_t>(y)]);
}

std::vector<bool> batch_of(const SmallGraph& g, int value) {
  return find_batch_dims(g.graph,
                         find_weights(g.graph))[static_cast<size_t>(value)];
}

TEST_CASE(
    "propagate: the batch is the first dimension of an input without "
    "labels") {
  SmallGraph g("tp=2");
  const int x = g.input({4, 6, 8}, "");
  const int w = g.parameter({8, 8}, "");
  const int y = g.einsum("bsd,df->fbs", x, w);
  CHECK(batch_of(g, x) == std::vector<bool>{true, false, false});
  CHECK(batch_of(g, w) == std::vector<bool>{false, false});
  CHECK(batch_of(g, y) == std::vector<bool>{false, true, false});
  // One dimension is not a batch of anything.
  CHECK(batch_of(g, g.input({4}, "")) == std::vector<bool>{false});
}

TEST_CASE("propagate: labels say which dimension is the batch") {
  for (const char* label : {"BATCH", "batch", "activation_batch"}) {
    SmallGraph g("tp=2");
    const int x = g.input({6, 4}, "");
    g.graph.values[static_cast<size_t>(x)].axes = {"LENGTH", label};
    CHECK(batch_of(g, x) == std::vector<bool>{false, true});
    CHECK(batch_of(g, g.node("relu", {x})) == std::vector<bool>{false, true});
  }
  SmallGraph g("tp=2");
  const int x = g.input({6, 4}, "");
  g.graph.values[static_cast<size_t>(x)].axes = {"LENGTH", "EMBED"};
  CHECK(batch_of(g, x) == std::vector<bool>{false, false});
}

}  // namespace
}  // namespace shardplan
