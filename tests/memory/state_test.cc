// SPDX-License-Identifier: Apache-2.0
#include "memory/state.h"

#include <doctest/doctest.h>

namespace shardplan {
namespace {

TEST_CASE("names of optimizers and ZeRO styles are found again") {
  for (const std::string_view name : optimizer_names()) {
    CAPTURE(name);
    const auto optimizer = find_optimizer(name);
    REQUIRE(optimizer);
    CHECK(optimizer_name(*optimizer) == name);
  }
  for (const std::string_view name : zero_style_names()) {
    CAPTURE(name);
    const auto style = find_zero_style(name);
    REQUIRE(style);
    CHECK(zero_style_name(*style) == name);
  }
  CHECK_FALSE(find_optimizer("adam"));
  CHECK_FALSE(find_zero_style("torch"));
}

}  // namespace
}  // namespace shardplan
