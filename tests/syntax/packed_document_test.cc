// SPDX-License-Identifier: Apache-2.0
#include "syntax/packed_document.h"

#include <memory>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "base/checked.h"
#include "tests/support/documents.h"

namespace shardplan {
namespace {

struct Parsed {
  SourcePtr source;
  Document document;
};

Parsed parsed(const std::string& text) {
  auto source = std::make_shared<const SourceFile>("x.yaml", text);
  Diagnostics diags;
  auto document = parse_document(source, diags);
  REQUIRE(document);
  return {source, *std::move(document)};
}

TEST_CASE("packed documents: what is unpacked is what was packed") {
  for (const std::string& text : std::vector<std::string>{
           "",
           "# nothing\n",
           "a:\nb: ~\n",
           "a: 1\nb: [x, 'y', \"z\", '', 1.5, true, null]\n",
           "a: 'it''s'\nb: \"\\x41\\n\"\nc: two\n  lines\nd: |\n  x\n  y\n",
           "a: &x {b: [1, 2]}\nc: *x\nd: [*x, *x]\n",
           "? x\n: - {}\n  - []\n  - - - deep\n",
           "!!str 12: !!float 3\n",
           "[{a: 1}, {a: 2, b: {c: []}}]",
           R"({"a": "\u00e9", "b": [1, {"c": "x\"y"}], "": ""})",
           std::string("\xEF\xBB\xBF") + "\xC3\xA9: '\xC3\xA9'\n",
           "a: " + std::string(5000, 'x') + "\n" + std::string(300, '\n') +
               "b: 1\n",
       }) {
    CAPTURE(text);
    const Parsed first = parsed(text);
    const std::string packed = pack_document(first.document);
    const Document again = unpack_document(packed, first.source);
    CHECK(difference(first.document.root(), again.root()) == "");
    CHECK(pack_document(again) == packed);
  }
}

TEST_CASE("packed documents: texts outlive what was packed") {
  const Parsed first = parsed("a: \"x\\ty\"\n");
  std::string packed = pack_document(first.document);
  const Document again = unpack_document(packed, first.source);
  packed.assign(packed.size(), '\0');
  CHECK(again.root().find("a")->text() == "x\ty");
}

TEST_CASE("packed documents: what is cut off is noticed") {
  const Parsed first = parsed("a: [1, {b: c}]\n");
  const std::string packed = pack_document(first.document);
  for (size_t size = 0; size < packed.size(); ++size) {
    CAPTURE(size);
    CHECK_THROWS_AS(unpack_document(packed.substr(0, size), first.source),
                    InternalError);
  }
  CHECK_THROWS_AS(unpack_document(packed + '\0', first.source), InternalError);
}

}  // namespace
}  // namespace shardplan
