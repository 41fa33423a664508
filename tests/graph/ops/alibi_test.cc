// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include <doctest/doctest.h>

#include "tests/support/op_samples.h"

namespace shardplan {
namespace {

using testing::inferred;
using testing::numbers;
using testing::run;

// Of the first sequence and the first query, what is added to key 1.
std::vector<double> slopes(int64_t heads, const Attributes& attributes = {}) {
  const Tensor scores = make_tensor(Element::F64, {2, heads, 3, 4});
  const auto sloped =
      values_of(run("alibi", {scores}, attributes, Arithmetic::F64));
  std::vector<double> found;
  for (int64_t head = 0; head < heads; ++head) {
    const auto row = static_cast<size_t>(head * 12);
    CHECK(sloped[row] == 0);
    CHECK(sloped[row + 3] ==
          doctest::Approx(3 * sloped[row + 1]).epsilon(0.01));
    found.push_back(sloped[row + 1]);
  }
  return found;
}

TEST_CASE("slopes of heads are those of the paper's code") {
  CHECK(slopes(4) == std::vector<double>{0.25, 0.0625, 1.0 / 64, 1.0 / 256});
  CHECK(slopes(1) == std::vector<double>{1.0 / 256});
  // Those of 4, then every other one of 8.
  CHECK(slopes(6) ==
        std::vector<double>{0.25, 0.0625, 1.0 / 64, 1.0 / 256, 0.5, 0.125});
  CHECK(slopes(2, {{"steepest", 4.0}, {"by", 0.5}}) ==
        std::vector<double>{0.125, 1.0 / 32});
}

TEST_CASE("heads may be KV heads and groups") {
  const Tensor flat = numbers(Arithmetic::F64, {2, 6, 3, 4}, 1);
  const Tensor grouped = reshaped(flat, {2, 2, 3, 3, 4});
  CHECK(values_of(run("alibi", {flat}, {}, Arithmetic::F64)) ==
        values_of(run("alibi", {grouped}, {}, Arithmetic::F64)));
}

TEST_CASE("slopes and products in bf16 have 8 bits") {
  // 2^(-8/3 ..) has none that fit.
  const double slope = slopes(16, {{"bf16", 1.0}})[0];
  CHECK(slope == 0.70703125);
  CHECK(slopes(16)[0] == doctest::Approx(std::sqrt(0.5)));
}

TEST_CASE("scores without heads, and slopes that are none, are SP015") {
  CHECK(inferred("alibi", {{3, 4}}, {}).starts_with("SP015"));
  CHECK(inferred("alibi", {{2, 3, 4, 4}}, {{"steepest", 0.0}})
            .starts_with("SP015"));
  CHECK(inferred("alibi", {{2, 3, 4, 4}}, {}) == "[2, 3, 4, 4]");
}

}  // namespace

}  // namespace shardplan
