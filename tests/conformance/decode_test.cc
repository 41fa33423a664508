// SPDX-License-Identifier: Apache-2.0
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
