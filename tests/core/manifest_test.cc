// SPDX-License-Identifier: Apache-2.0
#include "core/manifest.h"

#include <cstdint>
#include <string>

#include <doctest/doctest.h>

#include "tests/support/builders.h"

namespace shardplan {
namespace {

using testing::type;

TEST_CASE("a manifest gives back what was added, in order") {
  const SourceFile first("a.json", "wq wk");
  const SourceFile second("b.json", "wv");
  Manifest manifest;
  REQUIRE(manifest.add("wq", type("bf16[2, 3]"), {&first, 0, 2}));
  REQUIRE(manifest.add("wk", type("i4[3]"), {&first, 3, 5}));
  REQUIRE(manifest.add("", type("bf16[2, 3]"), {&second, 0, 2}));
  REQUIRE(manifest.add("mask", type("bool[7]"), {&second, 0, 2}, true));
  REQUIRE(manifest.size() == 3);
  CHECK(manifest.name(0) == "wq");
  CHECK(manifest.name(1) == "wk");
  CHECK(manifest.name(2).empty());
  CHECK(manifest.type(1) == type("i4[3]"));
  CHECK(manifest.type_number(0) == manifest.type_number(2));
  CHECK(manifest.types().size() == 2);
  CHECK(manifest.where(1).text() == "wk");
  CHECK(manifest.where(2).text() == "wv");
  CHECK(manifest.total_elements() == 15);
  CHECK(manifest.total_bytes() == 26);
  CHECK(manifest.buffer_elements() == 7);
  CHECK(manifest.buffer_bytes() == 7);
  CHECK(manifest.any_name(3) == "mask");
}

TEST_CASE("types that differ in anything get numbers of their own") {
  const Manifest manifest = testing::manifest({{"a", "f32[2, 3]"},
                                               {"b", "f32[3, 2]"},
                                               {"c", "f32[2, 3, 1]"},
                                               {"d", "bf16[2, 3]"},
                                               {"e", "f32[]"},
                                               {"f", "f32[1]"}});
  CHECK(manifest.types().size() == 6);
}

TEST_CASE("nothing is added when a type or a total exceeds 63 bits") {
  Manifest manifest;
  CHECK_FALSE(manifest.add("a", {DType::U8, {INT64_MAX, 2}}, {}));
  CHECK_FALSE(manifest.add("a", {DType::BF16, {INT64_MAX}}, {}));
  CHECK(manifest.add("a", {DType::U8, {INT64_MAX}}, {}));
  CHECK_FALSE(manifest.add("b", {DType::U8, {1}}, {}));
  CHECK(manifest.add("c", {DType::U8, {0}}, {}));
  CHECK(manifest.size() == 2);
  CHECK(manifest.total_bytes() == INT64_MAX);
  // Buffers have totals of their own.
  CHECK(manifest.add("d", {DType::U8, {INT64_MAX}}, {}, true));
}

TEST_CASE("names are plain as long as all are printable ASCII") {
  CHECK(testing::manifest({{"a b~", "f32[]"}}).names_are_plain());
  CHECK_FALSE(testing::manifest({{"a\n", "f32[]"}}).names_are_plain());
  CHECK_FALSE(
      testing::manifest({{"a", "f32[]"}, {"é", "f32[]"}}).names_are_plain());
}

TEST_CASE("a duplicate is found among parameters and buffers") {
  Manifest manifest = testing::manifest({{"a", "f32[]"}, {"b", "f32[]"}});
  CHECK_FALSE(manifest.find_duplicate().has_value());
  REQUIRE(manifest.add("b", type("f32[]"), {}, true));
  const auto duplicate = manifest.find_duplicate();
  REQUIRE(duplicate.has_value());
  CHECK(duplicate->first == 1);
  CHECK(duplicate->second == 2);
}

TEST_CASE("axes are kept for the parameters that have them") {
  Manifest manifest = testing::manifest({{"a", "f32[2, 2]"}, {"b", "f32[]"}});
  manifest.set_axes(0, {"embed", std::nullopt});
  REQUIRE(manifest.axes(0) != nullptr);
  CHECK(manifest.axes(0)->at(0) == "embed");
  CHECK_FALSE(manifest.axes(0)->at(1).has_value());
  CHECK(manifest.axes(1) == nullptr);
}

}  // namespace
}  // namespace shardplan
