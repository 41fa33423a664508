// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "tests/support/op_samples.h"

namespace shardplan {
namespace {

using testing::inferred;
using testing::run;

TEST_CASE("positions are counted without padding, which stands in front") {
  const std::vector<double> ids{5, 1, 7, 7, 1, 0, 1, 1, 2, 3};
  const Tensor tokens = make_tensor(Element::F32, {2, 5}, ids);
  const auto positions = [&](double padding) {
    return values_of(run("token_positions", {tokens}, {{"padding", padding}},
                         Arithmetic::F32));
  };
  CHECK(positions(1) == std::vector<double>{2, 1, 3, 4, 1, 2, 1, 1, 3, 4});
  CHECK(positions(9) ==
        std::vector<double>{10, 11, 12, 13, 14, 10, 11, 12, 13, 14});
}

TEST_CASE("what are no tokens of sequences is SP015") {
  CHECK(inferred("token_positions", {{4}}, {{"padding", 1.0}})
            .starts_with("SP015"));
  CHECK(inferred("token_positions", {{2, 4}}, {{"padding", -1.0}})
            .starts_with("SP015"));
  CHECK(inferred("token_positions", {{2, 4}}, {{"padding", 1.0}}) == "[2, 4]");
}

}  // namespace

}  // namespace shardplan
