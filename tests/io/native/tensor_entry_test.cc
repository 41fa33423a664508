// SPDX-License-Identifier: Apache-2.0
#include "io/native/tensor_entry.h"

#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "tests/io/document_text.h"
#include "tests/support/property.h"

namespace shardplan {
namespace {

// An object's attributes as they are read, and what is said about them.
struct Result {
  TensorEntry entry;
  Shape shape;
  std::string unread;  // keys whose values are of another kind
  std::string problems;
};

Result read_entry(const std::string& text) {
  Diagnostics diags;
  const SourceFile source("t", text);
  JsonScanner scanner(source);
  TokenSource tokens(scanner);
  ErrorLimit errors(diags, "the entry");
  AttributeReader reader(tokens, errors);
  Result result;
  tokens.next();
  while (tokens.next() == JsonScanner::Token::Key) {
    const Attribute attribute = attribute_of(tokens.text());
    const Span key = tokens.span();
    tokens.next();
    if (reader.read(attribute, key, result.entry)) continue;
    result.unread += key.text();
    tokens.skip_value();
  }
  result.shape = reader.shape();
  reader.axes_fit(result.entry, "w");
  result.problems = testing::text_of(diags);
  return result;
}

TEST_CASE("an entry collects its attributes in any order") {
  const Result result =
      read_entry(R"({"buffer": true, "axes": ["a", null], "dtype": "BF16",
               "name": "w", "shape": [2, 3]})");
  CHECK(result.problems.empty());
  CHECK(result.shape == Shape{2, 3});
  CHECK(result.entry.dtype == DType::BF16);
  CHECK(result.entry.buffer);
  CHECK(result.entry.name == "w");
  CHECK(result.entry.axes == AxisLabels{"a", std::nullopt});
  CHECK(result.entry.has(Attribute::Sizes));
  CHECK_FALSE(result.entry.broken);
}

TEST_CASE("values of another kind are left to be read as something else") {
  const Result result =
      read_entry(R"({"buffer": 1, "axes": {}, "dtype": null, "name": [],
               "shape": "x", "other": [1]})");
  CHECK(result.unread == R"("buffer""axes""dtype""name""shape""other")");
  CHECK_FALSE(result.entry.has_any());
}

TEST_CASE("an absent list of axes is as good as none") {
  const Result result = read_entry(R"({"axes": null, "shape": [1]})");
  CHECK_FALSE(result.entry.has(Attribute::Axes));
  CHECK(result.problems.empty());
}

TEST_CASE("wrong values break an entry, each with its place") {
  const Result result = read_entry(
      R"({"shape": [1, -1, 1e3], "dtype": "f33", "axes": ["a", 2]})");
  CHECK(result.entry.broken);
  CHECK(result.problems ==
        "SP002 1:15 a dimension is negative\n"
        "SP002 1:19 a dimension is not a whole number\n"
        "SP005 1:34 `f33` is not a dtype\n"
        "SP002 1:55 an entry of `axes` must be a name or null, not a number\n");
}

TEST_CASE("a misspelt dtype comes with the nearest one") {
  Diagnostics diags;
  const SourceFile source("t", "\"bfloat61\"");
  JsonScanner scanner(source);
  TokenSource tokens(scanner);
  ErrorLimit errors(diags, "the entry");
  AttributeReader reader(tokens, errors);
  TensorEntry entry;
  tokens.next();
  CHECK(reader.read(Attribute::Type, tokens.span(), entry));
  REQUIRE(diags.all().size() == 1);
  CHECK(diags.all()[0].help ==
        std::vector<std::string>{"did you mean `bf16`?"});
}

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
  CHECK(holds("same order", [] {
    const auto keys = [] {
      return draw_list(
          [] { return draw_text(std::string_view("\0\1\2-/a\xFF", 7)); });
    };
    const auto a = keys();
    const auto b = keys();
    ENSURE((path_of(a) < path_of(b)) == (a < b));
    ENSURE((path_of(a) == path_of(b)) == (a == b));
    std::string joined;
    for (size_t i = 0; i < a.size(); ++i) joined += (i == 0 ? "" : "/") + a[i];
    ENSURE(path_name(path_of(a)) == joined);
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
