// SPDX-License-Identifier: Apache-2.0
// The files of rules/ as the build parsed them, against their texts parsed
// here.
#include "base/shipped.h"

#include <memory>
#include <string>
#include <string_view>

#include <doctest/doctest.h>

#include "syntax/packed_document.h"
#include "tests/support/documents.h"

namespace shardplan {
namespace {

TEST_CASE("shipped: what the build has parsed is what the files say") {
  const auto files = shipped_files();
  const auto packed = packed_shipped_files();
  REQUIRE(files.size() == packed.size());
  size_t parsed = 0;
  for (size_t i = 0; i < files.size(); ++i) {
    const std::string path(files[i].path);
    CAPTURE(path);
    CHECK(packed[i].empty() == !path.ends_with(".yaml"));
    if (packed[i].empty()) continue;
    // A copy: another text than the program's, so it is parsed.
    const auto source =
        std::make_shared<const SourceFile>(path, std::string(files[i].text));
    Diagnostics diags;
    const auto document = parse_document(source, diags);
    REQUIRE(document);
    CHECK(difference(document->root(),
                     unpack_document(packed[i], source).root()) == "");
    ++parsed;
  }
  CHECK(parsed > 250);
}

TEST_CASE("shipped: a shipped file is not parsed again, and keeps its places") {
  Diagnostics diags;
  const SourcePtr source = find_shipped("architectures", "llama", diags);
  REQUIRE(source != nullptr);
  bool own = false;
  for (const ShippedFile& file : shipped_files()) {
    own |= file.text.data() == source->text().data();
  }
  CHECK(own);
  const auto document = parse_document(source, diags);
  REQUIRE(document);
  const auto name = document->root().find("architecture");
  REQUIRE(name);
  CHECK(name->text() == "llama");
  CHECK(name->span().file == source.get());
  CHECK(source->line(source->position(name->span().begin).line) ==
        "architecture: llama");
}

}  // namespace
}  // namespace shardplan
