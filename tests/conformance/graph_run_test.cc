// SPDX-License-Identifier: Apache-2.0
#include "tests/conformance/runner/graph_run.h"

#include <doctest/doctest.h>

namespace shardplan::conformance {
namespace {

TEST_CASE("nested lists are tensors, and back") {
  for (const char* text : {"[[1.0,2.0],[3.0,4.5]]", "[1.0]", "7.0", "[]"}) {
    const Json nested = Json::parse(text);
    CHECK(encode_tensor(decode_tensor(nested)) == nested);
  }
  CHECK(decode_tensor(Json::array(), {0, 4}).shape == Shape{0, 4});
  CHECK_THROWS(decode_tensor(Json::parse("[[1, 2], [3]]")));
}

TEST_CASE("devices have their parts of the output") {
  Diagnostics diags;
  const auto graph = shipped_graph(
      "tp_async_dense_scatter",
      {{"batch", 1}, {"shards", 2}, {"in", 1}, {"features", 2}}, diags);
  REQUIRE(graph);
  const auto parts = run_on_devices(
      *graph,
      {{"x", decode_tensor(Json::parse("[[1, 10]]"))},
       {"kernel", decode_tensor(Json::parse("[[1, 2, 3, 4], [5, 6, 7, 8]]"))},
       {"bias", decode_tensor(Json::parse("[100, 200, 300, 400]"))}},
      2, diags);
  REQUIRE(parts);
  REQUIRE(parts->size() == 2);
  CHECK(encode_tensor((*parts)[0]) == Json::parse("[[151, 262]]"));
  CHECK(encode_tensor((*parts)[1]) == Json::parse("[[373, 484]]"));
}

TEST_CASE("tensors are stacked along a new dimension") {
  const Tensor a = decode_tensor(Json::parse("[1, 2]"));
  const Tensor b = decode_tensor(Json::parse("[3, 4]"));
  CHECK(encode_tensor(stacked({a, b})) == Json::parse("[[1, 2], [3, 4]]"));
}

}  // namespace

}  // namespace shardplan::conformance
