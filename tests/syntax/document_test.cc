// SPDX-License-Identifier: Apache-2.0
#include "syntax/document.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <utility>

#include <doctest/doctest.h>

#include "tests/io/document_text.h"

namespace shardplan {
namespace {

using testing::document_text;
using testing::problems_text;

TEST_CASE("JSON becomes nodes of every kind") {
  CHECK(document_text(
            R"({"a": [1, -2.5, true, null], "b": {"c": "x\n"}, "d": {}})") ==
        "{a: [int 1, real -2.5, bool true, null], b: {c: 'x\n'}, d: {}}");
  CHECK(document_text("[]") == "[]");
  CHECK(document_text("[1e3, 99999999999999999999]") ==
        "[real 1e3, int 99999999999999999999]");
}

TEST_CASE("what only looks like JSON is read as YAML") {
  CHECK(document_text("{fsdp: 8, tp: [a, 'b']}") ==
        "{fsdp: int 8, tp: ['a', 'b']}");
}

TEST_CASE("of two readers the one that came further says what is wrong") {
  CHECK(problems_text("{\"a\": [1, 2}\n") ==
        "SP002 1:12 expected `,` or `]`, not `}`\n");
  CHECK(problems_text("{a: 1, b: [1, 2}\n").substr(0, 11) == "SP002 1:16 ");
}

TEST_CASE("duplicate keys are reported with both places") {
  CHECK(
      problems_text("{\"a\": 1,\n \"b\": {\"x\": 1, \"x\": 2},\n \"a\": 2}") ==
      "SP003 2:16 key `x` is given twice (first given here 2:8)\n"
      "SP003 3:2 key `a` is given twice (first given here 1:2)\n");
  CHECK(problems_text("a: 1\nb: 2\n\"a\": 3\n") ==
        "SP003 3:1 key `a` is given twice (first given here 1:1)\n");
}

TEST_CASE("no more than twenty duplicate keys are shown, the rest is counted") {
  std::string text;
  for (int i = 0; i < 25; ++i) text += "a: 1\n";
  const std::string problems = problems_text(text);
  CHECK(std::count(problems.begin(), problems.end(), '\n') == 21);
  CHECK(problems.find("4 more keys are given twice") != std::string::npos);
}

TEST_CASE("too large a document is refused") {
  CHECK(problems_text(std::string(kMaxDocumentBytes + 1, ' ')) ==
        "SP002 1:1 the document is larger than 64 MiB, the limit for all but "
        "JSON manifests\n");
}

TEST_CASE("nodes give their values in the types that hold them") {
  Diagnostics diags;
  const auto source = std::make_shared<SourceFile>(
      "t",
      "[12, 9223372036854775808, 1.5, -.inf, .nan, true, '7', +3, 0x1F, "
      "0o17, 1e999, -0x1]");
  const auto document = parse_document(source, diags);
  REQUIRE(document);
  const Node root = document->root();
  CHECK(root.item(0).integer() == 12);
  CHECK(root.item(0).number() == 12.0);
  CHECK_FALSE(root.item(1).integer());
  CHECK(root.item(1).number() == 9223372036854775808.0);
  CHECK_FALSE(root.item(2).integer());
  CHECK(root.item(2).number() == 1.5);
  CHECK(root.item(3).number() == -HUGE_VAL);
  CHECK(std::isnan(*root.item(4).number()));
  CHECK(root.item(5).boolean() == true);
  CHECK_FALSE(root.item(6).integer());
  CHECK_FALSE(root.item(6).number());
  CHECK_FALSE(root.item(6).boolean());
  CHECK(root.item(7).integer() == 3);
  CHECK(root.item(8).integer() == 31);
  CHECK(root.item(9).integer() == 15);
  CHECK_FALSE(root.item(10).number());
  CHECK(root.item(11).is_string());
}

TEST_CASE("a map finds its entries by key") {
  Diagnostics diags;
  const auto source = std::make_shared<SourceFile>("t", R"({"a": 1, "b": 2})");
  const auto document = parse_document(source, diags);
  REQUIRE(document);
  const Node root = document->root();
  CHECK(root.size() == 2);
  CHECK(root.find("b")->integer() == 2);
  CHECK_FALSE(root.find("c"));
  CHECK(root.key(1) == "b");
  CHECK(root.key_span(1).text() == "\"b\"");
  CHECK(root.item(1).span().text() == "2");
  CHECK(root.span().text() == R"({"a": 1, "b": 2})");
}

TEST_CASE("require says what was expected and what is there") {
  Diagnostics diags;
  const auto source = std::make_shared<SourceFile>("t", "mesh: [1]\nn: 2\n");
  const auto document = parse_document(source, diags);
  REQUIRE(document);
  const Node mesh = *document->root().find("mesh");
  CHECK(require(mesh, NodeKind::List, "mesh", diags));
  CHECK(require(*document->root().find("n"), NodeKind::Real, "n", diags));
  CHECK(diags.all().empty());
  CHECK_FALSE(require(mesh, NodeKind::Map, "mesh", diags));
  CHECK(testing::text_of(diags) ==
        "SP002 1:7 `mesh` must be a map, not a list\n");
}

TEST_CASE("unknown keys are reported with the nearest known one") {
  Diagnostics diags;
  const auto source =
      std::make_shared<SourceFile>("t", "rules: 1\nmehs: 2\nzzz: 3\n");
  const auto document = parse_document(source, diags);
  REQUIRE(document);
  const std::string known[] = {"rules", "mesh"};
  CHECK_FALSE(reject_unknown_keys(document->root(), known, diags));
  CHECK(testing::text_of(diags) ==
        "SP004 2:1 unknown key `mehs`\n"
        "SP004 3:1 unknown key `zzz`\n");
  CHECK(diags.all()[0].facts ==
        std::vector<std::string>{"known keys: `rules`, `mesh`"});
  CHECK(diags.all()[0].help ==
        std::vector<std::string>{"did you mean `mesh`?"});
  CHECK(diags.all()[1].help.empty());
  const std::string all[] = {"rules", "mehs", "zzz"};
  CHECK(reject_unknown_keys(document->root(), all, diags));
}

TEST_CASE("events in the order of the text become a tree") {
  Diagnostics diags;
  const auto source = std::make_shared<SourceFile>("t", "0123456789");
  const Span at{source.get(), 2, 3};
  DocumentBuilder builder(source, diags);
  builder.begin(NodeKind::Map, 0);
  CHECK(builder.wants_key());
  builder.key("a", at);
  CHECK_FALSE(builder.wants_key());
  const uint32_t list = builder.begin(NodeKind::List, 4);
  builder.scalar(NodeKind::Integer, "1", at);
  CHECK(builder.end(6) == list);
  builder.key("b", at);
  builder.attach(list);
  builder.end(9);
  const auto document = builder.finish();
  REQUIRE(document);
  CHECK(testing::text_of(document->root()) == "{a: [int 1], b: [int 1]}");
  CHECK(document->root().item(0).span().text() == "45");
}

TEST_CASE("a builder without events gives nothing, not a failure") {
  Diagnostics diags;
  DocumentBuilder builder(std::make_shared<SourceFile>("t", ""), diags);
  const auto document = builder.finish();
  REQUIRE(document);
  CHECK(document->root().is_null());
}

TEST_CASE("a detached scalar is in no list") {
  Diagnostics diags;
  DocumentBuilder builder(std::make_shared<SourceFile>("t", ""), diags);
  builder.begin(NodeKind::List, 0);
  const uint32_t node = builder.detached(NodeKind::String, "x", {});
  CHECK(builder.text(node) == "x");
  CHECK(builder.kind(node) == NodeKind::String);
  builder.end(0);
  CHECK(builder.finish()->root().size() == 0);
}

TEST_CASE("duplicate keys leave no document") {
  Diagnostics diags;
  DocumentBuilder builder(std::make_shared<SourceFile>("t", "xy"), diags);
  builder.begin(NodeKind::Map, 0);
  for (int i = 0; i < 2; ++i) {
    builder.key("a", {});
    builder.scalar(NodeKind::Null, "", {});
  }
  builder.end(2);
  CHECK_FALSE(builder.finish());
  CHECK(diags.count(Severity::Error) == 1);
}

}  // namespace

}  // namespace shardplan
