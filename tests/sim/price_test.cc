// SPDX-License-Identifier: Apache-2.0
#include "sim/price.h"

#include <numeric>

#include <doctest/doctest.h>

#include "sim/execute.h"
#include "sim/values.h"
#include "tests/support/random_graph.h"
#include "tests/support/small_graph.h"

namespace shardplan {
namespace {

TEST_CASE("price: an all-reduce of 8 floats over 4 devices") {
  testing::SmallGraph g("dp=2,tp=4");
  const int x = g.input({2, 8}, "None, tp");
  g.want(g.einsum("bd,df->bf", x, g.parameter({8, 4}, "tp, None")),
         "None, None");
  const Program program = g.plan();
  const std::vector<CollectivePrice> prices = price(program);
  REQUIRE(prices.size() == 1);
  CHECK(prices[0].kind == CollectiveKind::AllReduce);
  CHECK(prices[0].axes == AxisNames{"tp"});
  CHECK(prices[0].algorithm == "ring");
  CHECK(prices[0].cause == Cause::PartialSum);
  // 2 (n - 1) copies of 32 bytes in each of the two groups.
  CHECK(prices[0].bytes == 2 * 6 * 32);
}

TEST_CASE(
    "price: every instruction sends what it costs, with every algorithm "
    "and form of overlap") {
  static const Overlap kForms[] = {Overlap::Off, Overlap::Ring,
                                   Overlap::Bidirectional, Overlap::Split};
  int64_t compared = 0;
  for (uint64_t seed = 0; seed < 120; ++seed) {
    CAPTURE(seed);
    testing::Random random(seed);
    const Mesh m = testing::random_mesh(random, 16);
    const Graph graph = testing::random_graph(random, 6);
    const WantedLayouts wanted = testing::random_layouts(random, m, graph);
    const Algorithm& algorithm = algorithms()[seed % algorithms().size()];
    const Program program =
        partition(graph, m, wanted, {kForms[seed / 3 % 4], &algorithm});
    Diagnostics diags;
    const auto values = make_values(graph, ValueSource::Random, 1, diags);
    const Execution run =
        execute(program, *values, {Arithmetic::F32, 1, false});
    std::vector<int64_t> priced(program.instructions.size());
    for (const CollectivePrice& one : price(program)) {
      priced[static_cast<size_t>(one.instruction)] = one.bytes;
    }
    for (size_t i = 0; i < priced.size(); ++i) {
      CAPTURE(i);
      CHECK(std::accumulate(run.sent[i].begin(), run.sent[i].end(),
                            int64_t{0}) == priced[i]);
      compared += priced[i] > 0;
    }
  }
  CHECK(compared > 100);
}

}  // namespace
}  // namespace shardplan
