// SPDX-License-Identifier: Apache-2.0
#include "graph/op_shapes.h"

#include <limits>

#include <doctest/doctest.h>

#include "tests/support/messages.h"

namespace shardplan {
namespace {

using testing::messages;

std::string broadcast(const std::vector<Shape>& shapes) {
  Diagnostics diags;
  const auto shape = infer_broadcast(shapes, {}, {}, diags);
  return shape ? shape_text(*shape) : messages(diags);
}

TEST_CASE("shapes broadcast as NumPy's do") {
  CHECK(broadcast({{2, 3}, {3}}) == "[2, 3]");
  CHECK(broadcast({{4, 1}, {2, 1, 6}}) == "[2, 4, 6]");
  CHECK(broadcast({{}, {2}}) == "[2]");
  CHECK(broadcast({{}, {}}) == "[]");
  CHECK(broadcast({{0}, {1}}) == "[0]");
  CHECK(broadcast({{2, 3}, {2}}) ==
        "SP015 shapes [2, 3] and [2] do not broadcast: 3 against 2");
  CHECK(broadcast({{0}, {2}}) ==
        "SP015 shapes [0] and [2] do not broadcast: 0 against 2");
  CHECK(broadcast({{int64_t{1} << 40, 1}, {int64_t{1} << 40}}) ==
        "SP015 the result [1099511627776, 1099511627776] has too many "
        "elements");
}

TEST_CASE("dimensions that are broadcast have no factor") {
  const std::vector<Shape> shapes = {{4, 1}, {2, 1, 6}};
  const ShardingRule rule = elementwise_rule(shapes, {});
  CHECK(rule.factors == std::vector<Factor>{{2}, {4}, {6}});
  CHECK(rule.result == std::vector<DimFactors>{{0}, {1}, {2}});
  CHECK(rule.operands[0] == std::vector<DimFactors>{{1}, {}});
  CHECK(rule.operands[1] == std::vector<DimFactors>{{0}, {}, {2}});
}

TEST_CASE("dimensions count from either end") {
  const auto find = [](int64_t dim, const Shape& shape) {
    Diagnostics diags;
    const auto found = find_dim(dim, shape, {}, diags);
    return found ? std::to_string(*found) : messages(diags);
  };
  CHECK(find(1, {2, 3}) == "1");
  CHECK(find(-2, {2, 3}) == "0");
  CHECK(find(2, {2, 3}) == "SP015 [2, 3] has no dimension 2");
  CHECK(find(-3, {2, 3}) == "SP015 [2, 3] has no dimension -3");
  CHECK(find(0, {}) == "SP015 [] has no dimension 0");
  CHECK(find(std::numeric_limits<int64_t>::min(), {1}) ==
        "SP015 [1] has no dimension -9223372036854775808");
}

TEST_CASE("integers among the attributes are exact") {
  const auto find = [](double number) {
    Diagnostics diags;
    const auto found = find_integer({{"n", number}}, "n", 7, {}, diags);
    return found ? std::to_string(*found) : messages(diags);
  };
  CHECK(find(-3) == "-3");
  CHECK(find(1.5) == "SP015 `n` is not an integer");
  CHECK(find(1e300) == "SP015 `n` is not an integer");
  CHECK(find(std::numeric_limits<double>::quiet_NaN()) ==
        "SP015 `n` is not an integer");
  Diagnostics diags;
  CHECK(find_integer({}, "n", 7, {}, diags) == 7);
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  CHECK(integer_of({}, "n", kMost) == kMost);
  CHECK(integer_of({{"n", 5.0}}, "n", kMost) == 5);
}

TEST_CASE("a part of a dimension lies where its factors say") {
  const ShardingRule rule{{{4}, {3}, {5}}, {}, {}};
  RunContext context;
  context.rule = &rule;
  const DimRange whole = range_of({0, 1}, context);
  CHECK(whole.whole == 12);
  CHECK(whole.begin == 0);
  CHECK(whole.size == 12);
  // The last of three thirds of the second of four quarters.
  context.range = {{1, 2, 0}, {1, 1, 5}};
  const DimRange part = range_of({0, 1}, context);
  CHECK(part.whole == 12);
  CHECK(part.begin == 5);
  CHECK(part.size == 1);
  CHECK(range_of({}, context).whole == 1);
  CHECK(range_of({}, context).size == 1);
}

TEST_CASE("counts stop at the largest integer") {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  CHECK(saturating_product(6, 7) == 42);
  CHECK(saturating_product(kMost, 2) == kMost);
  CHECK(saturating_product(kMost, 0) == 0);
  CHECK(flops_per_element<5>({}, {2, 3}, {}) == 30);
}

TEST_CASE("shapes are listed as a sentence lists them") {
  const std::vector<Shape> shapes = {{2}, {3, 4}, {}};
  CHECK(shapes_text(shapes) == "[2], [3, 4] and []");
}

}  // namespace
}  // namespace shardplan
