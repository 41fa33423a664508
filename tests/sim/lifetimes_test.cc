// SPDX-License-Identifier: Apache-2.0
#include "sim/lifetimes.h"

#include <doctest/doctest.h>

#include "tests/support/random_graph.h"
#include "tests/support/small_graph.h"

namespace shardplan {
namespace {

using testing::SmallGraph;

// A table that is looked up first and multiplied with last, `layers` apart.
struct Tied {
  explicit Tied(int layers) : g("fsdp=2") {
    const int ids = g.input({4}, "fsdp", 8);
    table = g.parameter({8, 4}, "None, fsdp");
    int x = g.node("embedding", {table, ids});
    for (int i = 0; i < layers; ++i) {
      inner = x;
      x = g.node("relu", {x});
    }
    y = g.einsum("bd,vd->bv", x, table);
    program.emplace(g.plan());
    lives = lifetimes_of(*program);
  }
  SmallGraph g;
  int table = 0, inner = 0, y = 0;
  std::optional<Program> program;
  Lifetimes lives;
};

TEST_CASE("lifetimes: a stretch is what a node needs, and the node") {
  const Tied tied(3);
  CHECK(tied.lives.phases == 6);
  int last = -1;
  for (size_t i = 0; i < tied.program->instructions.size(); ++i) {
    const Instruction& at = tied.program->instructions[i];
    const int phase = tied.lives.phase[i];
    if (at.kind == Instruction::Kind::Load) {
      CHECK(phase == -1);
      continue;
    }
    if (at.kind == Instruction::Kind::Compute) CHECK(phase == at.node);
    CHECK(phase >= last);
    last = phase;
  }
}

TEST_CASE("lifetimes: weights are needed where they are used, and no longer") {
  const Tied tied(20);
  const auto& needed = tied.lives.needed[static_cast<size_t>(tied.table)];
  CHECK(needed == std::vector<int>{0, 21});
  CHECK_FALSE(is_needed_soon(needed, 0));
  CHECK(is_needed_later(needed, 0));
  CHECK(is_needed_soon(needed, 20));
  CHECK_FALSE(is_needed_soon(needed, 21));
  CHECK_FALSE(is_needed_later(needed, 21));
  const auto& of_inner = tied.lives.needed[static_cast<size_t>(tied.inner)];
  CHECK(of_inner == std::vector<int>{19, 20});
  // The last phase hands out the outputs.
  CHECK(tied.lives.needed[static_cast<size_t>(tied.y)].back() == 22);
}

TEST_CASE("lifetimes: what comes of weights alone can be made again") {
  const Tied tied(20);
  int gathered = 0;
  for (size_t i = 0; i < tied.program->instructions.size(); ++i) {
    const Instruction& at = tied.program->instructions[i];
    const auto r = static_cast<size_t>(at.result);
    CHECK(tied.lives.maker[r] == static_cast<int>(i));
    const bool is_table = tied.program->registers[r].value == tied.table;
    if (is_table) CHECK(tied.lives.rematerialised[r]);
    if (at.kind == Instruction::Kind::Compute) {
      CHECK_FALSE(tied.lives.rematerialised[r]);
    }
    gathered += is_table && at.kind == Instruction::Kind::Collective;
  }
  CHECK(gathered == 1);
}

TEST_CASE("lifetimes: nothing is read after its last reading") {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    CAPTURE(seed);
    testing::Random random(seed);
    const Mesh mesh = testing::random_mesh(random, 12);
    const Graph graph = testing::random_graph(random, 8);
    const Program program = partition(
        graph, mesh, testing::random_layouts(random, mesh, graph), {});
    const Lifetimes lives = lifetimes_of(program);
    for (size_t i = 0; i < program.instructions.size(); ++i) {
      for (const int number : program.instructions[i].operands) {
        const auto r = static_cast<size_t>(number);
        CHECK(lives.last_read[r] >= i);
        CHECK(lives.reads[r].back() >= lives.phase[i]);
        const auto value = static_cast<size_t>(program.registers[r].value);
        CHECK(lives.needed[value].back() >= lives.phase[i]);
      }
    }
    for (const int number : program.outputs) {
      CHECK(lives.last_read[static_cast<size_t>(number)] ==
            program.instructions.size());
    }
  }
}

}  // namespace
}  // namespace shardplan
