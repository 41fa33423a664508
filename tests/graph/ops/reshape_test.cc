// SPDX-License-Identifier: Apache-2.0
#include <limits>

#include <doctest/doctest.h>

#include "tests/support/op_samples.h"
#include "tests/support/property.h"

namespace shardplan {
namespace {

using testing::fitted;
using testing::inferred;
using testing::numbers;
using testing::run;

using ReshapedDims = std::vector<int64_t>;

Attributes to(const Shape& shape) { return {{"shape", ReshapedDims(shape)}}; }

// "4 2 3: (0)(1 2) -> (0)(1)(2)"; `!` where a factor is whole.
std::string factors(const Shape& from, const Shape& shape) {
  const ShardingRule rule = fitted("reshape", {from}, to(shape)).rule;
  std::string text;
  for (const Factor& factor : rule.factors) {
    if (!text.empty()) text += " ";
    text += std::to_string(factor.size);
    if (factor.kind == FactorKind::Whole) text += "!";
  }
  text += ": ";
  const auto add = [&](const std::vector<DimFactors>& dims) {
    for (const DimFactors& dim : dims) {
      text += "(";
      for (size_t i = 0; i < dim.size(); ++i) {
        if (i > 0) text += " ";
        text += std::to_string(dim[i]);
      }
      text += ")";
    }
  };
  add(rule.operands[0]);
  text += " -> ";
  add(rule.result);
  return text;
}

TEST_CASE("both shapes are made of the same factors, major to minor") {
  CHECK(factors({4, 6}, {4, 6}) == "4 6: (0)(1) -> (0)(1)");
  CHECK(factors({4, 6}, {4, 2, 3}) == "4 2 3: (0)(1 2) -> (0)(1)(2)");
  CHECK(factors({4, 2, 3}, {8, 3}) == "4 2 3: (0)(1)(2) -> (0 1)(2)");
  CHECK(factors({2, 4, 32}, {8, 32}) == "2 4 32: (0)(1)(2) -> (0 1)(2)");
  CHECK(factors({8, 3}, {2, 12}) == "2 4 3: (0 1)(2) -> (0)(1 2)");
  CHECK(factors({1, 6, 1}, {6, 1}) == "6: ()(0)() -> (0)()");
  CHECK(factors({1}, {}) == ": () -> ");
  CHECK(factors({}, {1, 1}) == ":  -> ()()");
}

TEST_CASE("sizes that do not nest are whole, up to where the shapes meet") {
  CHECK(factors({6, 4}, {8, 3}) == "2 3! 4! 4! 3!: (0 1)(3) -> (0 2)(4)");
  CHECK(factors({3, 4, 5}, {4, 3, 5}) ==
        "3! 4! 4! 3! 5: (0)(2)(4) -> (1)(3)(4)");
  CHECK(factors({0, 4}, {2, 0}) == "0! 4! 2! 0!: (0)(1) -> (2)(3)");
}

TEST_CASE("one size may be left open") {
  CHECK(inferred("reshape", {{4, 6}}, to({-1, 3})) == "[8, 3]");
  CHECK(inferred("reshape", {{4, 6}}, to({-1})) == "[24]");
  CHECK(inferred("reshape", {{}}, to({-1})) == "[1]");
  CHECK(inferred("reshape", {{0, 6}}, to({-1, 3})) == "[0, 3]");
  CHECK(inferred("reshape", {{0, 6}}, to({3, 0})) == "[3, 0]");
}

TEST_CASE("shapes of other numbers of elements are SP015") {
  CHECK(inferred("reshape", {{4, 6}}, to({5, 5})) ==
        "SP015 cannot reshape [4, 6] to [5, 5]");
  CHECK(inferred("reshape", {{4, 6}}, to({-1, 5})) ==
        "SP015 cannot reshape [4, 6] to [-1, 5]");
  CHECK(inferred("reshape", {{4, 6}}, to({-1, -1})) ==
        "SP015 cannot reshape [4, 6] to [-1, -1]");
  CHECK(inferred("reshape", {{0}}, to({-1, 0})) ==
        "SP015 cannot reshape [0] to [-1, 0]");
  CHECK(inferred("reshape", {{4}}, to({-2, -2})) ==
        "SP015 cannot reshape [4] to [-2, -2]");
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  CHECK(inferred("reshape", {{4}}, to({kMost, kMost})) ==
        "SP015 cannot reshape [4] to [9223372036854775807, "
        "9223372036854775807]");
}

// Factors of 1 to 4, put together to dimensions at random places.
Shape grouped(const std::vector<int64_t>& sizes) {
  Shape shape;
  for (const int64_t size : sizes) {
    if (shape.empty() || draw_bool()) {
      shape.push_back(size);
    } else {
      shape.back() *= size;
    }
  }
  return shape;
}

TEST_CASE("any two shapes of one size are walked to their ends") {
  CHECK(holds([] {
    std::vector<int64_t> sizes(draw_in<size_t>(0, 7));
    for (int64_t& size : sizes) size = draw_in<int64_t>(1, 5);
    const Shape from = grouped(sizes);
    for (size_t i = sizes.size(); i > 1; --i) {
      std::swap(sizes[i - 1], sizes[draw_in<size_t>(0, i)]);
    }
    const Shape shape = grouped(sizes);
    const auto fit = fitted("reshape", {from}, to(shape));
    const auto product = [&](const DimFactors& dim) {
      int64_t size = 1;
      for (const int factor : dim) {
        size *= fit.rule.factors[static_cast<size_t>(factor)].size;
      }
      return size;
    };
    // The factors of every dimension make it up, and those that both sides
    // have come in one order: that is why local row-major order is kept.
    DimFactors left;
    DimFactors right;
    for (size_t i = 0; i < from.size(); ++i) {
      const DimFactors& dim = fit.rule.operands[0][i];
      ENSURE(product(dim) == from[i]);
      left.insert(left.end(), dim.begin(), dim.end());
    }
    for (size_t i = 0; i < shape.size(); ++i) {
      const DimFactors& dim = fit.rule.result[i];
      ENSURE(product(dim) == shape[i]);
      right.insert(right.end(), dim.begin(), dim.end());
    }
    const auto whole = [&](int factor) {
      return fit.rule.factors[static_cast<size_t>(factor)].kind ==
             FactorKind::Whole;
    };
    std::erase_if(left, whole);
    std::erase_if(right, whole);
    ENSURE(left == right);
    const Tensor x = numbers(Arithmetic::F64, from, 1);
    const Tensor y = run("reshape", {x}, to(shape), Arithmetic::F64);
    ENSURE(y.shape == shape);
    ENSURE(values_of(y) == values_of(x));
  }));
}

TEST_CASE("a device reshapes its part to its part") {
  // [6, 4] to [6, 2, 2], rows 2 and 3 of the first dimension.
  const auto fit = fitted("reshape", {{6, 4}}, to({6, 2, 2}));
  RunContext context;
  context.arithmetic = Arithmetic::F64;
  context.rule = &fit.rule;
  context.range = {{2, 0, 0}, {2, 2, 2}};
  const std::vector<Tensor> part = {
      slice(numbers(Arithmetic::F64, {6, 4}, 1), 0, 2, 4)};
  const Tensor result = fit.op->run(part, fit.attributes, context);
  CHECK(result.shape == Shape{2, 2, 2});
  CHECK(values_of(result) == values_of(part[0]));
}

TEST_CASE("a constraint changes no number and copies none") {
  const Tensor x = numbers(Arithmetic::F32, {2, 3}, 1);
  const Tensor y = run("constraint", {x}, {{"spec", PartitionSpec{{{"tp"}}}}},
                       Arithmetic::F32);
  CHECK(y.storage == x.storage);
  CHECK(bitwise_equal(x, y));
  // Partial sums are to be added up before it.
  CHECK(find_op("constraint")->linearity == Linearity::None);
}

TEST_CASE("a constraint has no more entries than dimensions") {
  const auto with = [](size_t rank) {
    PartitionSpec spec;
    spec.dims.resize(rank);
    return inferred("constraint", {{2, 3}}, {{"spec", spec}});
  };
  CHECK(with(0) == "[2, 3]");
  CHECK(with(2) == "[2, 3]");
  CHECK(with(3) ==
        "SP015 P(None, None, None) is longer than the rank of [2, 3]");
}

}  // namespace

}  // namespace shardplan
