// SPDX-License-Identifier: Apache-2.0
#include <numeric>

#include <doctest/doctest.h>

#include "tests/support/op_samples.h"

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
  const std::string no_order = " is no order of the dimensions of [2, 3]";
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
        "SP015 [2, 6) is no part of dimension 1 of [2, 5]");
  CHECK(inferred("slice", {{2, 5}}, part(1, -1, 3)) ==
        "SP015 [-1, 3) is no part of dimension 1 of [2, 5]");
  CHECK(inferred("slice", {{2, 5}}, part(1, 3, 2)) ==
        "SP015 [3, 2) is no part of dimension 1 of [2, 5]");
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

}  // namespace
}  // namespace shardplan
