// SPDX-License-Identifier: Apache-2.0
#include "conformance/tree.h"

#include <doctest/doctest.h>

namespace shardplan::conformance {
namespace {

std::string names(const char* tree) {
  Diagnostics diags;
  const auto manifest = decode_tree(Json::parse(tree), diags);
  if (!manifest) return "refused " + code_id(diags.all().front().code);
  std::string text;
  for (size_t i = 0; i < manifest->size(); ++i) {
    text += std::string(manifest->name(i)) +
            shape_text(manifest->type(i).shape) + " ";
  }
  return text;
}

TEST_CASE("a tree is walked with sorted keys, lists by position") {
  CHECK(names(R"({"b": {"$shape": [1]}, "a-b": {"$shape": [2]},
                  "a": {"z": {"$shape": [3]}, "n": null}})") ==
        "a/z[3] a-b[2] b[1] ");
  CHECK(names(R"({"l": {"$tuple": [[{"$shape": [1]}], {"$shape": [2]}]}})") ==
        "l/0/0[1] l/1[2] ");
}

TEST_CASE("what has no shape is a scalar, and a bare array has no name") {
  CHECK(names(R"({"step": 3, "name": {"$shape": [4]}})") == "name[4] step[] ");
  CHECK(names(R"({"$shape": [5]})") == "[5] ");
  CHECK(names("{}").empty());
}

}  // namespace
}  // namespace shardplan::conformance
