// SPDX-License-Identifier: Apache-2.0
#include "sim/isolate.h"

#include <doctest/doctest.h>

#include "tests/support/builders.h"
#include "tests/support/small_graph.h"

namespace shardplan {
namespace {

using testing::layout;
using testing::SmallGraph;

TEST_CASE("isolate: one operation, with operands as they lie in the program") {
  SmallGraph g("tp=4");
  const int x = g.input({2, 8}, "None, None");
  const int up = g.parameter({8, 16}, "None, tp");
  const int h = g.node("gelu", {g.einsum("bd,df->bf", x, up)});
  const int down = g.parameter({16, 8}, "tp, None");
  g.want(g.einsum("bf,fd->bd", h, down), "None, None");
  const Program program = g.plan();
  const Isolated one = isolate(program, 2, {});
  CHECK(one.operands == std::vector<int>{h, down});
  REQUIRE(one.graph->values.size() == 3);
  CHECK(one.graph->values[0].kind == Value::Kind::Input);
  CHECK(one.graph->values[1].kind == Value::Kind::Parameter);
  CHECK(one.graph->nodes.size() == 1);
  CHECK(one.program.graph == one.graph.get());
  CHECK(one.program.layouts[0] == layout("None, tp", 2));
  CHECK(testing::moves(one.program) ==
        "all-reduce over tp of v5 (partial sum)");
}

TEST_CASE("isolate: parts of sums become whole") {
  SmallGraph g("tp=2");
  const int x = g.input({2, 8}, "None, tp");
  const int y = g.einsum("bd,df->bf", x, g.parameter({8, 8}, "tp, None"));
  const int z = g.node("scale", {y}, {{"by", 2.0}});
  g.node("relu", {z});
  const Program program = g.plan();
  REQUIRE_FALSE(program.layouts[static_cast<size_t>(y)].partial.empty());
  const Isolated one = isolate(program, 1, {});
  CHECK(one.program.layouts[0].partial.empty());
  CHECK(testing::moves(one.program).empty());
}

TEST_CASE("isolate: an operand that is read twice is one value") {
  SmallGraph g("tp=2");
  const int x = g.input({2, 8}, "None, tp");
  g.node("multiply", {x, x});
  const Program program = g.plan();
  const Isolated one = isolate(program, 0, {});
  CHECK(one.operands == std::vector<int>{x});
  CHECK(one.graph->nodes[0].operands == std::vector<int>{0, 0});
}

TEST_CASE("isolate: what is looked up stays within the table") {
  SmallGraph g("tp=2");
  const int table = g.parameter({6, 8}, "None, tp");
  const int ids = g.input({2, 4}, "None, None", 6);
  g.node("embedding", {table, g.node("reshape", {ids},
                                     {{"shape", std::vector<int64_t>{8}}})});
  const Program program = g.plan();
  const Isolated one = isolate(program, 1, {});
  CHECK(one.graph->values[1].integers_below == 6);
}

TEST_CASE("isolate: fresh choices choose what there is") {
  SmallGraph g("tp=2");
  const int x = g.input({2, 4, 8}, "None, None, tp");
  const int scores = g.input({2, 4, 6}, "None, None, None");
  const int choices = g.node("top_k", {scores}, {{"k", 2.0}});
  const int weights = g.node("take", {scores, choices});
  const int places = g.node("dispatch", {x, choices}, {{"experts", 6.0}});
  g.node("combine", {places, choices, weights});
  const Program program = g.plan();
  for (const int node : {1, 2, 3}) {
    CAPTURE(node);
    const Isolated one = isolate(program, node, {});
    for (size_t i = 0; i < one.operands.size(); ++i) {
      CHECK(one.graph->values[i].integers_below ==
            (one.operands[i] == choices ? 6 : 0));
    }
  }
}

}  // namespace
}  // namespace shardplan
