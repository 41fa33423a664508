// SPDX-License-Identifier: Apache-2.0
#include "io/mesh_node.h"

#include <memory>
#include <string>

#include <doctest/doctest.h>

namespace shardplan {
namespace {

std::string read(const std::string& text) {
  Diagnostics diags;
  const auto document =
      parse_document(std::make_shared<SourceFile>("m.yaml", text), diags);
  REQUIRE(document.has_value());
  const auto axes = read_mesh_node(document->root(), diags);
  CHECK(axes.has_value() != diags.has_errors());
  if (!axes) return diags.all().front().message;
  std::string all;
  for (const AxisRequest& axis : *axes) {
    all += axis.name + "=" + std::to_string(axis.size) + "@" +
           std::string(axis.size_where.text()) + " ";
  }
  return all;
}

TEST_CASE("a mesh is a map of sizes, or text as the flag takes it") {
  CHECK(read("{fsdp: 8, tp: -1}") == "fsdp=8@8 tp=-1@-1 ");
  CHECK(read("fsdp=8,tp=4") == "fsdp=8@8 tp=4@4 ");
}

TEST_CASE("what is no mesh says so at its place") {
  CHECK(read("[8, 4]") == "`mesh` must be a map, not a list");
  CHECK(read("{fsdp: eight}") == "`fsdp` must be an integer, not text");
  CHECK(read("{fsdp: 99999999999999999999}") ==
        "the size of axis `fsdp` does not fit 63 bits");
}

}  // namespace
}  // namespace shardplan
