// SPDX-License-Identifier: Apache-2.0
#include <limits>

#include <doctest/doctest.h>

#include "tests/support/op_samples.h"

namespace shardplan {
namespace {

using testing::inferred;
using testing::kArithmetics;
using testing::numbers;
using testing::run;

TEST_CASE("a query sees keys up to its own position") {
  for (const Arithmetic arithmetic : kArithmetics) {
    const double masked = arithmetic == Arithmetic::Field
                              ? 0
                              : -std::numeric_limits<double>::infinity();
    for (const Shape& shape :
         {Shape{2, 4, 4}, Shape{3, 7}, Shape{5, 2}, Shape{1, 1, 6},
          Shape{2, 0, 3}, Shape{2, 3, 0}}) {
      for (const int64_t window : {0, 1, 2, 100}) {
        const Tensor scores = numbers(arithmetic, shape, 1);
        Attributes attributes;
        attributes["window"] = static_cast<double>(window);
        const std::vector<double> before = values_of(scores);
        const std::vector<double> after =
            values_of(run("causal_mask", {scores}, attributes, arithmetic));
        const int64_t queries = shape[shape.size() - 2];
        const int64_t keys = shape.back();
        for (size_t i = 0; i < before.size(); ++i) {
          const auto at = static_cast<int64_t>(i);
          const int64_t key = at % keys;
          const int64_t position = at / keys % queries + keys - queries;
          const bool seen =
              key <= position && (window == 0 || key > position - window);
          CHECK(after[i] == (seen ? before[i] : masked));
        }
        CHECK(values_of(scores) == before);
      }
    }
  }
}

TEST_CASE("without a window a query sees all earlier keys") {
  const Tensor scores = numbers(Arithmetic::F64, {2, 4, 6}, 1);
  CHECK(bitwise_equal(
      run("causal_mask", {scores}, {}, Arithmetic::F64),
      run("causal_mask", {scores}, {{"window", 0.0}}, Arithmetic::F64)));
}

TEST_CASE("what is no matrix of scores is SP015") {
  CHECK(inferred("causal_mask", {{4}}, {}) ==
        "SP015 scores [4] have no queries and keys");
  CHECK(inferred("causal_mask", {{4, 4}}, {{"window", -1.0}}) ==
        "SP015 a window of -1 keys over scores [4, 4] hides every key");
  CHECK(inferred("causal_mask", {{4, 4}}, {{"window", 1.5}}) ==
        "SP015 `window` is not an integer");
}

}  // namespace
}  // namespace shardplan
