// SPDX-License-Identifier: Apache-2.0
#include "spmd/layout.h"

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

using testing::spec;

TEST_CASE("layout: a spec is padded to the rank, without axes of size 1") {
  const Mesh m = mesh("dp=2,pp=1,tp=4");
  CHECK(layout_of(m, spec("(dp, pp), tp"), 3).spec == spec("dp, tp, None"));
  CHECK(layout_of(m, spec("pp"), 1) == replicated(1));
  CHECK(layout_of(m, spec(""), 0) == replicated(0));
}

TEST_CASE("layout: every axis of a dimension divides the shard") {
  const Mesh m = mesh("dp=2,tp=4");
  CHECK(local_shape(m, layout("(dp, tp), None", 2), {16, 3}) == Shape{2, 3});
  CHECK(local_shape(m, layout("None, dp", 2), {16, 6}) == Shape{16, 3});
  // A part of a sum is as large as the sum.
  CHECK(local_shape(m, partial("None", 1, {"tp"}), {16}) == Shape{16});
  CHECK(local_shape(m, layout("dp", 1), {0}) == Shape{0});
}

TEST_CASE("layout: axes in use shard a dimension or hold parts") {
  CHECK(axes_in_use(replicated(2)).empty());
  const auto axes = axes_in_use(partial("dp, (tp, sp)", 2, {"ep"}));
  CHECK(AxisNames(axes.begin(), axes.end()) ==
        AxisNames{"ep", "dp", "tp", "sp"});
}

TEST_CASE("layout: parts of sums can be summed, but not taken apart again") {
  const Layout whole = replicated(1);
  const Layout parts = partial("None", 1, {"dp", "tp"});
  CHECK(covers(parts, whole));
  CHECK(covers(parts, partial("None", 1, {"tp"})));
  CHECK(covers(whole, whole));
  CHECK_FALSE(covers(whole, parts));
  CHECK_FALSE(covers(partial("None", 1, {"tp"}), parts));
}

TEST_CASE("layout: mesh order is major to minor, each axis once") {
  const Mesh m = mesh("a=2,b=2,c=2");
  CHECK(in_mesh_order(m, {"c", "a"}) == AxisNames{"a", "c"});
  CHECK(in_mesh_order(m, {"b", "b"}) == AxisNames{"b"});
  CHECK(in_mesh_order(m, {}).empty());
}

TEST_CASE("layout: text says along which axes there are parts") {
  CHECK(layout_text(layout("fsdp, None", 2)) == "P(fsdp, None)");
  CHECK(layout_text(partial("fsdp, None", 2, {"tp"})) ==
        "P(fsdp, None) partial over tp");
  CHECK(layout_text(partial("None", 1, {"dp", "tp"})) ==
        "P(None) partial over dp, tp");
}

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
