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

TEST_CASE("the last token that is not padding, or that is an end") {
  const Tensor x = make_tensor(Element::F64, {3, 3, 1},
                               std::vector<double>{1, 2, 3, 4, 5, 6, 7, 8, 9});
  const Tensor tokens = make_tensor(
      Element::F64, {3, 3}, std::vector<double>{5, 0, 0, 0, 5, 6, 0, 0, 0});
  const auto last = [&](double token, double equal) {
    return values_of(run("last_token", {x, tokens},
                         {{"token", token}, {"equal", equal}},
                         Arithmetic::F64));
  };
  CHECK(last(0, 0) == std::vector<double>{1, 6, 7});
  CHECK(last(5, 1) == std::vector<double>{1, 5, 7});
  CHECK(last(9, 0) == std::vector<double>{3, 6, 9});
  CHECK(inferred("last_token", {{2, 4, 3}, {2, 4}}, {{"token", 1.0}}) ==
        "[2, 3]");
  CHECK(inferred("last_token", {{2, 4, 3}, {4, 2}}, {{"token", 1.0}})
            .starts_with("SP015 cannot take rows of [2, 4, 3] by tokens "));
}

}  // namespace

}  // namespace shardplan
