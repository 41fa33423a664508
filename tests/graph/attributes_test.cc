// SPDX-License-Identifier: Apache-2.0
#include "graph/attributes.h"

#include <doctest/doctest.h>

#include "base/check.h"

namespace shardplan {
namespace {

TEST_CASE("attributes: given ones are found, others take the default") {
  const Attributes attributes = {{"axis", -1.0},
                                 {"equation", std::string("ij,jk->ik")},
                                 {"shape", std::vector<int64_t>{2, 3}}};
  CHECK(number_of(attributes, "axis", 7) == -1);
  CHECK(number_of(attributes, "scale", 7) == 7);
  CHECK(text_of(attributes, "equation", "") == "ij,jk->ik");
  CHECK(text_of(attributes, "kind", "silu") == "silu");
  const std::span<const int64_t> shape = integers_of(attributes, "shape");
  CHECK(std::vector<int64_t>(shape.begin(), shape.end()) ==
        std::vector<int64_t>{2, 3});
  CHECK(integers_of(attributes, "order").empty());
}

TEST_CASE("attributes: one of another kind is a bug of ours") {
  const Attributes attributes = {{"axis", -1.0}};
  CHECK_THROWS_AS(text_of(attributes, "axis", ""), InternalError);
}

}  // namespace
}  // namespace shardplan
