// SPDX-License-Identifier: Apache-2.0
#include <limits>

#include <doctest/doctest.h>

#include "conformance/vector_case.h"

namespace shardplan::conformance {
namespace {

TEST_CASE("specs are canonicalised as jax does") {
  struct Row {
    const char* spec;
    const char* canonical;
  };
  const Row rows[] = {
      {R"([])", R"([])"},
      {R"([null, "tp"])", R"([null, "tp"])"},
      {R"([["tp"], ["a", "b"]])", R"(["tp", ["a", "b"]])"},
      {R"(["", [], [null]])", R"([null, null, null])"},
      {R"([["dp", null]])", R"([["dp", ""]])"},
      {R"([[""]])", R"([""])"},
      {R"([{"$unconstrained": true}])", R"([{"$unconstrained": true}])"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.spec);
    CHECK(encode_spec(decode_spec(Json::parse(row.spec))) ==
          Json::parse(row.canonical));
  }
}

// A unit of the largest float was infinite, so that it agreed with any number.
TEST_CASE("numbers agree within four units in the last place of a float") {
  constexpr double kLargest = std::numeric_limits<float>::max();
  CHECK(agree_within_4_ulps(0.5, 0.5));
  CHECK(agree_within_4_ulps(0.5 + 0x1p-22, 0.5));
  CHECK_FALSE(agree_within_4_ulps(0.5 + 0x1p-21, 0.5));
  CHECK_FALSE(agree_within_4_ulps(3, 4));
  CHECK(agree_within_4_ulps(kLargest, kLargest));
  CHECK_FALSE(agree_within_4_ulps(1, kLargest));
  CHECK_FALSE(agree_within_4_ulps(1, 1e39));
  CHECK_FALSE(agree_within_4_ulps(nullptr, 0.5));
}

TEST_CASE("a mesh is names with sizes in a list or an object, or text") {
  Diagnostics diags;
  for (const char* text :
       {R"({"axis_names": ["dp", "tp"], "shape": [2, 4]})",
        R"({"axis_names": ["dp", "tp"], "shape": {"dp": 2, "tp": 4}})",
        R"("dp=2,tp=4")"}) {
    CAPTURE(text);
    const auto mesh = decode_mesh(Json::parse(text), diags);
    REQUIRE(mesh.has_value());
    CHECK(mesh_text(*mesh) == "dp=2,tp=4");
  }
  CHECK_FALSE(decode_mesh(nullptr, diags).has_value());
  CHECK(refusal(diags).refused == Code::InvalidMesh);
}

}  // namespace
}  // namespace shardplan::conformance
