// SPDX-License-Identifier: Apache-2.0
#include <vector>

#include <doctest/doctest.h>

#include "tests/support/op_samples.h"

namespace shardplan {
namespace {

using testing::inferred;
using testing::run;

// The bucket of every key, for the query at `query` of as many as keys.
std::vector<double> buckets(int64_t count, int64_t keys, int64_t query,
                            const Attributes& attributes) {
  std::vector<double> numbers;
  for (int64_t i = 0; i < count; ++i) {
    numbers.push_back(static_cast<double>(i));
  }
  const Tensor scores = make_tensor(Element::F64, {1, 1, keys, keys});
  const Tensor result = run(
      "relative_bias", {scores, make_tensor(Element::F64, {count, 1}, numbers)},
      attributes, Arithmetic::F64);
  return values_of(slice(result, 2, query, query + 1));
}

// What transformers 5.23 gives for these (T5Attention).
TEST_CASE("near distances have buckets of their own, far ones share") {
  CHECK(buckets(8, 12, 11, {{"max_distance", 10.0}}) ==
        std::vector<double>{7, 7, 7, 7, 6, 5, 4, 4, 3, 2, 1, 0});
  CHECK(buckets(8, 6, 2, {{"max_distance", 10.0}}) ==
        std::vector<double>{2, 1, 0, 0, 0, 0});
  CHECK(buckets(8, 10, 4, {{"both_sides", 1.0}, {"max_distance", 6.0}}) ==
        std::vector<double>{3, 2, 2, 1, 0, 5, 6, 6, 7, 7});
}

TEST_CASE("buckets that cannot be are SP015") {
  const auto refused = [](const Shape& table, double farthest, double both) {
    return inferred("relative_bias", {{2, 3, 4, 4}, table},
                    {{"max_distance", farthest}, {"both_sides", both}})
        .starts_with("SP015");
  };
  CHECK_FALSE(refused({4, 3}, 3, 0));
  CHECK(refused({4, 2}, 8, 0));
  CHECK(refused({1, 3}, 8, 0));
  CHECK(refused({3, 3}, 8, 1));
  CHECK(refused({4, 3}, 2, 0));
  CHECK(refused({4, 3}, 2.5, 0));
  CHECK(inferred("relative_bias", {{4, 4}, {4, 3}}, {}).starts_with("SP015"));
}

}  // namespace
}  // namespace shardplan
