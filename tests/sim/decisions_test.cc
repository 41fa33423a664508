// SPDX-License-Identifier: Apache-2.0
#include "sim/decisions.h"

#include <doctest/doctest.h>

#include "sim/execute.h"
#include "sim/simulate.h"
#include "tests/support/small_graph.h"

namespace shardplan {
namespace {

using testing::layout;
using testing::SmallGraph;

// 1 + 2^-22 in every arithmetic: what (1 + 2^-23)^2 is in float32, and a little
// less than it is in double precision.
constexpr double kThreshold = 1 + 0x1p-22;

template <typename T>
void choose_each(const Tensor& x, const Tensor& result, bool field) {
  for (int64_t i = 0; i < x.elements(); ++i) {
    const auto number = static_cast<double>(contiguous(x).data<T>()[i]);
    const bool yes = field ? number > 500'000 : number > kThreshold;
    result.data<T>()[i] = yes ? 1 : 0;
  }
}

Tensor run_choice(std::span<const Tensor> operands, const Attributes&,
                  const RunContext& context) {
  const Tensor result =
      make_tensor(element_of(context.arithmetic), operands[0].shape);
  if (context.arithmetic == Arithmetic::F32) {
    choose_each<float>(operands[0], result, false);
  } else {
    choose_each<double>(operands[0], result,
                        context.arithmetic == Arithmetic::Field);
  }
  return result;
}

const OpDef& choice_op() {
  static const OpDef op = [] {
    OpDef made = *find_op("relu");
    made.name = "choice";
    made.run = run_choice;
    made.is_decision = true;
    return made;
  }();
  return op;
}

// y = s * (s > threshold), s = x * x, on four devices.
struct Chooser {
  Chooser() : g("tp=4") {
    x = g.input({2, 8}, "None, tp");
    square = g.node("multiply", {x, x});
    choice = g.node("relu", {square});
    g.graph.nodes.back().op = &choice_op();
    y = g.node("multiply", {square, choice});
    g.graph.probes = {y};
  }
  Simulation run(const Program& program, ValueSource source) const {
    std::vector<Tensor> values = g.values(source);
    if (source == ValueSource::Random) {
      values[0] = make_tensor(Element::F32, {2, 8},
                              std::vector<double>(16, 1 + 0x1p-23));
    }
    SimulateOptions options;
    options.values = source;
    return simulate(program, values, options);
  }
  SmallGraph g;
  int x = 0, square = 0, choice = 0, y = 0;
};

TEST_CASE("decisions: the run in double precision decides for all") {
  Chooser c;
  const Simulation s = c.run(c.g.plan(), ValueSource::Random);
  CHECK_FALSE(s.mismatch.has_value());
  // In float32 every entry would have been chosen otherwise, with or without
  // devices; what was chosen is as exact as float32.
  CHECK(s.decision_flips == 16);
  REQUIRE(s.probes.size() == 1);
  CHECK(s.probes[0].value == c.y);
  CHECK(s.probes[0].unsharded > 0);
  CHECK(s.probes[0].unsharded < 1e-7);
  CHECK(s.probes[0].sharded == s.probes[0].unsharded);
  CHECK(s.error_amplification == 1);
}

TEST_CASE("decisions: in the field every run makes its own, and they agree") {
  Chooser c;
  const Simulation s = c.run(c.g.plan(), ValueSource::Field);
  CHECK_FALSE(s.mismatch.has_value());
  CHECK(s.decision_flips == 0);
}

TEST_CASE("decisions: a fault does not hide behind a replayed choice") {
  for (const ValueSource source : {ValueSource::Random, ValueSource::Field}) {
    SmallGraph g("tp=2");
    const int x = g.input({64}, "tp");
    g.node("relu", {x});
    g.graph.nodes.back().op = &choice_op();
    Program program = g.plan();
    // Both devices choose from the other's part.
    Instruction swap;
    swap.kind = Instruction::Kind::Collective;
    swap.collective = CollectiveKind::Permute;
    swap.sources = {1, 0};
    swap.operands = {program.instructions[0].result};
    swap.result = static_cast<int>(program.registers.size());
    program.registers.push_back(program.registers[0]);
    program.instructions.insert(program.instructions.begin() + 1, swap);
    program.instructions[2].operands = {swap.result};
    SimulateOptions options;
    options.values = source;
    const Simulation s = simulate(program, g.values(source), options);
    REQUIRE(s.mismatch.has_value());
    CHECK(s.mismatch->value == x);
  }
}

TEST_CASE("decisions: entries are counted once, and put in their places") {
  Chooser c;
  c.g.want(c.choice, "None, None");
  const Program program = c.g.plan();
  const auto at = std::find_if(
      program.instructions.begin(), program.instructions.end(),
      [&](const Instruction& each) { return is_decision(program, each); });
  REQUIRE(at != program.instructions.end());
  const Layout& lay = program.registers[static_cast<size_t>(at->result)].layout;
  const Tensor recorded = make_tensor(
      Element::F64, {2, 8},
      std::vector<double>{1, 1, 1, 1, 0, 0, 0, 0, 1, 1, 1, 1, 0, 0, 0, 0});
  const Tensor own = make_tensor(Element::F32, {2, 8});
  DeviceTensors made;
  for (int64_t device = 0; device < 4; ++device) {
    made.push_back(shard_of(program.mesh, lay, own, device));
  }
  CHECK(replay(program, *at, recorded, made) == 8);
  CHECK(bitwise_equal(assemble(program.mesh, lay, {2, 8}, made),
                      converted(recorded, Element::F32)));
  CHECK(replay(program, *at, recorded, made) == 0);
  made[0] = make_tensor(Element::F32, {1});
  CHECK(replay(program, *at, recorded, made) == 0);
  CHECK(made[0].shape == Shape{1});
}

}  // namespace
}  // namespace shardplan
