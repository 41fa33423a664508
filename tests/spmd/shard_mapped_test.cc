// SPDX-License-Identifier: Apache-2.0
#include "spmd/shard_mapped.h"

#include <string>

#include <doctest/doctest.h>

#include "tests/support/builders.h"
#include "tests/support/built_graph.h"
#include "tests/support/messages.h"
#include "tests/support/small_graph.h"

namespace shardplan {
namespace {

using testing::layout;
using testing::mesh;

struct Checked {
  std::unique_ptr<testing::BuiltGraph> built;
  bool fine = false;
  std::string messages;
  Diagnostics diags;

  const GraphNode& node(int number = 0) const {
    return built->graph->nodes[NodeId(number)];
  }
};

std::unique_ptr<Checked> checked(const std::string& op,
                                 const char* mesh_text = "dp=2,tp=4",
                                 const AxisNames& declared = {}) {
  auto result = std::make_unique<Checked>();
  result->built = testing::built_graph(R"(graph: g
inputs: {x: [4, 8], odd: [10, 8], ids: {shape: [3], below: 10}}
parameters: {w: [8, 12]}
ops:
  - )" + op + "\n");
  REQUIRE_MESSAGE(result->built->graph, result->built->messages);
  result->fine = check_shard_maps(*result->built->graph, mesh(mesh_text),
                                  declared, result->diags);
  result->messages = testing::messages(result->diags);
  return result;
}

constexpr const char* kProduct =
    "{op: einsum, in: [x, w], out: y, equation: 'bd,df->bf', shard_map: "
    "{in_specs: [[dp, tp], [tp]], out_specs: [dp], psum: [tp]}}";

TEST_CASE("shard_map: operands and result are sharded as the specs say") {
  const auto c = checked(kProduct);
  CHECK(c->fine);
  CHECK(c->messages.empty());
  const Graph& graph = *c->built->graph;
  const Mesh both = mesh("dp=2,tp=4");
  CHECK(mapped_operand(graph, both, c->node(), 0) == layout("dp, tp", 2));
  CHECK(mapped_operand(graph, both, c->node(), 1) == layout("tp", 2));
  CHECK(mapped_result(graph, both, c->node()) ==
        testing::partial("dp", 2, {"tp"}));
  // Axes of size 1 shard nothing, and there is nothing to sum.
  const Mesh one = mesh("dp=2,tp=1");
  CHECK(mapped_operand(graph, one, c->node(), 0) == layout("dp", 2));
  CHECK(mapped_result(graph, one, c->node()) == layout("dp", 2));
}

TEST_CASE("shard_map: factors have the axes of the in specs") {
  const auto c = checked(kProduct);
  const ShardingRule& rule = c->node().rule;
  const FactorAxes axes = mapped_axes(mesh("dp=2,tp=4"), c->node());
  CHECK(axes[static_cast<size_t>(rule.operands[0][0][0])] == AxisNames{"dp"});
  CHECK(axes[static_cast<size_t>(rule.operands[0][1][0])] == AxisNames{"tp"});
  CHECK(axes[static_cast<size_t>(rule.operands[1][1][0])].empty());
}

TEST_CASE("shard_map: rows that do not divide are reported, and stay uncut") {
  const auto c = checked(
      "{op: sum, in: odd, out: y, dims: [0], shard_map: {in_specs: [[tp]], "
      "out_specs: [], psum: [tp]}}");
  CHECK(c->fine);
  CHECK(c->messages ==
        "SP203 warning g:5:10 dimension 0 of `odd` [10, 8] is split into 4: 2 "
        "rows at the end are on no device");
  const Mesh on = mesh("dp=2,tp=4");
  CHECK(mapped_operand(*c->built->graph, on, c->node(), 0) == layout("", 2));
  const auto factor =
      static_cast<size_t>(c->node().rule.operands[0][0].front());
  CHECK(mapped_axes(on, c->node())[factor] == AxisNames{"tp"});
}

TEST_CASE("shard_map: fewer rows than devices cannot be run") {
  const auto c = checked(
      "{op: relu, in: x, out: y, shard_map: {in_specs: [[tp]], out_specs: "
      "[tp]}}",
      "tp=8");
  CHECK_FALSE(c->fine);
  CHECK(c->messages ==
        "SP015 g:5:10 dimension 0 of `x` [4, 8] cannot be split into 8");
}

TEST_CASE("shard_map: shards of operands must fit each other") {
  const auto c = checked(
      "{op: einsum, in: [x, w], out: y, equation: 'bd,df->bf', shard_map: "
      "{in_specs: [[dp, tp], []], out_specs: [dp], psum: [tp]}}");
  CHECK_FALSE(c->fine);
  CHECK_MESSAGE(c->messages.find("SP015 g:5:10 ") == 0, c->messages);
}

TEST_CASE("shard_map: shards of the result must be what the out spec says") {
  for (const char* out : {"[]", "[dp, tp]", "[null, dp]"}) {
    CAPTURE(out);
    const auto c = checked(
        "{op: relu, in: x, out: y, shard_map: {in_specs: [[dp]], out_specs: " +
        std::string(out) + "}}");
    CHECK_FALSE(c->fine);
    CHECK(c->messages ==
          "SP015 g:5:10 the `shard_map` of `y` (relu) does not produce the "
          "shards that `out_specs` declares");
  }
}

TEST_CASE("shard_map: axes are those of the mesh, or declared") {
  const std::string op =
      "{op: relu, in: x, out: y, shard_map: {in_specs: [[sp]], out_specs: "
      "[sp]}}";
  const auto unknown = checked(op);
  CHECK_FALSE(unknown->fine);
  CHECK(unknown->messages ==
        "SP015 g:5:10 the `shard_map` of `y` (relu) names axis `sp`, which the "
        "mesh does not have");
  const auto declared = checked(op, "dp=2,tp=4", {"sp"});
  CHECK(declared->fine);
  CHECK(mapped_operand(*declared->built->graph, mesh("dp=2,tp=4"),
                       declared->node(), 0) == layout("", 2));
}

TEST_CASE("shard_map: a slice takes the same part of what a device has") {
  const auto c = checked(
      "{op: split, in: w, out: [p, q], sizes: [4, 8], shard_map: {in_specs: "
      "[[null, tp]], out_specs: [null, tp]}}");
  CHECK(c->fine);
  const std::vector<Shape> local = {{8, 3}};
  const auto second = mapped_attributes(c->node(1), local);
  REQUIRE(second);
  CHECK(number_of(*second, "begin", 0) == 1);
  CHECK(number_of(*second, "end", 0) == 3);
  // Along another dimension, or uncut, it is what the file says.
  const std::vector<Shape> rows = {{2, 12}};
  CHECK(*mapped_attributes(c->node(1), rows) == c->node(1).attributes);
}

TEST_CASE("shard_map: a slice of part of a row is refused") {
  const auto c = checked(
      "{op: split, in: w, out: [p, q], sizes: [2, 10], shard_map: {in_specs: "
      "[[null, tp]], out_specs: [null, tp]}}");
  CHECK_FALSE(c->fine);
  CHECK(c->messages.find("SP015 g:5:10 `p` (split) does not read a whole "
                         "number of rows of a device's [8, 3]") == 0);
}

}  // namespace
}  // namespace shardplan
