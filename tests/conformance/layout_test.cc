// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "conformance/vector_case.h"

namespace shardplan::conformance {
namespace {

Answer layout(const char* spec, int64_t size = 6) {
  return shard_layout(
      {{"shape", {size}},
       {"spec", Json::parse(spec)},
       {"mesh", {{"axis_names", {"a", "b"}}, {"shape", {2, 3}}}}});
}

TEST_CASE("the first axis of a dimension is the most significant") {
  const Json ab = layout(R"([["a", "b"]])").value;
  const Json ba = layout(R"([["b", "a"]])").value;
  CHECK(ab.at("shard_shape") == Json({1}));
  CHECK(ab.at("shard_index[device]") == Json({{0}, {1}, {2}, {3}, {4}, {5}}));
  CHECK(ba.at("shard_index[device]") == Json({{0}, {2}, {4}, {1}, {3}, {5}}));
  CHECK(ba.at("slices[device]")[1] == Json::parse("[[2, 3]]"));
}

TEST_CASE("a layout is refused for the reason that jax gives") {
  struct Row {
    const char* spec;
    int64_t size;
    const char* message;
  };
  const Row rows[] = {
      {R"([["a", "b"]])", 8, "should evenly divide the shape"},
      {R"([["a", "c", "a"]])", 8, "has duplicate entries for `a`"},
      {R"(["c"])", 6, "Resource axis: c is not found in mesh"},
      {R"([null, "a"])", 6, "is only valid for values of rank at least 2"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.spec);
    const Answer answer = layout(row.spec, row.size);
    REQUIRE(answer.refused.has_value());
    CHECK(is_same_layout_error(answer, {{"message", row.message}}));
    CHECK_FALSE(is_same_layout_error(answer, {{"message", "another"}}));
  }
}

}  // namespace
}  // namespace shardplan::conformance
