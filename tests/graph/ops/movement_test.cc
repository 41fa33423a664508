// SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>

#include <doctest/doctest.h>

#include "tests/support/op_samples.h"
#include "tests/support/property.h"

namespace shardplan {
namespace {

using testing::fitted;
using testing::inferred;
using testing::kArithmetics;
using testing::run;

using MovedDims = std::vector<int64_t>;

// 0, 1, 2, ... of this shape.
Tensor counted(Arithmetic arithmetic, const Shape& shape) {
  std::vector<double> values(static_cast<size_t>(*element_count(shape)));
  std::iota(values.begin(), values.end(), 0.0);
  return make_tensor(element_of(arithmetic), shape, values);
}

Attributes order(MovedDims dims) { return {{"order", std::move(dims)}}; }

Attributes part(double dim, double begin, double end) {
  return {{"dim", dim}, {"begin", begin}, {"end", end}};
}

TEST_CASE("a transposed tensor has its elements at permuted indices") {
  for (const Arithmetic arithmetic : kArithmetics) {
    const Tensor x = counted(arithmetic, {2, 3, 4});
    const Tensor y = run("transpose", {x}, order({2, 0, -2}), arithmetic);
    REQUIRE(y.shape == Shape{4, 2, 3});
    CHECK(y.storage == x.storage);
    const std::vector<double> values = values_of(y);
    for (size_t i = 0; i < values.size(); ++i) {
      const size_t a = i / 6;
      const size_t b = i / 3 % 2;
      const size_t c = i % 3;
      CHECK(values[i] == static_cast<double>(b * 12 + c * 4 + a));
    }
  }
  CHECK(run("transpose", {counted(Arithmetic::F32, {})}, order({}),
            Arithmetic::F32)
            .shape == Shape{});
}

TEST_CASE("an order names every dimension once") {
  const std::string no_order =
      " is not a permutation of the dimensions of [2, 3]";
  CHECK(inferred("transpose", {{2, 3}}, order({1, 0})) == "[3, 2]");
  CHECK(inferred("transpose", {{2, 3}}, order({0, 0})) ==
        "SP015 `order` [0, 0]" + no_order);
  CHECK(inferred("transpose", {{2, 3}}, order({0, -2})) ==
        "SP015 `order` [0, -2]" + no_order);
  CHECK(inferred("transpose", {{2, 3}}, order({0})) ==
        "SP015 `order` [0]" + no_order);
  CHECK(inferred("transpose", {{2, 3}}, order({0, 1, 1})) ==
        "SP015 `order` [0, 1, 1]" + no_order);
  CHECK(inferred("transpose", {{2, 3}}, order({0, 2})) ==
        "SP015 [2, 3] has no dimension 2");
}

TEST_CASE("slices put together are the whole") {
  for (const Arithmetic arithmetic : kArithmetics) {
    const Tensor x = counted(arithmetic, {2, 5, 2});
    const std::vector<Tensor> parts = {
        run("slice", {x}, {{"dim", 1.0}, {"end", 1.0}}, arithmetic),
        run("slice", {x}, part(-2, 1, 1), arithmetic),
        run("slice", {x}, {{"dim", 1.0}, {"begin", 1.0}}, arithmetic)};
    CHECK(parts[0].shape == Shape{2, 1, 2});
    CHECK(values_of(parts[0]) == std::vector<double>{0, 1, 10, 11});
    CHECK(parts[1].shape == Shape{2, 0, 2});
    CHECK(bitwise_equal(run("concatenate", parts, {{"dim", -2.0}}, arithmetic),
                        x));
  }
}

TEST_CASE("what is sliced or concatenated is whole") {
  const ShardingRule cut = fitted("slice", {{4, 6}}, part(1, 0, 5)).rule;
  CHECK(cut.factors == std::vector<Factor>{{4},
                                           {5, FactorKind::Whole},
                                           {6, FactorKind::Whole}});
  CHECK(cut.operands[0] == std::vector<DimFactors>{{0}, {2}});
  CHECK(cut.result == std::vector<DimFactors>{{0}, {1}});
  const ShardingRule joined =
      fitted("concatenate", {{4, 6}, {4, 1}}, {{"dim", 1.0}}).rule;
  CHECK(joined.result == std::vector<DimFactors>{{0}, {1}});
  CHECK(joined.operands[0] == std::vector<DimFactors>{{0}, {2}});
  CHECK(joined.operands[1] == std::vector<DimFactors>{{0}, {}});
}

TEST_CASE("slices lie within their dimension") {
  CHECK(inferred("slice", {{2, 5}}, part(1, 2, 5)) == "[2, 3]");
  CHECK(inferred("slice", {{2, 5}}, part(1, 2, 6)) ==
        "SP015 [2, 6) is not a range of dimension 1 of [2, 5]");
  CHECK(inferred("slice", {{2, 5}}, part(1, -1, 3)) ==
        "SP015 [-1, 3) is not a range of dimension 1 of [2, 5]");
  CHECK(inferred("slice", {{2, 5}}, part(1, 3, 2)) ==
        "SP015 [3, 2) is not a range of dimension 1 of [2, 5]");
  CHECK(inferred("slice", {{2, 5}}, part(2, 0, 1)) ==
        "SP015 [2, 5] has no dimension 2");
  CHECK(inferred("slice", {{}}, part(0, 0, 1)) ==
        "SP015 [] has no dimension 0");
}

TEST_CASE("what is concatenated is alike in every other dimension") {
  const Attributes along = {{"dim", 1.0}};
  CHECK(inferred("concatenate", {{2, 5}, {2, 0}, {2, 3}}, along) == "[2, 8]");
  CHECK(inferred("concatenate", {{2, 5}, {3, 5}}, along) ==
        "SP015 cannot concatenate [2, 5] and [3, 5] along dimension 1");
  CHECK(inferred("concatenate", {{2, 5}, {2}}, along) ==
        "SP015 cannot concatenate [2, 5] and [2] along dimension 1");
  CHECK(inferred("concatenate", {{5}, {5}}, along) ==
        "SP015 [5] has no dimension 1");
  constexpr int64_t kHalf = int64_t{1} << 62;
  CHECK(inferred("concatenate", {{1, kHalf}, {1, kHalf}}, along) ==
        "SP015 dimension 1 of [1, 4611686018427387904] and [1, "
        "4611686018427387904], concatenated, is too large");
}

TEST_CASE("one layer of stacked kernels is a view of them") {
  const Tensor stacked = counted(Arithmetic::F32, {3, 4, 6});
  const Tensor layer = run("slice", {stacked}, part(0, 1, 2), Arithmetic::F32);
  const Tensor kernel =
      run("reshape", {layer}, {{"shape", MovedDims{4, 6}}}, Arithmetic::F32);
  CHECK(kernel.storage == stacked.storage);
  CHECK(kernel.offset == 24);
  CHECK(is_row_major(kernel));
  // Of a device that has some of its columns, too.
  const Tensor columns = run("reshape", {slice(layer, 2, 3, 6)},
                             {{"shape", MovedDims{4, 3}}}, Arithmetic::F32);
  CHECK(columns.storage == stacked.storage);
  CHECK(bitwise_equal(columns, slice(kernel, 1, 3, 6)));
}

using testing::fitted;
using testing::inferred;
using testing::kArithmetics;
using testing::numbers;
using testing::run;

TEST_CASE("an embedding is the rows that ids name") {
  for (const Arithmetic arithmetic : kArithmetics) {
    const Tensor table = numbers(arithmetic, {5, 3}, 1);
    const double which[] = {4, 0, 0, 2};
    const Tensor ids = make_tensor(element_of(arithmetic), {2, 2}, which);
    const Tensor out = run("embedding", {table, ids}, {}, arithmetic);
    REQUIRE(out.shape == Shape{2, 2, 3});
    const std::vector<double> rows = values_of(table);
    const std::vector<double> got = values_of(out);
    for (size_t i = 0; i < got.size(); ++i) {
      CHECK(got[i] == rows[static_cast<size_t>(which[i / 3]) * 3 + i % 3]);
    }
  }
}

TEST_CASE("ids that are no rows give NaN on every device, 0 in the field") {
  const double inf = std::numeric_limits<double>::infinity();
  const double odd[] = {
      -1, 4, 1e30, 0.5, inf, -inf, std::numeric_limits<double>::quiet_NaN()};
  const auto fit = fitted("embedding", {{4, 2}, {7}}, {});
  for (const Arithmetic arithmetic : kArithmetics) {
    const Tensor table = numbers(arithmetic, {4, 2}, 1);
    const Tensor ids = make_tensor(element_of(arithmetic), {7}, odd);
    for (const int64_t begin : {0, 2}) {
      RunContext context;
      context.arithmetic = arithmetic;
      context.rule = &fit.rule;
      context.range = {{begin, 0, 0}, {2, 7, 2}};
      const Tensor part = slice(table, 0, begin, begin + 2);
      const std::vector<Tensor> operands = {part, ids};
      for (const double value : values_of(fit.op->run(operands, {}, context))) {
        if (arithmetic == Arithmetic::Field) {
          CHECK(value == 0);
        } else {
          CHECK(std::isnan(value));
        }
      }
    }
  }
}

TEST_CASE("a device gives zeros for rows that it lacks") {
  const auto fit = fitted("embedding", {{4, 1}, {3}}, {});
  const double which[] = {1, 2, 3};
  const double rows[] = {10, 11, 12, 13};
  const Tensor table = make_tensor(Element::F32, {4, 1}, rows);
  RunContext context;
  context.rule = &fit.rule;
  context.range = {{2, 0}, {2, 3}};
  const std::vector<Tensor> operands = {slice(table, 0, 2, 4),
                                        make_tensor(Element::F32, {3}, which)};
  CHECK(values_of(fit.op->run(operands, {}, context)) ==
        std::vector<double>{0, 12, 13});
}

TEST_CASE("the rows of the table are partial sums") {
  const ShardingRule rule = fitted("embedding", {{12, 6}, {2, 3}}, {}).rule;
  CHECK(rule.factors ==
        std::vector<Factor>{{12, FactorKind::Sum}, {2}, {3}, {6}});
  CHECK(rule.operands[0] == std::vector<DimFactors>{{0}, {3}});
  CHECK(rule.operands[1] == std::vector<DimFactors>{{1}, {2}});
  CHECK(rule.result == std::vector<DimFactors>{{1}, {2}, {3}});
}

TEST_CASE("one id, no ids and a table without rows have results") {
  CHECK(inferred("embedding", {{4, 2}, {}}, {}) == "[2]");
  const Tensor id = make_tensor(Element::F32, {});
  const Tensor table = numbers(Arithmetic::F32, {4, 2}, 1);
  CHECK(values_of(run("embedding", {table, id}, {}, Arithmetic::F32)) ==
        values_of(slice(table, 0, 0, 1)));
  const Tensor none = make_tensor(Element::F32, {0, 2});
  for (const double value :
       values_of(run("embedding", {none, id}, {}, Arithmetic::F32))) {
    CHECK(std::isnan(value));
  }
}

TEST_CASE("a table that is not a matrix is SP015") {
  CHECK(inferred("embedding", {{4}, {2}}, {}) ==
        "SP015 embedding table [4] is not a matrix");
}

TEST_CASE("take gives the numbers of a row that its indices name") {
  for (const Arithmetic arithmetic : kArithmetics) {
    const Tensor x = numbers(arithmetic, {2, 4}, 1);
    const double which[] = {3, 0, 0, 1, 2, 3};
    const Tensor indices = make_tensor(element_of(arithmetic), {2, 3}, which);
    const std::vector<double> all = values_of(x);
    const std::vector<double> got =
        values_of(run("take", {x, indices}, {}, arithmetic));
    REQUIRE(got.size() == 6);
    for (size_t i = 0; i < got.size(); ++i) {
      CHECK(got[i] == all[i / 3 * 4 + static_cast<size_t>(which[i])]);
    }
  }
}

TEST_CASE("the numbers of top_k are a row's largest") {
  for (const Arithmetic arithmetic : kArithmetics) {
    const Tensor x = numbers(arithmetic, {3, 8}, 2);
    const Tensor indices = run("top_k", {x}, {{"k", 3.0}}, arithmetic);
    const std::vector<double> best =
        values_of(run("take", {x, indices}, {}, arithmetic));
    std::vector<double> all = values_of(x);
    for (size_t row = 0; row < 3; ++row) {
      const auto first = all.begin() + static_cast<ptrdiff_t>(row * 8);
      std::sort(first, first + 8, std::greater<>());
      CHECK(std::equal(first, first + 3,
                       best.begin() + static_cast<ptrdiff_t>(row * 3)));
    }
  }
}

TEST_CASE("a device gives zeros for what it lacks, NaN for what is nowhere") {
  const auto fit = fitted("take", {{4}, {5}}, {});
  CHECK(fit.rule.factors == std::vector<Factor>{{5}, {4, FactorKind::Sum}});
  const double which[] = {1, 3, 4, -1, 0.5};
  const double row[] = {10, 11, 12, 13};
  for (const Arithmetic arithmetic : kArithmetics) {
    const Element element = element_of(arithmetic);
    RunContext context;
    context.arithmetic = arithmetic;
    context.rule = &fit.rule;
    context.range = {{0, 2}, {5, 2}};
    const std::vector<Tensor> operands = {
        slice(make_tensor(element, {4}, row), 0, 2, 4),
        make_tensor(element, {5}, which)};
    const std::vector<double> got =
        values_of(fit.op->run(operands, {}, context));
    CHECK(got[0] == 0);
    CHECK(got[1] == 13);
    for (size_t i = 2; i < 5; ++i) {
      if (arithmetic == Arithmetic::Field) {
        CHECK(got[i] == 0);
      } else {
        CHECK(std::isnan(got[i]));
      }
    }
  }
}

TEST_CASE("rows and indices that are not alike are SP015") {
  CHECK(inferred("take", {{2, 4}, {2, 3}}, {}) == "[2, 3]");
  CHECK(inferred("take", {{2, 0}, {2, 0}}, {}) == "[2, 0]");
  CHECK(inferred("take", {{2, 4}, {3, 4}}, {}) ==
        "SP015 cannot take from [2, 4] by indices [3, 4]");
  CHECK(inferred("take", {{2, 4}, {4}}, {}) ==
        "SP015 cannot take from [2, 4] by indices [4]");
  CHECK(inferred("take", {{}, {}}, {}) ==
        "SP015 cannot take from [] by indices []");
}

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
