// SPDX-License-Identifier: Apache-2.0
#include "io/document_builder.h"

#include <memory>

#include <doctest/doctest.h>

#include "tests/io/document_text.h"

namespace shardplan {
namespace {

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
  CHECK(builder.depth() == 2);
  builder.scalar(NodeKind::Integer, "1", at);
  CHECK(builder.end(6) == list);
  builder.key("b", at);
  builder.repeat(list);
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
  const uint32_t node = builder.detached("x", {});
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
