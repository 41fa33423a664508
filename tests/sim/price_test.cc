// SPDX-License-Identifier: Apache-2.0
#include "sim/price.h"

#include <map>
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
  const std::vector<CollectivePrice> prices =
      price(program, Storage::F32, Storage::F32);
  REQUIRE(prices.size() == 1);
  CHECK(prices[0].kind == CollectiveKind::AllReduce);
  CHECK(prices[0].axes == AxisNames{"tp"});
  CHECK(prices[0].algorithm == "ring");
  CHECK(prices[0].cause == Cause::PartialSum);
  // 2 (n - 1) copies of 32 bytes in each of the two groups.
  CHECK(prices[0].bytes == 2 * 6 * 32);
}

TEST_CASE("price: sums are sent in the reduce type, all else as it is kept") {
  testing::SmallGraph g("tp=4");
  const int x = g.input({2, 8}, "None, tp");
  const int h = g.einsum("bd,df->bf", x, g.parameter({8, 4}, "tp, None"));
  g.want(h, "None, None");
  g.want(g.node("relu", {g.input({8}, "tp")}), "None");
  const Program program = g.plan();
  const auto bytes = [&](Storage storage, Storage reduce) {
    std::map<CollectiveKind, int64_t> result;
    for (const CollectivePrice& one : price(program, storage, reduce)) {
      result[one.kind] += one.bytes;
    }
    return result;
  };
  const auto plain = bytes(Storage::F32, Storage::F32);
  const int64_t sums = plain.at(CollectiveKind::AllReduce);
  const int64_t gathers = plain.at(CollectiveKind::AllGather);
  CHECK(sums == 2 * 3 * 32);
  CHECK(gathers == 3 * 32);
  using Bytes = std::map<CollectiveKind, int64_t>;
  CHECK(bytes(Storage::BF16, Storage::F32) ==
        Bytes{{CollectiveKind::AllReduce, sums},
              {CollectiveKind::AllGather, gathers / 2}});
  CHECK(bytes(Storage::F32, Storage::F16) ==
        Bytes{{CollectiveKind::AllReduce, sums / 2},
              {CollectiveKind::AllGather, gathers}});
}

TEST_CASE(
    "price: every instruction sends what it costs, with every algorithm, "
    "form of overlap and type") {
  static const Overlap kForms[] = {Overlap::Off, Overlap::Ring,
                                   Overlap::Bidirectional, Overlap::Split};
  static const Storage kTypes[] = {Storage::F32, Storage::BF16, Storage::F16};
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
    const Storage storage = kTypes[seed % 3];
    const Storage reduce = kTypes[seed / 3 % 3];
    const Execution run =
        execute(program, *values, {Arithmetic::F32, 1, false, storage, reduce});
    std::vector<int64_t> priced(program.instructions.size());
    for (const CollectivePrice& one : price(program, storage, reduce)) {
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
