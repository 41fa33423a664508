// SPDX-License-Identifier: Apache-2.0
#include "sim/decisions.h"

#include <algorithm>
#include <cmath>
#include <limits>

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

// Routers of devices that see two of four scores each, on rows of 4.
struct Router {
  explicit Router(const std::vector<double>& scores) : g("ep=2") {
    const auto rows = static_cast<int64_t>(scores.size()) / 4;
    x = g.input({rows, 4}, "");
    choice = g.node("top_k", {x}, {{"k", 1.0}});
    g.node("take", {x, choice});
    values = {make_tensor(Element::F32, {rows, 4}, scores)};
  }
  // Every device chooses of its own part, or, `whole`, of all scores.
  Simulation run(bool whole) {
    g.graph.nodes[0].shard_map = whole ? ShardMapUse{{{}}, {}, {}}
                                       : ShardMapUse{{{{{}, {"ep"}}}}, {}, {}};
    const Program program = g.plan();
    std::vector<Tensor> given = values;
    given.resize(g.graph.values.size());
    return simulate(program, given, {});
  }
  SmallGraph g;
  std::vector<Tensor> values;
  int x = 0, choice = 0;
};

// The choices of the unsharded run replaced all others, so that ranks which see
// a part of the experts were found right.
TEST_CASE("decisions: a choice of a part is a mismatch though it is replayed") {
  Router r({1, 2, 3, 4, 8, 7, 6, 5});
  CHECK_FALSE(r.run(true).mismatch);
  const Simulation s = r.run(false);
  REQUIRE(s.mismatch);
  CHECK(s.mismatch->value == r.choice);
  CHECK(s.mismatch->device == 0);
  REQUIRE(s.mismatch->choice);
  CHECK(s.mismatch->choice->own == 1);
  CHECK(s.mismatch->choice->recorded == 3);
  // 2 and 4 of a row of norm 5.5; most rows are larger.
  CHECK(s.mismatch->error > 0.1);
}

TEST_CASE("decisions: scores that tie within rounding may be turned over") {
  // Device 1 takes index 0 or 1 of its own for that of the whole.
  CHECK_FALSE(Router({5, 5, 5, 5}).run(false).mismatch);
  const auto near = [](double gap) {
    return Router({1 + gap, 1, 1 + gap, 1}).run(false).mismatch.has_value();
  };
  CHECK_FALSE(near(0));
  // Both parts choose their first, which is the choice of the whole.
  CHECK_FALSE(near(1));
  const auto far = [](double gap) {
    return Router({1, 1, 1, 1 + gap}).run(false).mismatch.has_value();
  };
  CHECK(far(0x1p-20));
  CHECK(far(0x1p-23));  // as float32 has it
}

TEST_CASE("decisions: the tie is told in parts of the row's norm") {
  SmallGraph g("ep=2");
  const int x = g.input({1, 4}, "");
  const int choice = g.node("top_k", {x}, {{"k", 1.0}});
  const Program program = g.plan();
  const auto at = std::find_if(
      program.instructions.begin(), program.instructions.end(),
      [&](const Instruction& each) { return is_decision(program, each); });
  REQUIRE(at != program.instructions.end());
  const auto of = [](std::vector<double> numbers) {
    const auto size = static_cast<int64_t>(numbers.size());
    return make_tensor(Element::F64, {1, size}, numbers);
  };
  const auto wrong = [&](const Tensor& scores, double own) {
    return wrong_choice(program, *at, scores, of({0}), {of({0}), of({own})});
  };
  const double tie = 0x1p-29 * 1000;  // the row's norm is 1000
  CHECK_FALSE(wrong(of({1000, 0, 0, 0}), 0));
  REQUIRE(wrong(of({1000, 0, 0, 0}), 3));
  CHECK(wrong(of({1000, 0, 0, 0}), 3)->device == 1);
  CHECK(wrong(of({1000, 0, 0, 0}), 3)->value == choice);
  const double half = std::sqrt(0.5) * 1000;
  CHECK_FALSE(wrong(of({half, half - tie * 0.9, 0, 0}), 1));
  CHECK(wrong(of({half, half - tie * 1.1, 0, 0}), 1));
  // What is no index, or of another shape, is no choice of these.
  CHECK(wrong(of({5, 5, 5, 5}), 4));
  CHECK(wrong(of({5, 5, 5, 5}), -1));
  CHECK(wrong_choice(program, *at, of({5, 5, 5, 5}), of({0}),
                     {of({0}), of({0, 1})}));
  const double nan = std::numeric_limits<double>::quiet_NaN();
  CHECK_FALSE(wrong(of({nan, nan, 0, 0}), 1));
  CHECK(wrong(of({nan, 1, 0, 0}), 1));
}

TEST_CASE(
    "decisions: what rounds apart in one place is counted on any device") {
  SmallGraph g("ep=2");
  const int x = g.input({1, 4}, "");
  g.node("top_k", {x}, {{"k", 1.0}});
  const Program program = g.plan();
  const auto at = std::find_if(
      program.instructions.begin(), program.instructions.end(),
      [&](const Instruction& each) { return is_decision(program, each); });
  const auto one = [](double index) {
    return make_tensor(Element::F32, {1, 1}, std::vector<double>{index});
  };
  // The first replica alone differs; the last one stood for all.
  DeviceTensors made = {one(2), one(0)};
  CHECK(replay(program, *at, one(0), made) == 1);
}

TEST_CASE("decisions: in the field one row is tried on many inputs") {
  // Of one row, half of all inputs choose within the first device's part.
  for (int64_t seed = 0; seed < 8; ++seed) {
    SmallGraph g("ep=2");
    const int x = g.input({1, 4}, "");
    g.node("top_k", {x}, {{"k", 1.0}});
    g.graph.nodes[0].shard_map = ShardMapUse{{{{{}, {"ep"}}}}, {}, {}};
    SimulateOptions options;
    options.values = ValueSource::Field;
    options.seed = seed;
    CHECK(simulate(g.plan(), g.values(ValueSource::Field, seed), options)
              .mismatch);
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
