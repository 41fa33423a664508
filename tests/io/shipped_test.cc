// SPDX-License-Identifier: Apache-2.0
#include "io/shipped.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <doctest/doctest.h>

#include "tests/support/source_dir.h"

namespace shardplan {
namespace {

namespace fs = std::filesystem;

TEST_CASE("every file below rules is shipped as it stands there") {
  const fs::path root = fs::path(source_dir()) / "rules";
  size_t files = 0;
  for (const auto& entry : fs::recursive_directory_iterator(root)) {
    if (!entry.is_regular_file()) continue;
    const std::string path = fs::relative(entry.path(), root);
    CAPTURE(path);
    ++files;
    std::ostringstream text;
    text << std::ifstream(entry.path()).rdbuf();
    const auto all = shipped_files();
    const auto found = std::find_if(
        all.begin(), all.end(),
        [&](const ShippedFile& file) { return file.path == path; });
    REQUIRE(found != all.end());
    CHECK(found->text == text.str());
  }
  CHECK(shipped_files().size() == files);
}

TEST_CASE("a folder's files are told from those of another") {
  Diagnostics diags;
  CHECK(shipped_name({"models/llama.yaml", ""}) == "llama");
  CHECK(shipped_name({"hardware/a.b.yaml", ""}) == "a.b");
  CHECK(shipped_files("models").size() + shipped_files("hardware").size() +
            shipped_files("logical").size() + shipped_files("graphs").size() ==
        shipped_files().size());
  CHECK(shipped_files("model").empty());
  const SourcePtr llama = find_shipped("models", "llama", diags);
  REQUIRE(llama != nullptr);
  CHECK(llama->name() == "rules/models/llama.yaml");
  CHECK(find_shipped("hardware", "llama", diags) == nullptr);
  CHECK(find_shipped("models", "models/llama", diags) == nullptr);
  CHECK(find_shipped("models", "", diags) == nullptr);
  CHECK(diags.all().empty());
}

}  // namespace
}  // namespace shardplan
