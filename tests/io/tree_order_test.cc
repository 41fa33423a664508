// SPDX-License-Identifier: Apache-2.0
#include "io/tree_order.h"

#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <rapidcheck.h>

namespace shardplan {
namespace {

std::string path_of(const std::vector<std::string>& keys) {
  std::string path;
  for (const std::string& key : keys) append_key(path, key);
  return path;
}

TEST_CASE("paths sort level by level") {
  CHECK(path_of({"a", "z"}) < path_of({"a-b"}));
  CHECK(path_of({"a"}) < path_of({"a", ""}));
  CHECK(path_of({"10"}) < path_of({"2"}));
  std::string two;
  std::string ten;
  append_index(two, 2);
  append_index(ten, 10);
  CHECK(two < ten);
  CHECK(path_name(two + ten) == "2/10");
  std::string zero;
  append_index(zero, 0);
  CHECK(path_name(zero) == "0");
}

TEST_CASE("paths sort as the lists of their keys do") {
  CHECK(rc::check("same order", [] {
    const auto key = rc::gen::container<std::string>(
        rc::gen::element('\0', '\1', '\2', '-', '/', 'a', '\xFF'));
    const auto keys = rc::gen::container<std::vector<std::string>>(key);
    const auto a = *keys;
    const auto b = *keys;
    RC_ASSERT((path_of(a) < path_of(b)) == (a < b));
    RC_ASSERT((path_of(a) == path_of(b)) == (a == b));
    std::string joined;
    for (size_t i = 0; i < a.size(); ++i) joined += (i == 0 ? "" : "/") + a[i];
    RC_ASSERT(path_name(path_of(a)) == joined);
  }));
}

TEST_CASE("entries are sorted, and equal paths reported in the file's order") {
  const SourceFile source("t", "abc");
  std::vector<TreeEntry> entries = {
      {path_of({"b"}), TreeEntry::Kind::Group, 0, {&source, 2, 3}},
      {path_of({"a"}), TreeEntry::Kind::Group, 0, {&source, 1, 2}},
      {path_of({"b"}), TreeEntry::Kind::Parameter, 0, {&source, 0, 1}},
  };
  Diagnostics diags;
  CHECK_FALSE(sort_entries(entries, diags));
  REQUIRE(diags.all().size() == 1);
  CHECK(diags.all()[0].code == Code::DuplicateKey);
  CHECK(diags.all()[0].labels[0].where.begin == 2);
  CHECK(diags.all()[0].labels[1].where.begin == 0);
  CHECK(path_name(entries[0].path) == "a");
}

TEST_CASE("a manifest takes the order of its entries") {
  Manifest manifest;
  const TensorType type{DType::U8, {1}};
  CHECK(manifest.add("x", type, {}));
  CHECK(manifest.add("y", type, {}));
  CHECK(manifest.add("m", type, {}, /*buffer=*/true));
  manifest.set_axes(0, {"a"});
  const std::vector<TreeEntry> entries = {
      {"", TreeEntry::Kind::Parameter, 1, {}},
      {"", TreeEntry::Kind::Group, 0, {}},
      {"", TreeEntry::Kind::Buffer, 0, {}},
      {"", TreeEntry::Kind::Parameter, 0, {}},
  };
  const Manifest sorted = reordered(manifest, entries);
  CHECK(sorted.size() == 2);
  CHECK(sorted.name(0) == "y");
  CHECK(sorted.axes(0) == nullptr);
  REQUIRE(sorted.axes(1) != nullptr);
  CHECK(sorted.axes(1)->at(0) == "a");
  CHECK(sorted.buffers().at(0).name == "m");
}

}  // namespace
}  // namespace shardplan
