// SPDX-License-Identifier: Apache-2.0

#include "sim/execute.h"

#include <algorithm>
#include <numeric>

#include <doctest/doctest.h>

#include "graph/graph.h"
#include "sim/values.h"
#include "tests/support/builders.h"
#include "tests/support/random_graph.h"
#include "tests/support/small_graph.h"
#include "tests/support/whole_values.h"

namespace shardplan {
namespace {

using testing::SmallGraph;

// Factors in the order of the equation: b, d, f.
struct ProductModel {
  ProductModel() : g("dp=2,tp=4") {
    g.einsum("bd,df->bf", g.input({6, 8}, ""), g.parameter({8, 16}, ""));
  }
  const GraphNode& node() const { return g.graph.nodes[NodeId(0)]; }
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
  const ProductModel p;
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
  const ProductModel p;
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
  const ProductModel p;
  DevicePart part;
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

TEST_CASE("overlapped: rows are multiplied as the ring brings them") {
  // Rank 1 of 4, two rows each: its own, then those of 0, 3 and 2.
  CHECK(arrival_order(Overlap::Ring, 1, 4, 8) ==
        std::vector<Slice>{{2, 4}, {0, 2}, {6, 8}, {4, 6}});
  CHECK(arrival_order(Overlap::Bidirectional, 1, 4, 8) ==
        arrival_order(Overlap::Ring, 1, 4, 8));
  CHECK(arrival_order(Overlap::Ring, 0, 1, 8) == std::vector<Slice>{{0, 8}});
}

TEST_CASE("overlapped: halves go both ways, first halves first") {
  CHECK(arrival_order(Overlap::Split, 1, 3, 6) ==
        std::vector<Slice>{{2, 3}, {0, 1}, {4, 5}, {3, 4}, {5, 6}, {1, 2}});
  // Of three rows, the second half is the larger one.
  CHECK(arrival_order(Overlap::Split, 0, 1, 3) ==
        std::vector<Slice>{{0, 1}, {1, 3}});
}

constexpr int64_t kDevices = 5;

float at(const Tensor& t, int64_t row, int64_t column) {
  return t.data<float>()[row * t.shape[1] + column];
}

// A product of which every device has one term of the contraction, so that a
// chunk's product is a single rounded multiplication and the order of the
// additions is all that is left. `source(d, i)` is the device whose term is the
// i-th that device d adds.
void check_order(const char* kernel, const char* moves,
                 int64_t (*source)(int64_t d, int64_t i)) {
  SmallGraph g("tp=5");
  const ValueId x = g.input({2, kDevices}, "None, tp");
  const ValueId w = g.parameter({kDevices, 10}, kernel);
  const ValueId y = g.einsum("bd,df->bf", x, w);
  g.want(y, "None, tp");
  const Program program = g.plan({Overlap::Ring, nullptr});
  REQUIRE(testing::moves(program).find(moves) == 0);
  const PerValue<Tensor> values = g.values();
  const Execution run = execute(program, values, {Arithmetic::F32, 1, true});
  const auto& got = run.registers[program.outputs[0]];
  for (int64_t d = 0; d < kDevices; ++d) {
    for (int64_t row = 0; row < 2; ++row) {
      for (int64_t column = 0; column < 2; ++column) {
        float sum = 0;
        for (int64_t i = 0; i < kDevices; ++i) {
          const int64_t k = source(d, i);
          const float product =
              at(values[x], row, k) * at(values[w], k, 2 * d + column);
          sum = i == 0 ? product : sum + product;
        }
        CHECK(at(got[static_cast<size_t>(d)], row, column) == sum);
      }
    }
  }
}

TEST_CASE(
    "overlapped: gathered products are summed left to right, own chunk "
    "first, as in TPAsyncDense") {
  check_order("None, tp", "overlapped all-gather", [](int64_t d, int64_t i) {
    return (d - i + kDevices) % kDevices;
  });
}

TEST_CASE(
    "overlapped: scattered products are summed from the next device on, "
    "one's own last, as in async_scatter") {
  check_order("tp, None", "overlapped reduce-scatter",
              [](int64_t d, int64_t i) { return (d + i + 1) % kDevices; });
}

TEST_CASE("overlapped: sums that travel are rounded as without overlap") {
  SmallGraph g("tp=4");
  // Integers: products are exact, and only sums on the way round.
  const ValueId x = g.input({2, 8}, "None, tp", 40);
  const ValueId w = g.parameter({8, 8}, "tp, None");
  const ValueId y = g.einsum("bd,df->bf", x, w);
  g.want(y, "None, tp");
  PerValue<Tensor> values = g.values();
  Tensor& weights = values[w];
  for (int64_t i = 0; i < weights.elements(); ++i) {
    weights.data<float>()[i] = static_cast<float>(i * 37 % 101);
  }
  const auto results = [&](Overlap overlap, Storage reduce) {
    const Program program = g.plan({overlap, find_algorithm("ring")});
    const Execution run = execute(
        program, values, {Arithmetic::F32, 1, false, Storage::F32, reduce});
    const auto output = program.outputs[0];
    return assemble(program.mesh, program.registers[output].layout, {2, 8},
                    run.registers[output]);
  };
  const Tensor rounded_sums = results(Overlap::Ring, Storage::BF16);
  CHECK(bitwise_equal(rounded_sums, results(Overlap::Off, Storage::BF16)));
  CHECK_FALSE(
      bitwise_equal(rounded_sums, results(Overlap::Ring, Storage::F32)));
}

TEST_CASE("overlapped: a gathered product is rounded once, where it ends") {
  SmallGraph g("tp=4");
  const ValueId x = g.input({8, 8}, "tp, None");
  const ValueId w = g.parameter({8, 8}, "None, tp");
  const ValueId y = g.einsum("bd,df->bf", x, w);
  g.want(y, "None, tp");
  const PerValue<Tensor> values = g.values();
  const Program program = g.plan({Overlap::Ring, nullptr});
  REQUIRE(testing::moves(program).find("overlapped all-gather") == 0);
  const auto output = program.outputs[0];
  for (const Storage storage : {Storage::BF16, Storage::F16}) {
    const Execution run =
        execute(program, values, {Arithmetic::F32, 1, false, storage, storage});
    for (const Tensor& part : run.registers[output]) {
      const Tensor again = copy(part);
      round_to(again, storage);
      CHECK(bitwise_equal(part, again));
    }
  }
}

using testing::layout;
using testing::mesh;

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

// A row-parallel product: partial sums, then an all-reduce.
struct RowParallel {
  RowParallel() : g("tp=4") {
    const ValueId x = g.input({2, 8}, "None, tp");
    y = g.einsum("bd,df->bf", x, g.parameter({8, 4}, "tp, None"));
    g.want(y, "None, None");
  }
  SmallGraph g;
  ValueId y;
};

TEST_CASE("execute: devices compute their parts and sum them") {
  RowParallel r;
  const Program program = r.g.plan();
  const PerValue<Tensor> values = r.g.values(ValueSource::Field);
  const Execution run = execute(program, values, {Arithmetic::Field, 1, true});
  const PerValue<Tensor> all = evaluate(r.g.graph, values, Arithmetic::Field);
  const auto output = program.outputs[0];
  for (const Tensor& got : run.registers[output]) {
    CHECK(bitwise_equal(got, all[r.y]));
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
  const auto output = program.outputs[0];
  for (const RegisterId i : run.registers.ids()) {
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
      for (const RegisterId r : one.registers.ids()) {
        CHECK(std::equal(one.registers[r].begin(), one.registers[r].end(),
                         many.registers[r].begin(), bitwise_equal));
      }
    }
  }
}

// A weight of two million numbers, gathered by eight devices in two groups.
struct LargeWeight {
  LargeWeight() : g("fsdp=4,tp=2") {
    const ValueId x = g.input({4, 512}, "fsdp, None");
    w = g.parameter({512, 4096}, "fsdp, tp");
    g.einsum("bd,df->bf", x, w);
    program.emplace(g.plan());
  }
  Instruction& gather() {
    for (Instruction& at : program->instructions) {
      if (at.kind == Instruction::Kind::Collective) return at;
    }
    FAIL("there is no collective");
    return program->instructions[InstructionId(0)];
  }
  SmallGraph g;
  ValueId w;
  std::optional<Program> program;
};

TEST_CASE("execute: a weight that is gathered is held once") {
  LargeWeight large;
  const Instruction& gather = large.gather();
  REQUIRE(gather.collective == CollectiveKind::AllGather);
  const PerValue<Tensor> values = large.g.values();
  const Execution run =
      execute(*large.program, values, {Arithmetic::F32, 1, true});
  const auto r = gather.result;
  const DeviceTensors& made = run.registers[r];
  const Layout& lay = large.program->registers[r].layout;
  for (int64_t device = 0; device < 8; ++device) {
    CHECK(bitwise_equal(made[static_cast<size_t>(device)],
                        shard_of(large.g.mesh, lay, values[large.w], device)));
    // Its shards lie side by side in the weight: that is what devices get.
    CHECK(made[static_cast<size_t>(device)].storage == values[large.w].storage);
  }
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
  const PerValue<Tensor> values = large.g.values();
  const Execution run =
      execute(*large.program, values, {Arithmetic::F32, 1, true});
  const DeviceTensors& made = run.registers[large.gather().result];
  const Tensor& w = values[large.w];
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

// A table that is looked up first and multiplied with last, `layers` apart.
struct Tied {
  explicit Tied(int layers) : g("fsdp=2") {
    const ValueId ids = g.input({4, 2}, "fsdp, None", 8);
    table = g.parameter({8, 4}, "None, fsdp");
    ValueId x = g.node("embedding", {table, ids});
    for (int i = 0; i < layers; ++i) {
      inner = x;
      x = g.node("relu", {x});
    }
    y = g.einsum("bsd,vd->bsv", x, table);
    program.emplace(g.plan());
    lives = lifetimes_of(*program);
  }
  SmallGraph g;
  ValueId table, inner, y;
  std::optional<Program> program;
  Lifetimes lives;
};

TEST_CASE("lifetimes: a stretch is what a node needs, and the node") {
  const Tied tied(3);
  CHECK(tied.lives.phases == 6);
  int last = -1;
  for (const InstructionId i : tied.program->instructions.ids()) {
    const Instruction& at = tied.program->instructions[i];
    const int phase = tied.lives.phase[i];
    if (at.kind == Instruction::Kind::Load) {
      CHECK(phase == -1);
      continue;
    }
    if (at.kind == Instruction::Kind::Compute) CHECK(NodeId(phase) == at.node);
    CHECK(phase >= last);
    last = phase;
  }
}

TEST_CASE("lifetimes: weights are needed where they are used, and no longer") {
  const Tied tied(20);
  const auto& needed = tied.lives.needed[tied.table];
  CHECK(needed == std::vector<int>{0, 21});
  CHECK_FALSE(is_needed_soon(needed, 0));
  CHECK(is_needed_later(needed, 0));
  CHECK(is_needed_soon(needed, 20));
  CHECK_FALSE(is_needed_soon(needed, 21));
  CHECK_FALSE(is_needed_later(needed, 21));
  const auto& of_inner = tied.lives.needed[tied.inner];
  CHECK(of_inner == std::vector<int>{19, 20});
  // The last phase hands out the outputs.
  CHECK(tied.lives.needed[tied.y].back() == 22);
}

TEST_CASE("lifetimes: what comes of weights alone can be made again") {
  const Tied tied(20);
  int gathered = 0;
  for (const InstructionId i : tied.program->instructions.ids()) {
    const Instruction& at = tied.program->instructions[i];
    const auto r = at.result;
    CHECK(tied.lives.maker[r] == i);
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
    for (const InstructionId i : program.instructions.ids()) {
      for (const RegisterId r : program.instructions[i].operands) {
        CHECK(lives.last_read[r] >= i);
        CHECK(lives.reads[r].back() >= lives.phase[i]);
        const ValueId value = program.registers[r].value;
        CHECK(lives.needed[value].back() >= lives.phase[i]);
      }
    }
    for (const RegisterId number : program.outputs) {
      CHECK_FALSE(program.instructions.has(lives.last_read[number]));
    }
  }
}

}  // namespace

}  // namespace shardplan
