// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include <doctest/doctest.h>

#include "tests/support/op_samples.h"

namespace shardplan {
namespace {

using testing::inferred;
using testing::numbers;
using testing::run;

TEST_CASE("queries are scaled in steps of their positions") {
  const Tensor x = numbers(Arithmetic::F64, {2, 7, 3, 2}, 1);
  const std::vector<double> before = values_of(x);
  const std::vector<double> after = values_of(
      run("position_scale", {x}, {{"every", 3.0}, {"by", 0.1}, {"offset", 1.0}},
          Arithmetic::F64));
  for (size_t i = 0; i < before.size(); ++i) {
    const size_t position = i / 6 % 7;
    const double steps = position < 2 ? 0 : (position < 5 ? 1 : 2);
    CHECK(after[i] ==
          doctest::Approx(before[i] * (1 + 0.1 * std::log(1 + steps))));
  }
  CHECK(values_of(x) == before);
}

TEST_CASE("steps of positions that are none are SP015") {
  CHECK(inferred("position_scale", {{2, 4}}, {{"every", 0.0}, {"by", 1.0}}) ==
        "SP015 cannot scale by positions in steps of 0.000000 from 0.000000");
  CHECK(inferred("position_scale", {{2, 4}}, {{"every", 2.0}, {"by", 1.0}}) ==
        "[2, 4]");
}

}  // namespace

}  // namespace shardplan
