// SPDX-License-Identifier: Apache-2.0
// Operations under shard_map, run: right ones compute what the operation is,
// wrong ones are caught.
#include <string>

#include <doctest/doctest.h>

#include "core/mesh.h"
#include "sim/simulate.h"
#include "spmd/shard_mapped.h"
#include "tests/support/random_graph.h"
#include "tests/support/small_graph.h"
#include "tests/support/whole_values.h"

namespace shardplan {
namespace {

using testing::draw;
using testing::Random;
using testing::SmallGraph;

Simulation run_mapped(SmallGraph& g, ValueSource source = ValueSource::Field) {
  Diagnostics diags;
  REQUIRE(check_shard_maps(g.graph, g.mesh, {}, diags));
  const Program program = g.plan();
  SimulateOptions options;
  options.values = source;
  return simulate(program, g.values(source), options);
}

GraphNode& last_node(SmallGraph& g) { return g.graph.nodes.back(); }

TEST_CASE("shard_map: an operation on every element is the plain one") {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    const Mesh mesh = testing::random_mesh(random, 16);
    SmallGraph g(mesh_text(mesh));
    const Shape shape = {8 * draw(random, 1, 2), 24};
    const ValueId x = g.input(shape, "");
    const ValueId y = g.input(shape, "");
    // The operands lie anywhere and are brought to where the specs say.
    g.wanted[x] = testing::random_layout(random, mesh, shape);
    const PartitionSpec spec = testing::random_layout(random, mesh, shape).spec;
    g.node(draw(random, 0, 1) == 0 ? "add" : "multiply", {x, y});
    last_node(g).shard_map = ShardMapUse{{spec, spec}, spec, {}};
    const Simulation s = run_mapped(g);
    CHECK_FALSE(s.mismatch);
    CHECK(s.bytes_moved == s.bytes_priced);
    CHECK_FALSE(run_mapped(g, ValueSource::Random).mismatch);
  }
}

TEST_CASE("shard_map: a contraction is the sum over its axes, and needs it") {
  int wrong = 0;
  for (uint64_t seed = 0; seed < 80; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    const Mesh mesh = testing::random_mesh(random, 16);
    SmallGraph g(mesh_text(mesh));
    const std::vector<AxisNames> axes =
        testing::random_layout(random, mesh, {16, 48, 24}).spec.dims;
    const ValueId x = g.input({16, 48}, "");
    const ValueId w = g.parameter({48, 24}, "");
    g.wanted[w] = testing::random_layout(random, mesh, {48, 24});
    g.einsum("bd,df->bf", x, w);
    last_node(g).shard_map =
        ShardMapUse{{{{axes[0], axes[1]}}, {{axes[1], axes[2]}}},
                    {{axes[0], axes[2]}},
                    axes[1]};
    const Simulation s = run_mapped(g);
    CHECK_FALSE(s.mismatch);
    CHECK(s.bytes_moved == s.bytes_priced);
    const Simulation real = run_mapped(g, ValueSource::Random);
    CHECK_FALSE(real.mismatch);
    REQUIRE(real.bound_ratio);
    CHECK(*real.bound_ratio <= 1);
    if (axes[1].empty()) continue;
    // The sum forgotten.
    last_node(g).shard_map->psum.clear();
    CHECK(run_mapped(g).mismatch);
    CHECK(run_mapped(g, ValueSource::Random).mismatch);
    ++wrong;
  }
  CHECK(wrong > 10);
}

TEST_CASE("shard_map: a result is put together in the order of its axes") {
  SmallGraph g("a=2,b=3");
  g.node("relu", {g.input({12}, "")});
  last_node(g).shard_map = ShardMapUse{{{{{"a", "b"}}}}, {{{"a", "b"}}}, {}};
  CHECK_FALSE(run_mapped(g).mismatch);
  last_node(g).shard_map->out_spec = {{{"b", "a"}}};
  CHECK(run_mapped(g).mismatch);
}

// A sum stood for a maximum in the field, so that a psum for a pmax was found
// right there.
TEST_CASE("shard_map: the sum of maxima is not a maximum") {
  for (const ValueSource source : {ValueSource::Field, ValueSource::Random}) {
    for (const int64_t rows : {1, 8}) {
      SmallGraph g("tp=4");
      const ValueId x = g.input({rows, 8}, "None, tp");
      g.node("max", {x}, {{"dims", std::vector<int64_t>{1}}});
      CHECK_FALSE(run_mapped(g, source).mismatch);
      last_node(g).shard_map = ShardMapUse{{{{{}, {"tp"}}}}, {}, {"tp"}};
      CHECK(run_mapped(g, source).mismatch);
      // Nor is the maximum of what one device has.
      last_node(g).shard_map = ShardMapUse{{{{{}, {"tp"}}}}, {}, {}};
      CHECK(run_mapped(g, source).mismatch);
    }
  }
}

TEST_CASE("shard_map: what is read next is the whole sum") {
  SmallGraph g("tp=4");
  const ValueId x = g.input({4, 8}, "None, tp");
  const ValueId y = g.einsum("bd,df->bf", x, g.parameter({8, 8}, "tp, None"));
  last_node(g).shard_map =
      ShardMapUse{{{{{}, {"tp"}}}, {{{"tp"}, {}}}}, {}, {"tp"}};
  const ValueId z = g.node("relu", {y});
  last_node(g).shard_map = ShardMapUse{{{}}, {}, {}};
  CHECK_FALSE(run_mapped(g).mismatch);
  CHECK(testing::moves(g.plan()) == "all-reduce over tp of v" +
                                        std::to_string(y.number) +
                                        " (partial sum)");
  CHECK(g.graph.outputs == std::vector<ValueId>{z});
}

TEST_CASE("shard_map: a bias within the sum is added once per device") {
  for (const bool inside : {false, true}) {
    CAPTURE(inside);
    SmallGraph g("tp=4");
    const ValueId x = g.input({4, 8}, "None, tp");
    const ValueId y = g.einsum("bd,df->bf", x, g.parameter({8, 8}, "tp, None"));
    last_node(g).shard_map =
        ShardMapUse{{{{{}, {"tp"}}}, {{{"tp"}, {}}}}, {}, {"tp"}};
    const ValueId bias = g.parameter({8}, "");
    g.node("add", {y, bias});
    if (inside) {
      last_node(g).shard_map = ShardMapUse{{{}, {}}, {}, {"tp"}};
      last_node(g).inner_operand = 0;
    }
    for (const ValueSource source : {ValueSource::Field, ValueSource::Random}) {
      const Simulation s = run_mapped(g, source);
      REQUIRE(s.mismatch.has_value() == inside);
      if (inside) CHECK(s.mismatch->value == last_node(g).result);
    }
  }
}

TEST_CASE("shard_map: a step within a body is not judged by itself") {
  // Right as a whole: scaling partial sums.
  SmallGraph g("tp=4");
  const ValueId x = g.input({4, 8}, "None, tp");
  const ValueId y = g.einsum("bd,df->bf", x, g.parameter({8, 8}, "tp, None"));
  last_node(g).shard_map =
      ShardMapUse{{{{{}, {"tp"}}}, {{{"tp"}, {}}}}, {}, {"tp"}};
  g.node("scale", {y}, {{"by", 3.0}});
  last_node(g).shard_map = ShardMapUse{{{}}, {}, {"tp"}};
  last_node(g).inner_operand = 0;
  CHECK_FALSE(run_mapped(g).mismatch);
}

TEST_CASE("shard_map: rows of a table know their numbers") {
  struct MappedCase {
    int64_t rows;
    int64_t below;  // of the tokens
    bool lost;
  };
  // Of 10 or 11 rows each of 4 devices takes 2, and the others are nowhere.
  for (const MappedCase& c :
       {MappedCase{12, 10, false}, MappedCase{10, 10, true},
        MappedCase{10, 8, false}, MappedCase{11, 8, false},
        MappedCase{11, 11, true}}) {
    CAPTURE(c.rows);
    CAPTURE(c.below);
    SmallGraph g("tp=4");
    const ValueId table = g.parameter({c.rows, 8}, "");
    g.node("embedding", {table, g.input({5, 7}, "", c.below)});
    last_node(g).shard_map = ShardMapUse{{{{{"tp"}, {}}}, {}}, {}, {"tp"}};
    CHECK(run_mapped(g, ValueSource::Random).mismatch.has_value() == c.lost);
    // By itself, on tokens of the whole table, the rest always shows.
    CHECK(run_mapped(g).mismatch.has_value() == (c.rows % 4 != 0));
  }
}

TEST_CASE("shard_map: rows left over are lost in a product, too") {
  for (const int64_t rows : {15, 16, 17}) {
    CAPTURE(rows);
    SmallGraph g("ep=3");
    const ValueId x = g.input({4, rows}, "");
    g.einsum("te,ed->td", x, g.parameter({rows, 2}, ""));
    last_node(g).shard_map =
        ShardMapUse{{{{{}, {"ep"}}}, {{{"ep"}, {}}}}, {}, {"ep"}};
    const Simulation s = run_mapped(g);
    CHECK(s.mismatch.has_value() == (rows != 15));
    // Five rows for each device.
    CHECK(s.flops == 2 * 4 * 5 * 2);
  }
}

TEST_CASE("shard_map: with overlap, a product waits for its operands") {
  SmallGraph g("tp=4");
  const ValueId x = g.input({4, 8}, "None, tp");
  g.einsum("bd,df->bf", x, g.parameter({8, 8}, ""));
  last_node(g).shard_map = ShardMapUse{{{}, {}}, {}, {}};
  CHECK(testing::moves(g.plan({Overlap::Ring, nullptr})) ==
        "all-gather over tp of x0 (declared)");
  CHECK_FALSE(run_mapped(g).mismatch);
}

}  // namespace
}  // namespace shardplan
