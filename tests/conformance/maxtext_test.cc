// SPDX-License-Identifier: Apache-2.0
// MaxText's own recordings, which lie outside of the project.
#include <fstream>
#include <iterator>
#include <string>

#include <doctest/doctest.h>

#include "tests/conformance/runner/runner.h"
#include "tests/support/memory_host.h"
#include "tests/support/shared_dir.h"

namespace shardplan::conformance {
namespace {

TEST_CASE("logical rules place MaxText's parameters as its goldens say") {
  testing::MemoryHost host;
  for (const char* name : {"maxtext_logical.json", "maxtext_rules.json"}) {
    const auto path =
        testing::shared_file(std::string("vectors/maxtext/") + name);
    if (!path) return;
    std::ifstream file(*path);
    host.files[std::string("v/") + name] =
        std::string(std::istreambuf_iterator<char>(file), {});
  }
  CHECK(run({"v/maxtext_logical.json"}, host) == 0);
  CHECK(host.out.ends_with("200 passed, 0 failed\n"));
}

}  // namespace
}  // namespace shardplan::conformance
