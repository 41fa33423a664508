// SPDX-License-Identifier: Apache-2.0
#include "sim/part.h"

#include <doctest/doctest.h>

#include "tests/support/builders.h"
#include "tests/support/small_graph.h"

namespace shardplan {
namespace {

using testing::SmallGraph;

// Factors in the order of the equation: b, d, f.
struct Product {
  Product() : g("dp=2,tp=4") {
    g.einsum("bd,df->bf", g.input({6, 8}, ""), g.parameter({8, 16}, ""));
  }
  const Node& node() const { return g.graph.nodes[0]; }
  // The axes of every factor, given the dimensions of the operands.
  FactorAxes axes(std::string_view x, std::string_view w) const {
    const ShardingRule& rule = node().rule;
    FactorAxes all =
        factor_axes(g.mesh, rule, rule.operands[0], testing::spec(x));
    const FactorAxes more =
        factor_axes(g.mesh, rule, rule.operands[1], testing::spec(w));
    for (size_t f = 0; f < all.size(); ++f) {
      if (all[f].empty()) all[f] = more[f];
    }
    return all;
  }
  SmallGraph g;
};

TEST_CASE("part: a device computes its range of every factor") {
  const Product p;
  const ShardingRule& rule = p.node().rule;
  const auto b = static_cast<size_t>(rule.result[0][0]);
  const auto f = static_cast<size_t>(rule.result[1][0]);
  const FactorAxes axes = p.axes("dp, None", "None, tp");
  const LocalRange last = range_of(p.g.mesh, rule, axes, 7);  // dp=1, tp=3
  CHECK(last.sizes[b] == 3);
  CHECK(last.offsets[b] == 3);
  CHECK(last.sizes[f] == 4);
  CHECK(last.offsets[f] == 12);
  const LocalRange first = range_of(p.g.mesh, rule, axes, 0);
  CHECK(first.offsets == std::vector<int64_t>(first.offsets.size(), 0));
}

TEST_CASE("part: ranges of all devices cover a sharded factor once") {
  const Product p;
  const ShardingRule& rule = p.node().rule;
  const auto f = static_cast<size_t>(rule.result[1][0]);
  std::vector<int> covered(16);
  const FactorAxes axes = p.axes("None, None", "None, (tp, dp)");
  for (int64_t device = 0; device < p.g.mesh.devices(); ++device) {
    const LocalRange range = range_of(p.g.mesh, rule, axes, device);
    for (int64_t i = 0; i < range.sizes[f]; ++i) {
      ++covered[static_cast<size_t>(range.offsets[f] + i)];
    }
  }
  CHECK(covered == std::vector<int>(16, 1));
}

TEST_CASE("part: two operations per multiply-add of what is local") {
  const Product p;
  Part part;
  part.operands = {make_tensor(Element::F64, {3, 8}),
                   make_tensor(Element::F64, {8, 4})};
  part.context.arithmetic = Arithmetic::F64;
  part.context.rule = &p.node().rule;
  part.context.range =
      range_of(p.g.mesh, p.node().rule, p.axes("dp, None", "None, tp"), 0);
  int64_t flops = 100;
  const Tensor result = run_part(p.node(), part, flops);
  CHECK(result.shape == Shape{3, 4});
  CHECK(flops == 100 + 2 * 3 * 8 * 4);
}

}  // namespace
}  // namespace shardplan
