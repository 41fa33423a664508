// SPDX-License-Identifier: Apache-2.0
#include "graph/regions.h"

#include <algorithm>
#include <string>

#include <doctest/doctest.h>

#include "tests/support/built_graph.h"
#include "tests/support/random_graph.h"

namespace shardplan {
namespace {

using Kind = Region::Kind;
using testing::BuiltGraph;

std::vector<const Region*> regions_of(const Graph& graph, Kind kind) {
  std::vector<const Region*> found;
  for (const Region& region : graph.regions) {
    if (region.kind == kind) found.push_back(&region);
  }
  return found;
}

// "products masked", of what the nodes or ids are called.
std::string names(const Graph& graph, const std::vector<ValueId>& values) {
  std::string text;
  for (const ValueId value : values) {
    text += (text.empty() ? "" : " ") + graph.values[value].name;
  }
  return text;
}
std::string names(const Graph& graph, const std::vector<NodeId>& nodes) {
  std::vector<ValueId> results;
  for (const NodeId node : nodes) results.push_back(graph.nodes[node].result);
  return names(graph, results);
}

// One layer of attention over one KV head, `between` what is done with its
// scores, which gives `masked`.
std::unique_ptr<BuiltGraph> attention(const std::string& between) {
  auto built = testing::built_graph(
      "graph: g\n"
      "inputs: {q: [2, 4, 3, 8], k: [2, 4, 3, 8], v: [2, 4, 3, 8]}\n"
      "parameters: {table: [32, 3], weight: [4]}\n"
      "ops:\n"
      "  - {op: einsum, in: [q, k], out: products,"
      " equation: \"bqhd,bkhd->bhqk\"}\n" +
      between +
      "  - {op: softmax, in: masked, out: weights}\n"
      "  - {op: einsum, in: [weights, v], out: mixed,"
      " equation: \"bhqk,bkhd->bqhd\"}\n");
  REQUIRE_MESSAGE(built->graph, built->messages);
  return built;
}

TEST_CASE("regions: attention goes from products to the mixed values") {
  const auto built = testing::shipped_graph("attention");
  REQUIRE_MESSAGE(built->graph, built->messages);
  const Graph& graph = *built->graph;
  const auto found = regions_of(graph, Kind::Attention);
  const auto softmaxes = regions_of(graph, Kind::Softmax);
  REQUIRE(found.size() == 1);
  REQUIRE(softmaxes.size() == 1);
  const Region& region = *found[0];
  CHECK(names(graph, region.nodes) ==
        "products scores masked weights:max weights:shifted weights:exp "
        "weights:sum weights mixed");
  CHECK(names(graph, region.inputs) == "queries keys values");
  CHECK(names(graph, region.results) == "mixed");
  CHECK(region.row == built->value("weights:max"));
  CHECK_FALSE(region.has_trained_bias);
  // Its softmax is within, and weights its values.
  CHECK(std::includes(region.nodes.begin(), region.nodes.end(),
                      softmaxes[0]->nodes.begin(), softmaxes[0]->nodes.end()));
  CHECK(softmaxes[0]->weights == built->at("mixed").node);
  // [batch, length, kv_heads, groups, head_dim], [.., kv_heads, groups, ..].
  REQUIRE(region.shared_heads.size() == 2);
  CHECK(region.shared_heads.at(built->at("products").node) == 3);
  CHECK(region.shared_heads.at(built->at("mixed").node) == 2);
}

TEST_CASE("regions: heads that have keys of their own share none") {
  const auto built =
      attention("  - {op: causal_mask, in: products, out: masked}\n");
  const auto found = regions_of(*built->graph, Kind::Attention);
  REQUIRE(found.size() == 1);
  CHECK(found[0]->shared_heads.empty());
}

TEST_CASE("regions: whichever factor comes first, heads are what they are") {
  const auto built = testing::built_graph(
      "graph: g\n"
      "inputs: {q: [2, 4, 3, 5, 8], k: [2, 4, 3, 8], v: [2, 4, 3, 8]}\n"
      "ops:\n"
      "  - {op: einsum, in: [k, q], out: products,"
      " equation: \"bkhd,bqhgd->bhgqk\"}\n"
      "  - {op: softmax, in: products, out: weights}\n"
      "  - {op: einsum, in: [v, weights], out: mixed,"
      " equation: \"bkhd,bhgqk->bqhgd\"}\n");
  REQUIRE_MESSAGE(built->graph, built->messages);
  const auto found = regions_of(*built->graph, Kind::Attention);
  REQUIRE(found.size() == 1);
  // Only operand 0 is looked at.
  CHECK(found[0]->shared_heads.empty());
}

TEST_CASE("regions: a trained bias of scores is said so") {
  const auto built = attention(
      "  - {op: relative_bias, in: [products, table], out: masked}\n");
  const auto found = regions_of(*built->graph, Kind::Attention);
  REQUIRE(found.size() == 1);
  CHECK(found[0]->has_trained_bias);
}

TEST_CASE(
    "regions: a norm between scores and softmax is no part of attention") {
  const auto built =
      attention("  - {op: rms_norm, in: [products, weight], out: masked}\n");
  const Graph& graph = *built->graph;
  CHECK(regions_of(graph, Kind::Attention).empty());
  const auto norms = regions_of(graph, Kind::Norm);
  REQUIRE(norms.size() == 1);
  CHECK(norms[0]->row == built->value("masked:rsqrt"));
  CHECK(norms[0]->numbers_per_row == 1);
  // Its result still weights values.
  CHECK(regions_of(graph, Kind::Softmax)[0]->weights ==
        built->at("mixed").node);
}

TEST_CASE(
    "regions: experts go from where tokens are dealt out to their answers") {
  const auto built = testing::shipped_graph("moe");
  REQUIRE_MESSAGE(built->graph, built->messages);
  const Graph& graph = *built->graph;
  const auto found = regions_of(graph, Kind::Experts);
  REQUIRE(found.size() == 1);
  const Region& region = *found[0];
  CHECK(names(graph, region.nodes) ==
        "dispatched gated active upped hidden downed combined");
  CHECK(names(graph, region.inputs) == "normed choices weights");
  CHECK(names(graph, region.results) == "combined");
  CHECK(region.router == built->at("scores").node);
  CHECK(region.experts == 8);
  CHECK(region.places == 16);
  CHECK(region.tokens == 16);
  CHECK(region.choices == 2);
  // The softmax of a router weights no values.
  CHECK(regions_of(graph, Kind::Attention).empty());
  CHECK_FALSE(regions_of(graph, Kind::Softmax)[0]->weights);
}

TEST_CASE("regions: a graph without attention or experts has none of them") {
  const auto built = testing::built_graph(
      "graph: g\ninputs: {x: [2, 8]}\nparameters: {w: [8, 12]}\nops:\n"
      "  - {op: layer_norm, in: x, out: y}\n"
      "  - {op: linear, in: [y, w], out: z}\n"
      "  - {op: split, in: z, out: [a, b, c]}\n");
  REQUIRE_MESSAGE(built->graph, built->messages);
  const Graph& graph = *built->graph;
  REQUIRE(graph.regions.size() == 3);
  CHECK(graph.regions[0].kind == Kind::Norm);
  CHECK(graph.regions[0].numbers_per_row == 2);
  CHECK(graph.regions[1].kind == Kind::Linear);
  CHECK(names(graph, graph.regions[1].inputs) == "y");
  CHECK(graph.regions[2].kind == Kind::Split);
  CHECK(names(graph, graph.regions[2].results) == "a b c");
}

void check_regions(const Graph& graph) {
  for (const Region& region : graph.regions) {
    REQUIRE_FALSE(region.nodes.empty());
    CHECK(std::is_sorted(region.nodes.begin(), region.nodes.end()));
    if (region.kind != Kind::Experts) {
      REQUIRE_FALSE(region.results.empty());
      CHECK(graph.nodes[region.nodes.back()].result == region.results.back());
    }
    const auto is_inside = [&](ValueId value) {
      return std::binary_search(region.nodes.begin(), region.nodes.end(),
                                graph.values[value].node);
    };
    for (const ValueId result : region.results) CHECK(is_inside(result));
    for (const ValueId input : region.inputs) {
      CHECK_FALSE(is_inside(input));
      CHECK_FALSE(graph.values[input].is_weight);
    }
    for (const NodeId n : region.nodes) {
      for (const ValueId operand : graph.nodes[n].operands) {
        CHECK((is_inside(operand) || graph.values[operand].is_weight ||
               std::count(region.inputs.begin(), region.inputs.end(),
                          operand) == 1));
      }
    }
    // Of regions that share nodes one contains the other.
    for (const Region& other : graph.regions) {
      const auto shared = std::count_if(
          other.nodes.begin(), other.nodes.end(),
          [&](NodeId n) { return is_inside(graph.nodes[n].result); });
      CHECK((shared == 0 || shared == std::ssize(other.nodes) ||
             shared == std::ssize(region.nodes)));
    }
  }
}

TEST_CASE("regions: what they read is outside, and they nest") {
  for (const char* name : {"attention", "mlp", "moe", "parallel_linear"}) {
    CAPTURE(name);
    const auto built = testing::shipped_graph(name);
    REQUIRE_MESSAGE(built->graph, built->messages);
    check_regions(*built->graph);
  }
  for (uint64_t seed = 0; seed < 40; ++seed) {
    CAPTURE(seed);
    testing::Random random(seed);
    Graph orders = testing::random_orders(random);
    find_regions(orders);
    check_regions(orders);
    Graph graph = testing::random_graph(random, 12);
    find_regions(graph);
    check_regions(graph);
  }
}

}  // namespace
}  // namespace shardplan
