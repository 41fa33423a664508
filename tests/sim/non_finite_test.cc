// SPDX-License-Identifier: Apache-2.0
#include "sim/non_finite.h"

#include <cmath>
#include <limits>
#include <string>

#include <doctest/doctest.h>

#include "sim/simulate.h"
#include "tests/support/small_graph.h"

namespace shardplan {
namespace {

using testing::SmallGraph;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

TEST_CASE("non-finite: numbers are counted by kind") {
  for (const Element element : {Element::F32, Element::F64}) {
    const double numbers[] = {0, kNan, kInf, -kInf, -kInf, 1};
    const Tensor x = make_tensor(element, {2, 3}, numbers);
    const NumberKinds kinds = kinds_of(x);
    CHECK(kinds.elements == 6);
    CHECK(kinds.nan == 1);
    CHECK(kinds.infinite == 1);
    CHECK(kinds.minus_infinite == 2);
    CHECK_FALSE(kinds.all_zero);
    // A view: the middle column, then the first number.
    CHECK(kinds_of(slice(x, 1, 1, 2)).nan == 1);
    CHECK(kinds_of(slice(x, 1, 1, 2)).minus_infinite == 1);
    CHECK(kinds_of(slice(slice(x, 0, 0, 1), 1, 0, 1)).all_zero);
    CHECK_FALSE(kinds_of(slice(slice(x, 0, 0, 1), 1, 1, 2)).all_zero);
    CHECK(kinds_of(make_tensor(element, {})).all_zero);
    CHECK_FALSE(kinds_of(make_tensor(element, {0, 3})).all_zero);
  }
}

TEST_CASE("non-finite: what a mask hides is meant") {
  NumberKinds kinds;
  kinds.elements = 9;
  kinds.minus_infinite = 3;
  CHECK_FALSE(non_finite_of(kinds, 1, -1, true));
  REQUIRE(non_finite_of(kinds, 1, -1, false));
  CHECK(non_finite_of(kinds, 1, -1, false)->worst == -kInf);
  kinds.infinite = 2;
  REQUIRE(non_finite_of(kinds, 1, 4, true));
  CHECK(non_finite_of(kinds, 1, 4, true)->count == 2);
  CHECK(non_finite_of(kinds, 1, 4, true)->device == 4);
  CHECK(non_finite_of(kinds, 1, 4, true)->worst == kInf);
  kinds.nan = 1;
  CHECK(std::isnan(non_finite_of(kinds, 1, -1, true)->worst));
}

// y = x w, from a sum over devices.
struct Product {
  Product() : g("tp=2") {
    x = g.input({4, 8}, "None, tp");
    w = g.parameter({8, 8}, "tp, None");
    y = g.einsum("bd,df->bf", x, w);
  }
  Simulation run(const Program& program) const {
    return simulate(program, values, {});
  }
  SmallGraph g;
  std::vector<Tensor> values;
  int x = 0, w = 0, y = 0;
};

// All of a result was NaN in both runs, which was "agree to 12 digits".
TEST_CASE("non-finite: a parameter that has NaN is found, and no run is ok") {
  Product p;
  Program program = p.g.plan();
  p.values = p.g.values();
  CHECK(verdict_of(p.run(program)) == Verdict::Ok);
  const auto w = static_cast<size_t>(p.w);
  p.values[w] = copy(p.values[w]);
  for (int64_t i = 0; i < 8; ++i) p.values[w].data<float>()[i] = kNan;
  const Simulation s = p.run(program);
  CHECK(verdict_of(s) == Verdict::Inconclusive);
  REQUIRE(s.non_finite);
  CHECK(s.non_finite->value == p.w);
  CHECK(s.non_finite->count == 8);
  CHECK(s.non_finite->elements == 64);
  CHECK(s.non_finite->device == -1);
  CHECK(std::isnan(s.error_amplification));
  CHECK_FALSE(s.bound_ratio);
}

TEST_CASE("non-finite: rows that are finite show a sum that is missing") {
  Product p;
  Program program = p.g.plan();
  p.values = p.g.values();
  // One row of x: three of four rows of the result are finite.
  const auto x = static_cast<size_t>(p.x);
  p.values[x] = copy(p.values[x]);
  p.values[x].data<float>()[0] = kNan;
  CHECK_FALSE(p.run(program).mismatch);
  for (Instruction& at : program.instructions) {
    if (at.kind != Instruction::Kind::Collective) continue;
    at.kind = Instruction::Kind::Slice;
    at.axes.clear();
  }
  const Simulation s = p.run(program);
  CHECK(verdict_of(s) == Verdict::Mismatch);
  REQUIRE(s.mismatch);
  CHECK(s.mismatch->value == p.y);
  REQUIRE(s.non_finite);
  CHECK(s.non_finite->value == p.x);
}

TEST_CASE("non-finite: values before show what the outputs hide") {
  for (const bool sums : {true, false}) {
    CAPTURE(sums);
    Product p;
    const int large = p.g.node("scale", {p.y}, {{"by", 1e300}});
    const int infinite = p.g.node("square", {large});
    const int opposite = p.g.node("negate", {infinite});
    p.g.node("add", {infinite, opposite});
    p.g.want(p.y, "None, None");
    Program program = p.g.plan();
    p.values = p.g.values();
    for (Instruction& at : program.instructions) {
      if (sums || at.kind != Instruction::Kind::Collective) continue;
      at.kind = Instruction::Kind::Slice;
      at.axes.clear();
    }
    const Simulation s = p.run(program);
    REQUIRE(s.non_finite);
    CHECK(s.non_finite->value == infinite);
    CHECK(verdict_of(s) == (sums ? Verdict::Inconclusive : Verdict::Mismatch));
    if (!sums) CHECK(s.mismatch->value == p.y);
  }
}

TEST_CASE("non-finite: in the sharded run alone it is a mismatch") {
  SmallGraph g("tp=2");
  const int x = g.input({4, 8}, "tp, None");
  const int large = g.node("scale", {x}, {{"by", 1e200}});
  const int small = g.node("scale", {x}, {{"by", 1e-200}});
  const int y = g.node("multiply", {large, small});
  g.node("sigmoid", {y});
  Program program = g.plan();
  CHECK(verdict_of(simulate(program, g.values(), {})) == Verdict::Ok);
  // A fault: the devices take the large one twice.
  for (Instruction& at : program.instructions) {
    const int value = program.registers[static_cast<size_t>(at.result)].value;
    if (value == y) at.operands[1] = at.operands[0];
  }
  const Simulation s = simulate(program, g.values(), {});
  CHECK_FALSE(s.non_finite);
  REQUIRE(s.mismatch);
  CHECK(s.mismatch->value == y);
  CHECK(std::isinf(s.mismatch->error));
}

TEST_CASE("non-finite: the -inf of a causal mask is no finding") {
  SmallGraph g("tp=2");
  const int x = g.input({2, 4, 8}, "None, None, tp");
  const int scores = g.node("causal_mask", {x});
  const int scaled = g.node("scale", {scores}, {{"by", 0.5}});
  const int shares = g.composite("softmax", {scaled});
  g.node("einsum", {shares, g.parameter({8, 4}, "tp, None")},
         {{"equation", std::string("bqk,kd->bqd")}});
  const Simulation s = simulate(g.plan(), g.values(), {});
  CHECK_FALSE(s.non_finite);
  CHECK_FALSE(s.overflow);
  CHECK_FALSE(s.sharded_overflow);
  CHECK(verdict_of(s) == Verdict::Ok);
}

TEST_CASE("non-finite: an overflow of working precision is told") {
  for (const Storage storage : {Storage::F16, Storage::BF16}) {
    SmallGraph g("tp=2");
    const int x = g.input({4, 8}, "None, tp");
    const int large = g.node("scale", {x}, {{"by", 1e5}});
    g.node("scale", {large}, {{"by", 1e-5}});
    SimulateOptions options;
    options.storage = storage;
    options.reduce = storage;
    const Simulation s = simulate(g.plan(), g.values(), options);
    CHECK(verdict_of(s) == Verdict::Ok);
    CHECK(s.overflow.has_value() == (storage == Storage::F16));
    if (!s.overflow) continue;
    CHECK(s.overflow->value == large);
    CHECK(s.overflow->device == -1);
    CHECK(std::isnan(s.error_amplification));
  }
}

TEST_CASE("non-finite: sums overflow in the sharded run alone") {
  SmallGraph g("tp=2");
  const int x = g.input({4, 8}, "None, tp");
  const int large = g.node("scale", {x}, {{"by", 1e5}});
  const int total = g.node("sum", {large}, {{"dims", std::vector<int64_t>{1}}});
  SimulateOptions options;
  options.reduce = Storage::F16;
  const Simulation s = simulate(g.plan(), g.values(), options);
  CHECK(verdict_of(s) == Verdict::Ok);
  CHECK_FALSE(s.overflow);
  REQUIRE(s.sharded_overflow);
  CHECK(s.sharded_overflow->value == total);
  CHECK(s.sharded_overflow->device >= 0);
}

}  // namespace
}  // namespace shardplan
