// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <vector>

#include <doctest/doctest.h>

#include "tests/support/op_samples.h"

namespace shardplan {
namespace {

using testing::inferred;
using testing::run;

Attributes expanded_to(std::vector<int64_t> shape) {
  return {{"shape", std::move(shape)}};
}

TEST_CASE("expand repeats along sizes of 1 and new dimensions") {
  const double numbers[] = {1, 2};
  const Tensor x = make_tensor(Element::F64, {1, 2}, numbers);
  const Tensor result =
      run("expand", {x}, expanded_to({2, 3, 2}), Arithmetic::F64);
  CHECK(result.shape == Shape{2, 3, 2});
  CHECK(is_row_major(result));
  CHECK(values_of(result) ==
        std::vector<double>{1, 2, 1, 2, 1, 2, 1, 2, 1, 2, 1, 2});
}

TEST_CASE("what cannot be expanded is SP015") {
  CHECK(inferred("expand", {{2, 1}}, expanded_to({2, 0})) == "[2, 0]");
  CHECK(inferred("expand", {{2, 1}}, expanded_to({3, 4})) ==
        "SP015 cannot expand [2, 1] to [3, 4]");
  CHECK(inferred("expand", {{2, 1}}, expanded_to({4})).starts_with("SP015"));
  CHECK(inferred("expand", {{2, 1}}, expanded_to({-1, 2, 4}))
            .starts_with("SP015"));
  CHECK(inferred("expand", {{1, 1}},
                 expanded_to({int64_t{1} << 40, int64_t{1} << 40}))
            .starts_with("SP015"));
}

}  // namespace
}  // namespace shardplan
