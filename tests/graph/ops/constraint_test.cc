// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "tests/support/op_samples.h"

namespace shardplan {
namespace {

using testing::inferred;
using testing::numbers;
using testing::run;

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
