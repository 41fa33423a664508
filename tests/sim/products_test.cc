// SPDX-License-Identifier: Apache-2.0
#include "sim/products.h"

#include <doctest/doctest.h>

#include "sim/verdict.h"
#include "tests/support/small_graph.h"

namespace shardplan {
namespace {

using testing::SmallGraph;

// A product over a contraction of `length`, sharded over four devices.
std::optional<double> ratio(int64_t length, bool integers) {
  SmallGraph g("tp=4");
  const int x = g.input({4, length}, "None, tp", integers ? 8 : 0);
  g.einsum("bd,df->bf", x, g.parameter({length, 8}, "tp, None"));
  const Program program = g.plan();
  std::vector<Tensor> values = g.values();
  if (integers) {
    Tensor& w = values[1];
    for (int64_t i = 0; i < w.elements(); ++i) {
      w.data<float>()[i] = static_cast<float>(i % 5);
    }
  }
  return bound_ratio_of(
      program, 0, [&](int value) { return values[static_cast<size_t>(value)]; },
      {});
}

TEST_CASE("products: rounding stays within its bound, and is seen") {
  for (const int64_t length : {4, 64, 512}) {
    CAPTURE(length);
    const std::optional<double> found = ratio(length, false);
    REQUIRE(found.has_value());
    CHECK(*found > 0);
    CHECK(*found <= 1);
  }
}

TEST_CASE("products: exact products have no error") {
  CHECK(ratio(64, true) == 0.0);
}

TEST_CASE("products: what is no product has no ratio") {
  SmallGraph g("tp=2");
  g.node("relu", {g.input({4}, "tp")});
  const Program program = g.plan();
  CHECK_FALSE(is_product(g.graph.nodes[0]));
  const std::vector<Tensor> values = g.values();
  CHECK_FALSE(
      bound_ratio_of(program, 0,
                     [&](int v) { return values[static_cast<size_t>(v)]; }, {})
          .has_value());
}

}  // namespace
}  // namespace shardplan
