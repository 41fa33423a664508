// SPDX-License-Identifier: Apache-2.0
#include "sim/execute.h"

#include <algorithm>
#include <numeric>

#include <doctest/doctest.h>

#include "graph/evaluate.h"
#include "sim/values.h"
#include "tests/support/builders.h"
#include "tests/support/random_graph.h"
#include "tests/support/small_graph.h"

namespace shardplan {
namespace {

using testing::layout;
using testing::mesh;
using testing::SmallGraph;

Tensor counting(const Shape& shape) {
  Tensor tensor = make_tensor(Element::F32, shape);
  std::iota(tensor.data<float>(), tensor.data<float>() + tensor.elements(),
            0.0F);
  return tensor;
}

TEST_CASE("execute: a shard is a view of the whole") {
  const Mesh m = mesh("a=2,b=2");
  const Tensor whole = counting({4, 4});
  const Tensor part = shard_of(m, layout("a, b", 2), whole, 2);  // a=1, b=0
  CHECK(values_of(part) == std::vector<double>{8, 9, 12, 13});
  CHECK(part.storage == whole.storage);
  const Tensor row = shard_of(m, layout("(b, a), None", 2), whole, 2);
  CHECK(values_of(row) == std::vector<double>{4, 5, 6, 7});
}

TEST_CASE("execute: shards put together are the whole") {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    CAPTURE(seed);
    testing::Random random(seed);
    const Mesh m = testing::random_mesh(random, 16);
    const Tensor whole = counting({24, 12});
    const Layout lay = testing::random_layout(random, m, whole.shape);
    DeviceTensors parts;
    for (int64_t device = 0; device < m.devices(); ++device) {
      parts.push_back(shard_of(m, lay, whole, device));
    }
    CHECK(bitwise_equal(assemble(m, lay, whole.shape, parts), whole));
  }
}

// A row-parallel product: parts of a sum, then an all-reduce.
struct RowParallel {
  RowParallel() : g("tp=4") {
    const int x = g.input({2, 8}, "None, tp");
    y = g.einsum("bd,df->bf", x, g.parameter({8, 4}, "tp, None"));
    g.want(y, "None, None");
  }
  SmallGraph g;
  int y = 0;
};

TEST_CASE("execute: devices compute their parts and sum them") {
  RowParallel r;
  const Program program = r.g.plan();
  const std::vector<Tensor> values = r.g.values(ValueSource::Field);
  const Execution run = execute(program, values, {Arithmetic::Field, 1, true});
  const std::vector<Tensor> all =
      evaluate(r.g.graph, values, Arithmetic::Field);
  const auto output = static_cast<size_t>(program.outputs[0]);
  for (const Tensor& got : run.registers[output]) {
    CHECK(bitwise_equal(got, all[static_cast<size_t>(r.y)]));
  }
  // 2 rows, 8/4 terms, 4 columns, 2 operations each.
  CHECK(run.flops == std::vector<int64_t>(4, 2 * 2 * 2 * 4));
  // An all-reduce of 8 elements by the ring: 2 (n-1)/n of 32 bytes per device.
  CHECK(run.bytes_moved() == 4 * 48);
  CHECK(run.sent.back() == std::vector<int64_t>(4, 48));
}

TEST_CASE("execute: registers are released after their last use") {
  RowParallel r;
  const Program program = r.g.plan();
  const Execution run =
      execute(program, r.g.values(), {Arithmetic::F32, 1, false});
  const auto output = static_cast<size_t>(program.outputs[0]);
  for (size_t i = 0; i < run.registers.size(); ++i) {
    CHECK(run.registers[i].size() == (i == output ? 4 : 0));
  }
}

TEST_CASE("execute: any number of threads gives the same bits") {
  for (uint64_t seed = 0; seed < 30; ++seed) {
    CAPTURE(seed);
    testing::Random random(seed);
    const Mesh m = testing::random_mesh(random, 12);
    const Graph graph = testing::random_graph(random, 8);
    const WantedLayouts wanted = testing::random_layouts(random, m, graph);
    const Overlap form = seed % 2 == 0 ? Overlap::Off : Overlap::Ring;
    const Program program = partition(graph, m, wanted, {form, nullptr});
    Diagnostics diags;
    const auto values = make_values(graph, ValueSource::Random, 1, diags);
    const Execution one = execute(program, *values, {Arithmetic::F32, 1, true});
    for (const int threads : {2, 5}) {
      const Execution many =
          execute(program, *values, {Arithmetic::F32, threads, true});
      CHECK(many.sent == one.sent);
      CHECK(many.flops == one.flops);
      for (size_t r = 0; r < one.registers.size(); ++r) {
        CHECK(std::equal(one.registers[r].begin(), one.registers[r].end(),
                         many.registers[r].begin(), bitwise_equal));
      }
    }
  }
}

// A weight of two million numbers, gathered by eight devices in two groups.
struct LargeWeight {
  LargeWeight() : g("fsdp=4,tp=2") {
    const int x = g.input({4, 512}, "fsdp, None");
    w = g.parameter({512, 4096}, "fsdp, tp");
    g.einsum("bd,df->bf", x, w);
    program.emplace(g.plan());
  }
  Instruction& gather() {
    for (Instruction& at : program->instructions) {
      if (at.kind == Instruction::Kind::Collective) return at;
    }
    FAIL("there is no collective");
    return program->instructions[0];
  }
  SmallGraph g;
  int w = 0;
  std::optional<Program> program;
};

TEST_CASE("execute: large weights are gathered in slabs, and held once") {
  LargeWeight large;
  const Instruction& gather = large.gather();
  REQUIRE(gather.collective == CollectiveKind::AllGather);
  const std::vector<Tensor> values = large.g.values();
  const Execution run =
      execute(*large.program, values, {Arithmetic::F32, 1, true});
  const auto r = static_cast<size_t>(gather.result);
  const DeviceTensors& made = run.registers[r];
  const Layout& lay = large.program->registers[r].layout;
  for (int64_t device = 0; device < 8; ++device) {
    CHECK(
        bitwise_equal(made[static_cast<size_t>(device)],
                      shard_of(large.g.mesh, lay,
                               values[static_cast<size_t>(large.w)], device)));
    // Devices of the same tp rank share one copy.
    CHECK(made[static_cast<size_t>(device)].storage ==
          made[static_cast<size_t>(device % 2)].storage);
  }
  CHECK(made[0].storage != made[1].storage);
  // 3 of 4 parts of 512 x 2048 numbers arrive at every device.
  CHECK(run.bytes_moved() == 8 * 512 * 2048 * 4 / 4 * 3);
}

// Nobody gets anything.
Schedule nothing(CollectiveKind /*kind*/, const Ranks& ranks) {
  return empty_schedule(ranks.count, ranks.count);
}

TEST_CASE("execute: what a wrong gather leaves is each device's own") {
  LargeWeight large;
  const Algorithm algorithm{
      "nothing",
      "",
      [](CollectiveKind, const Ranks&) { return true; },
      nothing,
      [](CollectiveKind, const Ranks&, int, int64_t) { return int64_t{0}; },
      [](CollectiveKind, const Ranks&) { return int64_t{0}; }};
  large.gather().algorithm = &algorithm;
  const std::vector<Tensor> values = large.g.values();
  const Execution run =
      execute(*large.program, values, {Arithmetic::F32, 1, true});
  const DeviceTensors& made =
      run.registers[static_cast<size_t>(large.gather().result)];
  const Tensor& w = values[static_cast<size_t>(large.w)];
  for (int64_t rank = 0; rank < 4; ++rank) {
    const auto device = static_cast<size_t>(2 * rank);  // of tp rank 0
    const Tensor own = slice(made[device], 0, 128 * rank, 128 * (rank + 1));
    CHECK(bitwise_equal(
        own, slice(slice(w, 1, 0, 2048), 0, 128 * rank, 128 * (rank + 1))));
    const int64_t other = 128 * ((rank + 1) % 4);
    CHECK(values_of(slice(made[device], 0, other, other + 128)) ==
          std::vector<double>(128 * 2048));
  }
  CHECK(run.bytes_moved() == 0);
}

}  // namespace
}  // namespace shardplan
