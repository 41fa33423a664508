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
PartitionSpec suggestion(SmallGraph& g, ValueId value) {
  g.wanted.resize(g.graph.values.size());
  return suggest(g.graph, g.mesh, g.wanted)[value];
}

TEST_CASE("propagate: shardings go forwards through operations") {
  SmallGraph g("dp=2,tp=2");
  const ValueId x = g.input({4, 8}, "dp, None");
  const ValueId y = g.einsum("bd,df->bf", x, g.parameter({8, 8}, "None, tp"));
  const ValueId z = g.node("relu", {y});
  CHECK(suggestion(g, y) == spec("dp, tp"));
  CHECK(suggestion(g, z) == spec("dp, tp"));
}

TEST_CASE("propagate: and backwards, from where one is wanted") {
  SmallGraph g("dp=2");
  const ValueId x = g.input({4, 8}, "None, None");
  const ValueId y = g.node("relu", {x});
  const ValueId z = g.node("tanh", {y});
  g.want(z, "None, dp");
  CHECK(suggestion(g, y) == spec("None, dp"));
  CHECK(suggestion(g, x) == spec("None, None"));  // wanted so
}

TEST_CASE("propagate: an axis is suggested for one dimension only") {
  SmallGraph g("tp=2");
  const ValueId x = g.input({4, 8}, "tp, None");
  const ValueId y = g.einsum("bd,df->bf", x, g.parameter({8, 8}, "None, tp"));
  CHECK(suggestion(g, y) == spec("tp, None"));
}

TEST_CASE("propagate: what does not divide is not suggested") {
  SmallGraph g("tp=4");
  const ValueId x = g.input({8, 3}, "tp, None");
  const ValueId y =
      g.node("reshape", {x}, {{"shape", std::vector<int64_t>{2, 12}}});
  CHECK(suggestion(g, y) == spec("None, None"));
}

std::vector<bool> batch_of(const SmallGraph& g, ValueId value) {
  return find_batch_dims(g.graph)[value];
}

TEST_CASE(
    "propagate: the batch is the first dimension of an input without "
    "labels") {
  SmallGraph g("tp=2");
  const ValueId x = g.input({4, 6, 8}, "");
  const ValueId w = g.parameter({8, 8}, "");
  const ValueId y = g.einsum("bsd,df->fbs", x, w);
  CHECK(batch_of(g, x) == std::vector<bool>{true, false, false});
  CHECK(batch_of(g, w) == std::vector<bool>{false, false});
  CHECK(batch_of(g, y) == std::vector<bool>{false, true, false});
  // One dimension is not a batch of anything.
  CHECK(batch_of(g, g.input({4}, "")) == std::vector<bool>{false});
}

TEST_CASE("propagate: labels say which dimension is the batch") {
  for (const char* label : {"BATCH", "batch", "activation_batch"}) {
    SmallGraph g("tp=2");
    const ValueId x = g.input({6, 4}, "");
    g.graph.values[x].axes = {"LENGTH", label};
    CHECK(batch_of(g, x) == std::vector<bool>{false, true});
    CHECK(batch_of(g, g.node("relu", {x})) == std::vector<bool>{false, true});
  }
  SmallGraph g("tp=2");
  const ValueId x = g.input({6, 4}, "");
  g.graph.values[x].axes = {"LENGTH", "EMBED"};
  CHECK(batch_of(g, x) == std::vector<bool>{false, false});
}

using testing::layout;
using testing::partial;

// The choice for the last node of a graph whose operands are sharded as wanted
// there, or as given.
NodeChoice chosen(const SmallGraph& g, std::vector<Layout> operands,
                  const std::vector<std::vector<bool>>& batch = {},
                  const std::optional<Layout>& wanted = std::nullopt) {
  const GraphNode& node = g.graph.nodes.back();
  std::vector<OperandChoice> choices;
  for (size_t i = 0; i < operands.size(); ++i) {
    const Shape& shape = g.graph.values[node.operands[i]].shape;
    choices.push_back(
        {&shape,
         {operands[i]},
         batch.empty() ? std::vector<bool>(shape.size()) : batch[i]});
  }
  const Shape& result = g.graph.values[node.result].shape;
  ReshardCache reshards(g.mesh);
  return choose(g.mesh, node, choices, result, wanted,
                replicated(result.size()).spec, reshards);
}

struct Product {
  Product(const char* mesh, const Shape& x, const Shape& w) : g(mesh) {
    g.einsum("bd,df->bf", g.input(x, ""), g.parameter(w, ""));
  }
  SmallGraph g;
};

TEST_CASE("choose: operands that agree stay where they are") {
  const Product p("dp=2,tp=2", {8, 8}, {8, 8});
  const NodeChoice c =
      chosen(p.g, {layout("dp, None", 2), layout("None, tp", 2)});
  CHECK(c.operands[0] == layout("dp, None", 2));
  CHECK(c.operands[1] == layout("None, tp", 2));
  CHECK(c.result == layout("dp, tp", 2));
}

TEST_CASE("choose: a contraction sharded on both sides leaves partial sums") {
  const Product p("tp=2", {8, 8}, {8, 8});
  const NodeChoice c =
      chosen(p.g, {layout("None, tp", 2), layout("tp, None", 2)});
  CHECK(c.result == partial("None, None", 2, {"tp"}));
}

TEST_CASE("choose: the smaller operand moves") {
  const Product wide("tp=2", {4, 8}, {8, 64});
  const NodeChoice a =
      chosen(wide.g, {layout("tp, None", 2), layout("None, tp", 2)});
  CHECK(a.operands[0] == layout("None, None", 2));
  CHECK(a.result == layout("None, tp", 2));
  const Product tall("tp=2", {64, 8}, {8, 4});
  const NodeChoice b =
      chosen(tall.g, {layout("tp, None", 2), layout("None, tp", 2)});
  CHECK(b.operands[1] == layout("None, None", 2));
  CHECK(b.result == layout("tp, None", 2));
}

TEST_CASE("choose: a batch stays, whatever the weight costs") {
  const Product p("fsdp=2", {4, 8}, {8, 64});
  const NodeChoice c =
      chosen(p.g, {layout("fsdp, None", 2), layout("None, fsdp", 2)},
             {{true, false}, {false, false}});
  CHECK(c.operands[0] == layout("fsdp, None", 2));
  CHECK(c.operands[1] == layout("None, None", 2));
  CHECK(c.batch_axes == AxisNames{"fsdp"});
}

TEST_CASE("choose: what is wanted of the result counts") {
  // The sum is scattered where it is wanted, so it may as well be one.
  const Product p("tp=2", {8, 64}, {64, 8});
  const std::vector<Layout> operands = {layout("None, tp", 2),
                                        layout("tp, None", 2)};
  CHECK(chosen(p.g, operands, {}, layout("tp, None", 2)).result ==
        partial("None, None", 2, {"tp"}));
  // Both can be cut where they are whole, and nothing needs to be sent.
  const std::vector<Layout> whole = {layout("None, None", 2),
                                     layout("None, tp", 2)};
  CHECK(chosen(p.g, whole, {}, layout("None, tp", 2)).result ==
        layout("None, tp", 2));
}

TEST_CASE("choose: nothing is cut before someone needs it") {
  SmallGraph g("tp=2");
  g.node("relu", {g.input({8, 8}, "")});
  const NodeChoice c =
      chosen(g, {layout("None, None", 2)}, {}, layout("None, tp", 2));
  CHECK(c.operands[0] == layout("None, None", 2));
  CHECK(c.result == layout("None, None", 2));
}

TEST_CASE("choose: partial sums stay where the operation is linear in them") {
  SmallGraph g("tp=2");
  const ValueId x = g.input({8, 8}, "");
  const ValueId y = g.input({8, 8}, "");
  const Layout parts = partial("None, None", 2, {"tp"});
  const Layout whole = layout("None, None", 2);
  g.node("add", {x, y});
  CHECK(chosen(g, {parts, parts}).result == parts);
  // Only one of them partial: the other would be added twice.
  CHECK(chosen(g, {parts, whole}).operands[0] == whole);
  g.node("multiply", {x, y});
  CHECK(chosen(g, {parts, whole}).result == parts);
  CHECK(chosen(g, {parts, parts}).result.partial.size() <= 1);
  g.node("relu", {x});
  CHECK(chosen(g, {parts}).operands[0].partial.empty());
}

TEST_CASE("choose: one of two partial factors of a product is settled") {
  SmallGraph g("tp=2");
  const ValueId x = g.input({8, 8}, "");
  g.node("multiply", {x, g.input({8, 8}, "")});
  const Layout parts = partial("None, None", 2, {"tp"});
  const NodeChoice c = chosen(g, {parts, parts});
  CHECK(c.operands[0].partial.size() + c.operands[1].partial.size() <= 1);
}

TEST_CASE(
    "choose: tokens go to their experts where that is less than weights") {
  const auto choice = [](int64_t tokens, const char* x_spec) {
    SmallGraph g("dp=2,ep=2");
    g.einsum("ebm,emf->ebf", g.input({4, tokens, 8}, ""),
             g.parameter({4, 8, 16}, ""));
    return chosen(g, {layout(x_spec, 3), layout("ep, None, None", 3)},
                  {{false, true, false}, {false, false, false}});
  };
  // 4 * 8 * 16 / 2 numbers of weights against 4 * tokens * 8 / 4 of tokens.
  const NodeChoice few = choice(8, "None, (dp, ep), None");
  CHECK(few.operands[0] == layout("ep, dp, None", 3));
  CHECK(few.operands[1] == layout("ep, None, None", 3));
  CHECK(few.result == layout("ep, dp, None", 3));
  const NodeChoice many = choice(400, "None, (dp, ep), None");
  CHECK(many.operands[0] == layout("None, (dp, ep), None", 3));
  CHECK(many.operands[1] == layout("None, None, None", 3));
  // An axis that is not of the weight stays with the batch, whatever it costs.
  const NodeChoice apart = choice(400, "None, dp, None");
  CHECK(apart.operands[0] == layout("ep, dp, None", 3));
  CHECK(apart.operands[1] == layout("ep, None, None", 3));
}

TEST_CASE("choose: a batch that one operand has more of is the operation's") {
  SmallGraph g("dp=2,ep=2");
  const ValueId y = g.input({4, 8, 8, 16}, "");
  const ValueId choices = g.input({8, 8, 2}, "", 4);
  g.node("combine", {y, choices, g.input({8, 8, 2}, "")});
  const std::vector<bool> tokens = {true, false, false};
  const NodeChoice c = chosen(
      g,
      {layout("ep, dp, None, None", 4), layout("(dp, ep), None, None", 3),
       layout("(dp, ep), None, None", 3)},
      {{false, true, false, false}, tokens, tokens});
  CHECK(c.operands[0] == layout("None, (dp, ep), None, None", 4));
  CHECK(c.result == layout("(dp, ep), None, None", 3));
}

}  // namespace

}  // namespace shardplan
