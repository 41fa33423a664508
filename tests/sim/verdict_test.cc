// SPDX-License-Identifier: Apache-2.0
#include "sim/verdict.h"

#include <cmath>
#include <functional>
#include <limits>
#include <string>

#include <doctest/doctest.h>

#include "sim/simulate.h"
#include "tests/support/small_graph.h"
#include "tests/support/whole_values.h"

namespace shardplan {
namespace {

Tensor rows(const Shape& shape, const std::vector<double>& numbers) {
  return make_tensor(Element::F64, shape, numbers);
}

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

TEST_CASE("verdict: a row's error is relative to its norm") {
  const Tensor y = rows({2, 2}, {3, 4, 6, 8});
  CHECK(structural_error(y, y) == 0);
  // Row 0 has norm 5 but the median is 7.5; row 1 has norm 10.
  CHECK(structural_error(y, rows({2, 2}, {3, 7, 6, 8})) ==
        doctest::Approx(3 / 7.5));
  CHECK(structural_error(y, rows({2, 2}, {3, 4, 6, 7})) ==
        doctest::Approx(0.1));
  CHECK(structural_error(y, rows({2, 2}, {3, 7, 6, 7})) ==
        doctest::Approx(3 / 7.5));
}

TEST_CASE("verdict: the median of an odd number of rows is the middle one") {
  const Tensor y = rows({3, 1}, {1, 100, 4});
  CHECK(structural_error(y, rows({3, 1}, {2, 100, 4})) ==
        doctest::Approx(0.25));
  // An even number: halfway between the middle two, 2.5.
  const Tensor even = rows({4, 1}, {1, 2, 3, 4});
  CHECK(structural_error(even, rows({4, 1}, {2, 2, 3, 4})) ==
        doctest::Approx(1 / 2.5));
}

TEST_CASE("verdict: a row of zeros is measured by the others") {
  const Tensor y = rows({3, 1}, {0, 2, 2});
  CHECK(structural_error(y, rows({3, 1}, {1, 2, 2})) == doctest::Approx(0.5));
  // All zero on both sides is not an error, on one side a mismatch.
  const Tensor zero = rows({2, 2}, {0, 0, 0, 0});
  CHECK(structural_error(zero, zero) == 0);
  CHECK(structural_error(zero, rows({2, 2}, {0, 0, 0, 1e-300})) == kInfinity);
  // Squares of these are no longer, or not yet, numbers.
  CHECK(structural_error(rows({1, 1}, {1e-200}), rows({1, 1}, {2e-200})) ==
        doctest::Approx(1));
  CHECK(structural_error(rows({1, 1}, {1e200}), rows({1, 1}, {2e200})) ==
        doctest::Approx(1));
  // Where most rows are zero, the median is: only a row's own norm counts.
  const Tensor most = rows({3, 1}, {0, 0, 2});
  CHECK(structural_error(most, rows({3, 1}, {0, 0, 3})) ==
        doctest::Approx(0.5));
  CHECK(structural_error(most, rows({3, 1}, {1, 0, 2})) == kInfinity);
}

TEST_CASE("verdict: no numbers and infinities agree with themselves only") {
  const Tensor y = rows({1, 3}, {kNan, kInfinity, 1});
  CHECK(structural_error(y, y) == 0);
  CHECK(structural_error(y, rows({1, 3}, {1, kInfinity, 1})) == kInfinity);
  CHECK(structural_error(y, rows({1, 3}, {kNan, -kInfinity, 1})) == kInfinity);
  CHECK(structural_error(rows({1, 1}, {1}), rows({1, 1}, {kNan})) == kInfinity);
  // What is finite in such a row is still compared.
  CHECK(structural_error(y, rows({1, 3}, {kNan, kInfinity, 3})) ==
        doctest::Approx(2));
}

// Errors of what is not finite were 0, and a run that overflowed was "inexact
// where the unsharded one is exact".
TEST_CASE("verdict: what is not finite has no error") {
  for (const double odd : {kNan, kInfinity, -kInfinity}) {
    CAPTURE(odd);
    const Tensor y = rows({1, 2}, {1, 2});
    const Tensor bad = rows({1, 2}, {odd, 2});
    const std::vector<Tensor> ys = {y};
    const std::vector<Tensor> bads = {bad};
    CHECK(std::isnan(error_amplification(bads, bads, bads)));
    CHECK(std::isnan(error_amplification(ys, bads, ys)));
    CHECK(std::isnan(error_amplification(ys, ys, bads)));
    CHECK(std::isnan(relative_error(bad, bad)));
    CHECK(std::isnan(relative_error(y, bad)));
    CHECK(std::isnan(relative_error(bad, y)));
    CHECK_FALSE(bound_ratio(bad, bad, y, y, 8, 2));
    CHECK_FALSE(bound_ratio(y, bad, y, y, 8, 2));
    CHECK_FALSE(bound_ratio(y, y, bad, y, 8, 2));
    CHECK_FALSE(bound_ratio(y, y, y, bad, 8, 2));
  }
}

TEST_CASE("verdict: a row is as large as its norm, or as most rows are") {
  const Tensor y = rows({3, 2}, {3, 4, 0, 1, kInfinity, 0});
  CHECK(row_scales(y) == std::vector<double>{5, 1, 1});
  CHECK(row_scales(rows({0, 3}, {})).empty());
}

TEST_CASE("verdict: scalars and empty results have errors too") {
  CHECK(structural_error(rows({}, {4}), rows({}, {5})) ==
        doctest::Approx(0.25));
  CHECK(structural_error(rows({0, 3}, {}), rows({0, 3}, {})) == 0);
  const std::vector<Tensor> y = {rows({1}, {1}), rows({1}, {2})};
  const std::vector<Tensor> s = {rows({1}, {1}), rows({1}, {3})};
  CHECK(structural_error(y, s) == doctest::Approx(0.5));
  CHECK(structural_error(y, y) == 0);
}

TEST_CASE("verdict: amplification compares the errors of two runs") {
  const std::vector<Tensor> y = {rows({1, 2}, {0, 0})};
  const std::vector<Tensor> u = {rows({1, 2}, {1, 0})};
  const std::vector<Tensor> s = {rows({1, 2}, {3, 4})};
  CHECK(error_amplification(y, u, s) == doctest::Approx(5));
  CHECK(error_amplification(y, s, u) == doctest::Approx(0.2));
  CHECK(error_amplification(y, y, y) == 1);  // 0/0
  CHECK(error_amplification(y, y, s) == kInfinity);
  CHECK(error_amplification(y, u, y) == 0);
  // Sums go over all results.
  const std::vector<Tensor> y2 = {y[0], y[0]};
  CHECK(error_amplification(y2, std::vector<Tensor>{u[0], u[0]},
                            std::vector<Tensor>{s[0], u[0]}) ==
        doctest::Approx(std::sqrt(13.0)));
}

TEST_CASE("verdict: gamma is n u / (1 - n u), while that means anything") {
  CHECK(gamma(1, 0x1p-24).value() ==
        doctest::Approx(0x1p-24 / (1 - 0x1p-24)).epsilon(1e-15));
  CHECK(gamma(0, 0x1p-24) == 0.0);
  CHECK(gamma(3, 0.25) == doctest::Approx(3));
  CHECK_FALSE(gamma(4, 0.25).has_value());
  CHECK_FALSE(gamma(int64_t{1} << 24, 0x1p-24).has_value());
  CHECK(gamma((int64_t{1} << 24) - 1, 0x1p-24).has_value());
}

TEST_CASE("verdict: a bound ratio is the error over what rounding allows") {
  const Tensor y = rows({1, 2}, {1, 2});
  const Tensor s = rows({1, 2}, {1 + 0x1p-20, 2});
  const Tensor products = rows({1, 2}, {4, 4});
  const Tensor parts = rows({1, 2}, {2, 2});
  const double bound =
      *gamma(8, 0x1p-24) * 4 + *gamma(2, 0x1p-24) * 2 + 0x1p-24;
  CHECK(bound_ratio(y, s, products, parts, 8, 2).value() ==
        doctest::Approx(0x1p-20 / bound));
  CHECK(bound_ratio(y, y, products, parts, 8, 2) == 0.0);
  const Tensor zero = rows({1, 2}, {0, 0});
  CHECK(bound_ratio(zero, zero, zero, zero, 8, 2) == 0.0);
  CHECK(bound_ratio(zero, s, zero, zero, 8, 2) == kInfinity);
  CHECK_FALSE(
      bound_ratio(y, s, products, parts, int64_t{1} << 24, 2).has_value());
  CHECK_FALSE(
      bound_ratio(y, s, products, parts, 8, int64_t{1} << 24).has_value());
}

TEST_CASE("verdict: a bound knows the types of the sum and of the result") {
  const Tensor y = rows({1, 1}, {1});
  const Tensor s = rows({1, 1}, {1 + 0x1p-9});
  const Tensor products = rows({1, 1}, {4});
  const Tensor parts = rows({1, 1}, {2});
  const double product = *gamma(8, 0x1p-24) * 4;
  CHECK(bound_ratio(y, s, products, parts, 8, 2, Storage::F32, Storage::BF16)
            .value() ==
        doctest::Approx(0x1p-9 / (product + *gamma(2, 0x1p-24) * 2 + 0x1p-8)));
  CHECK(bound_ratio(y, s, products, parts, 8, 2, Storage::BF16, Storage::F16)
            .value() ==
        doctest::Approx(0x1p-9 / (product + *gamma(2, 0x1p-8) * 2 + 0x1p-11))
            .epsilon(1e-4));
  CHECK_FALSE(
      bound_ratio(y, s, products, parts, 8, 256, Storage::BF16).has_value());
}

TEST_CASE("verdict: a result below the least number of f16 may become 0") {
  const Tensor y = rows({1, 1}, {0x1p-26});
  const Tensor zero = rows({1, 1}, {0});
  const auto ratio = [&](Storage storage) {
    return bound_ratio(y, zero, y, y, 1, 1, storage, storage).value();
  };
  CHECK(ratio(Storage::F16) <= 1);
  CHECK(ratio(Storage::BF16) > 1);
}

TEST_CASE("verdict: a relative error is over all rows") {
  const Tensor y = rows({2, 2}, {3, 0, 0, 4});
  CHECK(relative_error(y, y) == 0);
  CHECK(relative_error(y, rows({2, 2}, {3, 0, 0, 4.5})) ==
        doctest::Approx(0.1));
  const Tensor zero = rows({2, 2}, {0, 0, 0, 0});
  CHECK(relative_error(zero, zero) == 0);
  CHECK(relative_error(zero, y) == kInfinity);
}

using testing::SmallGraph;

constexpr double kNotANumber = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

TEST_CASE("non-finite: numbers are counted by kind") {
  for (const Element element : {Element::F32, Element::F64}) {
    const double numbers[] = {0, kNotANumber, kInf, -kInf, -kInf, 1};
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
  CHECK_FALSE(non_finite_of(kinds, ValueId(1), -1, true));
  REQUIRE(non_finite_of(kinds, ValueId(1), -1, false));
  CHECK(non_finite_of(kinds, ValueId(1), -1, false)->worst == -kInf);
  kinds.infinite = 2;
  REQUIRE(non_finite_of(kinds, ValueId(1), 4, true));
  CHECK(non_finite_of(kinds, ValueId(1), 4, true)->count == 2);
  CHECK(non_finite_of(kinds, ValueId(1), 4, true)->device == 4);
  CHECK(non_finite_of(kinds, ValueId(1), 4, true)->worst == kInf);
  kinds.nan = 1;
  CHECK(std::isnan(non_finite_of(kinds, ValueId(1), -1, true)->worst));
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
  PerValue<Tensor> values;
  ValueId x, w, y;
};

// All of a result was NaN in both runs, which was "agree to 12 digits".
TEST_CASE("non-finite: a parameter that has NaN is found, and no run is ok") {
  Product p;
  Program program = p.g.plan();
  p.values = p.g.values();
  CHECK(verdict_of(p.run(program)) == Verdict::Ok);
  const auto w = p.w;
  p.values[w] = copy(p.values[w]);
  for (int64_t i = 0; i < 8; ++i) p.values[w].data<float>()[i] = kNotANumber;
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
  const auto x = p.x;
  p.values[x] = copy(p.values[x]);
  p.values[x].data<float>()[0] = kNotANumber;
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
    const ValueId large = p.g.node("scale", {p.y}, {{"by", 1e300}});
    const ValueId infinite = p.g.node("square", {large});
    const ValueId opposite = p.g.node("negate", {infinite});
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
  const ValueId x = g.input({4, 8}, "tp, None");
  const ValueId large = g.node("scale", {x}, {{"by", 1e200}});
  const ValueId small = g.node("scale", {x}, {{"by", 1e-200}});
  const ValueId y = g.node("multiply", {large, small});
  g.node("sigmoid", {y});
  Program program = g.plan();
  CHECK(verdict_of(simulate(program, g.values(), {})) == Verdict::Ok);
  // A fault: the devices take the large one twice.
  for (Instruction& at : program.instructions) {
    const ValueId value = program.registers[at.result].value;
    if (value == y) at.operands[1] = at.operands[0];
  }
  const Simulation s = simulate(program, g.values(), {});
  CHECK_FALSE(s.non_finite);
  REQUIRE(s.mismatch);
  CHECK(s.mismatch->value == y);
  CHECK(std::isinf(s.mismatch->error));
}

TEST_CASE("non-finite: the -inf of a causal mask is not a finding") {
  SmallGraph g("tp=2");
  const ValueId x = g.input({2, 4, 8}, "None, None, tp");
  const ValueId scores = g.node("causal_mask", {x});
  const ValueId scaled = g.node("scale", {scores}, {{"by", 0.5}});
  const ValueId shares = g.composite("softmax", {scaled});
  g.node("einsum", {shares, g.parameter({8, 4}, "tp, None")},
         {{"equation", std::string("bqk,kd->bqd")}});
  const Simulation s = simulate(g.plan(), g.values(), {});
  CHECK_FALSE(s.non_finite);
  CHECK_FALSE(s.overflow);
  CHECK_FALSE(s.sharded_overflow);
  CHECK(verdict_of(s) == Verdict::Ok);
}

TEST_CASE("non-finite: an overflow of working precision is reported") {
  for (const Storage storage : {Storage::F16, Storage::BF16}) {
    SmallGraph g("tp=2");
    const ValueId x = g.input({4, 8}, "None, tp");
    const ValueId large = g.node("scale", {x}, {{"by", 1e5}});
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
  const ValueId x = g.input({4, 8}, "None, tp");
  const ValueId large = g.node("scale", {x}, {{"by", 1e5}});
  const ValueId total =
      g.node("sum", {large}, {{"dims", std::vector<int64_t>{1}}});
  SimulateOptions options;
  options.reduce = Storage::F16;
  const Simulation s = simulate(g.plan(), g.values(), options);
  CHECK(verdict_of(s) == Verdict::Ok);
  CHECK_FALSE(s.overflow);
  REQUIRE(s.sharded_overflow);
  CHECK(s.sharded_overflow->value == total);
  CHECK(s.sharded_overflow->device >= 0);
}

// Values that could not have shown a fault: where they are found, a fault of
// that kind really passes; where they are not, it is caught.

using Kind = Unseen::Kind;

Simulation run(SmallGraph& g, const PerValue<Tensor>& values,
               const std::function<void(Program&)>& fault = {}) {
  Program program = g.plan();
  if (fault) fault(program);
  return simulate(program, values, {});
}

void check_only(const Simulation& s, Kind kind, ValueId value) {
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

void set(PerValue<Tensor>& values, ValueId value, double number) {
  Tensor& tensor = values[value];
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
void swap_loads(Program& program, ValueId value) {
  for (const InstructionId i : program.instructions.ids()) {
    Instruction& at = program.instructions[i];
    if (program.registers[at.result].value != value) {
      continue;
    }
    Instruction swap;
    swap.kind = Instruction::Kind::Collective;
    swap.collective = CollectiveKind::Permute;
    swap.sources = {1, 0};
    swap.result = at.result;
    at.result = RegisterId(program.registers.size());
    swap.operands = {at.result};
    program.registers.push_back(program.registers[swap.result]);
    program.instructions.insert(program.instructions.begin() + i.number + 1,
                                swap);
    return;
  }
}

TEST_CASE("unseen: zeros hide a sum that is dropped") {
  SmallGraph g("tp=2");
  const ValueId x = g.input({4, 8}, "None, tp");
  const ValueId w = g.parameter({8, 8}, "tp, None");
  g.einsum("bd,df->bf", x, w);
  PerValue<Tensor> values = g.values();
  CHECK(verdict_of(run(g, values)) == Verdict::Ok);
  CHECK(verdict_of(run(g, values, drop_sums)) == Verdict::Mismatch);
  for (const ValueId zero : {x, w}) {
    CAPTURE(zero.number);
    PerValue<Tensor> zeros = values;
    set(zeros, zero, 0);
    check_only(run(g, zeros), Kind::ZeroInput, zero);
    check_only(run(g, zeros, drop_sums), Kind::ZeroInput, zero);
  }
}

TEST_CASE("unseen: an operation may make zeros of numbers") {
  SmallGraph g("tp=2");
  const ValueId x = g.input({4, 8}, "tp, None");
  const ValueId y = g.node("relu", {x});
  PerValue<Tensor> values = g.values();
  CHECK(verdict_of(run(g, values)) == Verdict::Ok);
  const Tensor square = copy(values[ValueId(0)]);
  for (int64_t i = 0; i < 32; ++i) {
    square.data<float>()[i] =
        -1 - square.data<float>()[i] * square.data<float>()[i];
  }
  values[ValueId(0)] = square;
  check_only(run(g, values), Kind::ZeroResult, y);
  // What is wrong before is compared by itself.
  const Simulation swapped =
      run(g, values, [&](Program& p) { swap_loads(p, x); });
  REQUIRE(swapped.mismatch);
  CHECK(swapped.mismatch->value == x);
}

TEST_CASE("unseen: zeros that the graph itself asks for are none") {
  SmallGraph g("tp=2");
  const ValueId x = g.input({4, 8}, "tp, None");
  const ValueId nothing = g.node("scale", {x}, {{"by", 0.0}});
  g.node("concatenate", {nothing, x}, {{"dim", 0.0}});
  const ValueId one = g.input({4, 8, 1}, "tp, None, None");
  g.composite("softmax", {one});
  CHECK(run(g, g.values()).unseen.empty());
  // But where it is all that is compared.
  SmallGraph all("tp=2");
  const ValueId y =
      all.node("scale", {all.input({4, 8}, "tp, None")}, {{"by", 0.0}});
  check_only(run(all, all.values()), Kind::ZeroResult, y);
}

TEST_CASE("unseen: what is too small to be added might be added twice") {
  SmallGraph g("tp=2");
  const ValueId x = g.input({4, 8}, "tp, None");
  const ValueId bias = g.parameter({8}, "");
  const ValueId y = g.node("add", {x, bias});
  for (const std::string op : {"add", "subtract"}) {
    g.graph.nodes[NodeId(0)].op = find_op(op);
    PerValue<Tensor> values = g.values();
    CHECK(verdict_of(run(g, values)) == Verdict::Ok);
    const Tensor tiny = copy(values[ValueId(1)]);
    for (int64_t i = 0; i < 8; ++i) tiny.data<float>()[i] *= 1e-12F;
    values[ValueId(1)] = tiny;
    const Simulation small = run(g, values);
    check_only(small, Kind::LostTerm, y);
    CHECK(small.unseen[0].operand == bias);
    const Tensor tiny_x = copy(values[ValueId(0)]);
    for (int64_t i = 0; i < 32; ++i) tiny_x.data<float>()[i] *= 1e-30F;
    values[ValueId(0)] = tiny_x;
    const Simulation large = run(g, values);
    check_only(large, Kind::LostTerm, y);
    CHECK(large.unseen[0].operand == x);
  }
}

TEST_CASE("unseen: a sum of which one device has all") {
  SmallGraph g("tp=4");
  const ValueId x = g.input({4, 8}, "None, tp");
  const ValueId y = g.einsum("bd,df->bf", x, g.parameter({8, 8}, "tp, None"));
  PerValue<Tensor> values = g.values();
  CHECK(verdict_of(run(g, values)) == Verdict::Ok);
  // Only the first two of eight rows of the weight, those of device 0.
  const Tensor w = copy(values[ValueId(1)]);
  for (int64_t i = 16; i < 64; ++i) w.data<float>()[i] = 0;
  values[ValueId(1)] = w;
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
  const ValueId table = g.parameter({16, 8}, "tp, None");
  const ValueId ids = g.input({3}, "", 16);
  g.node("embedding", {table, ids});
  PerValue<Tensor> values = g.values();
  values[ValueId(1)] =
      make_tensor(Element::F32, {3}, std::vector<double>{1, 2, 3});
  CHECK(verdict_of(run(g, values)) == Verdict::Ok);
  CHECK(verdict_of(run(g, values, drop_sums)) == Verdict::Mismatch);
}

TEST_CASE("unseen: shards that are alike could be exchanged") {
  SmallGraph g("tp=2");
  const ValueId x = g.input({4, 8}, "None, tp");
  const ValueId scale = g.parameter({8}, "tp");
  g.node("multiply", {x, scale});
  PerValue<Tensor> values = g.values();
  const auto fault = [&](Program& p) { swap_loads(p, scale); };
  CHECK(verdict_of(run(g, values)) == Verdict::Ok);
  CHECK(verdict_of(run(g, values, fault)) == Verdict::Mismatch);
  set(values, scale, 1);
  check_only(run(g, values), Kind::EqualShards, scale);
  check_only(run(g, values, fault), Kind::EqualShards, scale);
  // Whole on every device, there is nothing to exchange.
  g.want(scale, "None");
  g.want(x, "None, None");
  CHECK(verdict_of(run(g, values)) == Verdict::Ok);
}

TEST_CASE("unseen: shards may be alike along one axis of several") {
  SmallGraph g("a=2,b=2");
  const ValueId w = g.parameter({4, 4}, "a, b");
  g.node("relu", {w});
  PerValue<Tensor> values = g.values();
  // Rows repeat, columns do not.
  for (int64_t i = 8; i < 16; ++i) {
    values[ValueId(0)].data<float>()[i] =
        values[ValueId(0)].data<float>()[i - 8];
  }
  const Simulation s = run(g, values);
  check_only(s, Kind::EqualShards, w);
  CHECK(s.unseen[0].axes == AxisNames{"a"});
}

TEST_CASE("unseen: few integers may be alike by chance, many may not") {
  for (const int64_t rows : {1, 32}) {
    SmallGraph g("tp=2");
    const ValueId ids = g.input({2 * rows}, "tp", 16);
    g.node("embedding", {g.parameter({16, 8}, ""), ids});
    PerValue<Tensor> values = g.values();
    set(values, ids, 3);
    CHECK(run(g, values).unseen.size() == (rows == 1 ? 0 : 1));
  }
}

TEST_CASE("unseen: nothing is compared where there are no numbers") {
  SmallGraph g("tp=2");
  const ValueId x = g.input({0, 8}, "None, tp");
  const ValueId y = g.node("relu", {x});
  check_only(run(g, g.values()), Kind::NoNumbers, y);
}

TEST_CASE("unseen: exact integers are never in doubt") {
  SmallGraph g("tp=2");
  const ValueId x = g.input({4, 8}, "None, tp");
  g.einsum("bd,df->bf", x, g.parameter({8, 8}, "tp, None"));
  SimulateOptions options;
  options.values = ValueSource::Field;
  CHECK(verdict_of(simulate(g.plan(), g.values(ValueSource::Field), options)) ==
        Verdict::Ok);
}

}  // namespace

}  // namespace shardplan
