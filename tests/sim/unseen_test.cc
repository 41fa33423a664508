// SPDX-License-Identifier: Apache-2.0
// Values that could not have shown a fault: where they are found, a fault of
// that kind really passes; where they are not, it is caught.
#include "sim/unseen.h"

#include <functional>
#include <string>

#include <doctest/doctest.h>

#include "sim/simulate.h"
#include "tests/support/small_graph.h"

namespace shardplan {
namespace {

using Kind = Unseen::Kind;
using testing::SmallGraph;

Simulation run(SmallGraph& g, const std::vector<Tensor>& values,
               const std::function<void(Program&)>& fault = {}) {
  Program program = g.plan();
  if (fault) fault(program);
  return simulate(program, values, {});
}

void check_only(const Simulation& s, Kind kind, int value) {
  CHECK_FALSE(s.mismatch);
  CHECK(verdict_of(s) == Verdict::Inconclusive);
  REQUIRE(s.unseen.size() == 1);
  CHECK(s.unseen[0].kind == kind);
  CHECK(s.unseen[0].value == value);
}

Tensor filled(const Shape& shape, double number) {
  return make_tensor(
      Element::F32, shape,
      std::vector<double>(static_cast<size_t>(*element_count(shape)), number));
}

void set(std::vector<Tensor>& values, int value, double number) {
  Tensor& tensor = values[static_cast<size_t>(value)];
  tensor = filled(tensor.shape, number);
}

// Reductions are left out, or done twice.
void drop_sums(Program& program) {
  for (Instruction& at : program.instructions) {
    if (at.kind != Instruction::Kind::Collective ||
        at.collective != CollectiveKind::AllReduce) {
      continue;
    }
    at.kind = Instruction::Kind::Slice;
    at.axes.clear();
  }
}
void swap_loads(Program& program, int value) {
  for (size_t i = 0; i < program.instructions.size(); ++i) {
    Instruction& at = program.instructions[i];
    if (program.registers[static_cast<size_t>(at.result)].value != value) {
      continue;
    }
    Instruction swap;
    swap.kind = Instruction::Kind::Collective;
    swap.collective = CollectiveKind::Permute;
    swap.sources = {1, 0};
    swap.result = at.result;
    at.result = static_cast<int>(program.registers.size());
    swap.operands = {at.result};
    program.registers.push_back(
        program.registers[static_cast<size_t>(swap.result)]);
    program.instructions.insert(
        program.instructions.begin() + static_cast<ptrdiff_t>(i) + 1, swap);
    return;
  }
}

TEST_CASE("unseen: zeros hide a sum that is dropped") {
  SmallGraph g("tp=2");
  const int x = g.input({4, 8}, "None, tp");
  const int w = g.parameter({8, 8}, "tp, None");
  g.einsum("bd,df->bf", x, w);
  std::vector<Tensor> values = g.values();
  CHECK(verdict_of(run(g, values)) == Verdict::Ok);
  CHECK(verdict_of(run(g, values, drop_sums)) == Verdict::Mismatch);
  for (const int zero : {x, w}) {
    CAPTURE(zero);
    std::vector<Tensor> zeros = values;
    set(zeros, zero, 0);
    check_only(run(g, zeros), Kind::ZeroInput, zero);
    check_only(run(g, zeros, drop_sums), Kind::ZeroInput, zero);
  }
}

TEST_CASE("unseen: an operation may make zeros of numbers") {
  SmallGraph g("tp=2");
  const int x = g.input({4, 8}, "tp, None");
  const int y = g.node("relu", {x});
  std::vector<Tensor> values = g.values();
  CHECK(verdict_of(run(g, values)) == Verdict::Ok);
  const Tensor square = copy(values[0]);
  for (int64_t i = 0; i < 32; ++i) {
    square.data<float>()[i] =
        -1 - square.data<float>()[i] * square.data<float>()[i];
  }
  values[0] = square;
  check_only(run(g, values), Kind::ZeroResult, y);
  check_only(run(g, values, [&](Program& p) { swap_loads(p, x); }),
             Kind::ZeroResult, y);
}

TEST_CASE("unseen: zeros that the graph itself asks for are none") {
  SmallGraph g("tp=2");
  const int x = g.input({4, 8}, "tp, None");
  const int nothing = g.node("scale", {x}, {{"by", 0.0}});
  g.node("concatenate", {nothing, x}, {{"dim", 0.0}});
  const int one = g.input({4, 8, 1}, "tp, None, None");
  g.composite("softmax", {one});
  CHECK(run(g, g.values()).unseen.empty());
  // But where it is all that is compared.
  SmallGraph all("tp=2");
  const int y =
      all.node("scale", {all.input({4, 8}, "tp, None")}, {{"by", 0.0}});
  check_only(run(all, all.values()), Kind::ZeroResult, y);
}

TEST_CASE("unseen: what is too small to be added might be added twice") {
  SmallGraph g("tp=2");
  const int x = g.input({4, 8}, "tp, None");
  const int bias = g.parameter({8}, "");
  const int y = g.node("add", {x, bias});
  for (const std::string op : {"add", "subtract"}) {
    g.graph.nodes[0].op = find_op(op);
    std::vector<Tensor> values = g.values();
    CHECK(verdict_of(run(g, values)) == Verdict::Ok);
    const Tensor tiny = copy(values[1]);
    for (int64_t i = 0; i < 8; ++i) tiny.data<float>()[i] *= 1e-12F;
    values[1] = tiny;
    const Simulation small = run(g, values);
    check_only(small, Kind::LostTerm, y);
    CHECK(small.unseen[0].operand == bias);
    const Tensor tiny_x = copy(values[0]);
    for (int64_t i = 0; i < 32; ++i) tiny_x.data<float>()[i] *= 1e-30F;
    values[0] = tiny_x;
    const Simulation large = run(g, values);
    check_only(large, Kind::LostTerm, y);
    CHECK(large.unseen[0].operand == x);
  }
}

TEST_CASE("unseen: a sum of which one device has all") {
  SmallGraph g("tp=4");
  const int x = g.input({4, 8}, "None, tp");
  const int y = g.einsum("bd,df->bf", x, g.parameter({8, 8}, "tp, None"));
  std::vector<Tensor> values = g.values();
  CHECK(verdict_of(run(g, values)) == Verdict::Ok);
  // Only the first two of eight rows of the weight, those of device 0.
  const Tensor w = copy(values[1]);
  for (int64_t i = 16; i < 64; ++i) w.data<float>()[i] = 0;
  values[1] = w;
  const Simulation s = run(g, values);
  // Those of other devices are all zeros: alike, but not the first's.
  check_only(s, Kind::LostParts, y);
  CHECK(s.unseen[0].axes == AxisNames{"tp"});
  // Two devices are enough.
  w.data<float>()[16] = 1;
  CHECK(verdict_of(run(g, values)) == Verdict::Ok);
}

TEST_CASE("unseen: rows of a table come from one device each") {
  SmallGraph g("tp=4");
  const int table = g.parameter({16, 8}, "tp, None");
  const int ids = g.input({3}, "", 16);
  g.node("embedding", {table, ids});
  std::vector<Tensor> values = g.values();
  values[1] = make_tensor(Element::F32, {3}, std::vector<double>{1, 2, 3});
  CHECK(verdict_of(run(g, values)) == Verdict::Ok);
  CHECK(verdict_of(run(g, values, drop_sums)) == Verdict::Mismatch);
}

TEST_CASE("unseen: shards that are alike could be exchanged") {
  SmallGraph g("tp=2");
  const int x = g.input({4, 8}, "None, tp");
  const int scale = g.parameter({8}, "tp");
  g.node("multiply", {x, scale});
  std::vector<Tensor> values = g.values();
  const auto fault = [&](Program& p) { swap_loads(p, scale); };
  CHECK(verdict_of(run(g, values)) == Verdict::Ok);
  CHECK(verdict_of(run(g, values, fault)) == Verdict::Mismatch);
  set(values, scale, 1);
  check_only(run(g, values), Kind::AlikeShards, scale);
  check_only(run(g, values, fault), Kind::AlikeShards, scale);
  // Whole on every device, there is nothing to exchange.
  g.want(scale, "None");
  g.want(x, "None, None");
  CHECK(verdict_of(run(g, values)) == Verdict::Ok);
}

TEST_CASE("unseen: shards may be alike along one axis of several") {
  SmallGraph g("a=2,b=2");
  const int w = g.parameter({4, 4}, "a, b");
  g.node("relu", {w});
  std::vector<Tensor> values = g.values();
  // Rows repeat, columns do not.
  for (int64_t i = 8; i < 16; ++i) {
    values[0].data<float>()[i] = values[0].data<float>()[i - 8];
  }
  const Simulation s = run(g, values);
  check_only(s, Kind::AlikeShards, w);
  CHECK(s.unseen[0].axes == AxisNames{"a"});
}

TEST_CASE("unseen: few integers may be alike by chance, many may not") {
  for (const int64_t rows : {1, 32}) {
    SmallGraph g("tp=2");
    const int ids = g.input({2 * rows}, "tp", 16);
    g.node("embedding", {g.parameter({16, 8}, ""), ids});
    std::vector<Tensor> values = g.values();
    set(values, ids, 3);
    CHECK(run(g, values).unseen.size() == (rows == 1 ? 0 : 1));
  }
}

TEST_CASE("unseen: nothing is compared where there are no numbers") {
  SmallGraph g("tp=2");
  const int x = g.input({0, 8}, "None, tp");
  const int y = g.node("relu", {x});
  check_only(run(g, g.values()), Kind::NoNumbers, y);
}

TEST_CASE("unseen: exact integers are never in doubt") {
  SmallGraph g("tp=2");
  const int x = g.input({4, 8}, "None, tp");
  g.einsum("bd,df->bf", x, g.parameter({8, 8}, "tp, None"));
  SimulateOptions options;
  options.values = ValueSource::Field;
  CHECK(verdict_of(simulate(g.plan(), g.values(ValueSource::Field), options)) ==
        Verdict::Ok);
}

}  // namespace
}  // namespace shardplan
