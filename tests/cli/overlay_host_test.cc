// SPDX-License-Identifier: Apache-2.0
#include "cli/overlay_host.h"

#include <string>

#include <doctest/doctest.h>

#include "tests/support/memory_host.h"

namespace shardplan::cli {
namespace {

TEST_CASE("an overlay hides what it covers and passes on the rest") {
  testing::MemoryHost below;
  below.files = {{"a", "old"}, {"b", "kept"}};
  below.input = "from below";
  OverlayHost host(below, {{"a", "newer"}});
  std::string why;
  CHECK(host.read_file("a", kWholeFile, why)->view() == "newer");
  CHECK(host.read_file("a", 3, why)->view() == "new");
  CHECK(host.read_file("b", kWholeFile, why)->view() == "kept");
  CHECK(host.file_info("a")->size == 5);
  CHECK(host.file_info("b")->size == 4);
  CHECK(host.read_file("c", kWholeFile, why) == nullptr);
  CHECK(host.read_stdin(why)->view() == "from below");
  CHECK(below.files["a"] == "old");
}

TEST_CASE("standard input is given again") {
  testing::MemoryHost below;
  OverlayHost host(below, {{std::string(kStandardInput), "rules: []"}});
  std::string why;
  CHECK(host.read_stdin(why)->view() == "rules: []");
  CHECK(host.read_stdin(why)->view() == "rules: []");
}

}  // namespace
}  // namespace shardplan::cli
