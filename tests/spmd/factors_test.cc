// SPDX-License-Identifier: Apache-2.0
#include "spmd/factors.h"

#include <doctest/doctest.h>

#include "tests/support/builders.h"
#include "tests/support/random_graph.h"
#include "tests/support/small_graph.h"

namespace shardplan {
namespace {

using testing::mesh;
using testing::spec;

// The rule of an operation on one operand.
ShardingRule rule_of(const Shape& shape, std::string_view op,
                     Attributes attributes) {
  testing::SmallGraph g("a=2");
  const int x = g.input(shape, "");
  g.node(op, {x}, std::move(attributes));
  return g.graph.nodes[0].rule;
}

ShardingRule reshape_rule(const Shape& from, const Shape& to) {
  return rule_of(from, "reshape", {{"shape", to}});
}

TEST_CASE("factors: a product's dimensions are one factor each") {
  testing::SmallGraph g("a=2,b=2");
  const int x = g.input({4, 8}, "");
  g.einsum("ik,kj->ij", x, g.parameter({8, 6}, ""));
  const ShardingRule& rule = g.graph.nodes[0].rule;
  const FactorAxes axes =
      factor_axes(g.mesh, rule, rule.operands[0], spec("a, b"));
  CHECK(spec_of(g.mesh, rule, rule.operands[0], axes) == spec("a, b"));
  CHECK(spec_of(g.mesh, rule, rule.operands[1], axes) == spec("b, None"));
  CHECK(spec_of(g.mesh, rule, rule.result, axes) == spec("a, None"));
}

TEST_CASE("factors: the major part of a dimension takes its first axes") {
  const Mesh m = mesh("a=2,b=2,c=3");
  const ShardingRule rule = reshape_rule({4, 6}, {24});
  const auto across = [&](std::string_view text) {
    const FactorAxes axes = factor_axes(m, rule, rule.result, spec(text));
    return spec_of(m, rule, rule.operands[0], axes).value();
  };
  CHECK(across("a") == spec("a, None"));
  CHECK(across("(a, b)") == spec("(a, b), None"));
  // All four rows of the first dimension are apart: the next axis cuts the
  // second.
  CHECK(across("(a, b, c)") == spec("(a, b), c"));
  // c does not divide the four rows of the major factor; b is not looked at.
  CHECK(across("(a, c, b)") == spec("a, None"));
  CHECK(across("c") == spec("None, None"));
}

TEST_CASE(
    "factors: a minor factor can only be cut where the major one is cut "
    "into single rows") {
  const Mesh m = mesh("a=2,b=2,c=3");
  const ShardingRule rule = reshape_rule({4, 6}, {24});
  const auto back = [&](std::string_view text) {
    const FactorAxes axes = factor_axes(m, rule, rule.operands[0], spec(text));
    return spec_of(m, rule, rule.result, axes);
  };
  CHECK(back("a, None") == spec("a"));
  CHECK(back("(a, b), c") == spec("(a, b, c)"));
  CHECK_FALSE(back("None, c").has_value());
  CHECK_FALSE(back("a, c").has_value());
}

TEST_CASE("factors: a factor that is needed whole takes no axes") {
  const Mesh m = mesh("a=2");
  const ShardingRule rule =
      rule_of({4, 4}, "slice", {{"dim", 0.0}, {"begin", 1.0}, {"end", 3.0}});
  const FactorAxes axes =
      factor_axes(m, rule, rule.operands[0], spec("a, None"));
  CHECK(spec_of(m, rule, rule.result, axes) == spec("None, None"));
  const FactorAxes other =
      factor_axes(m, rule, rule.operands[0], spec("None, a"));
  CHECK(spec_of(m, rule, rule.result, other) == spec("None, a"));
}

TEST_CASE("factors: what factors can take of a spec comes back as it was") {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    CAPTURE(seed);
    testing::Random random(seed);
    const Mesh m = testing::random_mesh(random, 16);
    const Graph graph = testing::random_graph(random, 8);
    for (const GraphNode& node : graph.nodes) {
      const Shape& shape =
          graph.values[static_cast<size_t>(node.operands[0])].shape;
      const Layout layout = testing::random_layout(random, m, shape);
      const auto& dims = node.rule.operands[0];
      const FactorAxes once = factor_axes(m, node.rule, dims, layout.spec);
      const auto kept = spec_of(m, node.rule, dims, once);
      // A dimension whose major factor gets fewer axes than it has rows ends
      // there, so its minor factors have none: there always is a spec.
      REQUIRE(kept.has_value());
      CHECK(factor_axes(m, node.rule, dims, *kept) == once);
      for (size_t d = 0; d < dims.size(); ++d) {
        const AxisNames& had = layout.spec.dims[d];
        CHECK(kept->dims[d].size() <= had.size());
        CHECK(std::equal(kept->dims[d].begin(), kept->dims[d].end(),
                         had.begin()));
      }
    }
  }
}

}  // namespace
}  // namespace shardplan
