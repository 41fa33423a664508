// SPDX-License-Identifier: Apache-2.0
#include "cli/simulate_expected.h"

#include <doctest/doctest.h>

#include "base/real_host.h"
#include "tests/support/memory_host.h"
#include "tests/support/messages.h"
#include "tests/support/safetensors.h"
#include "tests/support/source_dir.h"

namespace shardplan::cli {
namespace {

TEST_CASE("recorded outputs bring the tokens that they are of") {
  testing::MemoryHost host;
  const auto disk = make_real_host();
  host.below = disk.get();
  host.below_root = source_dir();
  Diagnostics diags;
  const auto expected = read_expected(
      "tests/data/checkpoints/gpt2.expected.safetensors", host, diags);
  REQUIRE_MESSAGE(expected, testing::messages(diags));
  const InputIds ids = recorded_ids(*expected);
  REQUIRE(ids.size() == 2);
  CHECK(ids[0].size() == 12);
  for (const auto& sequence : ids) {
    for (const int64_t id : sequence) CHECK((id >= 0 && id < 1000));
  }
}

TEST_CASE("without tokens of the right shape there are none") {
  testing::MemoryHost host;
  host.files["flat.safetensors"] =
      testing::safetensors({{"input_ids", "I64", {6}}});
  host.files["real.safetensors"] =
      testing::safetensors({{"input_ids", "F32", {2, 3}}});
  Diagnostics diags;
  for (const char* path : {"flat.safetensors", "real.safetensors"}) {
    const auto expected = read_expected(path, host, diags);
    REQUIRE(expected);
    CHECK(recorded_ids(*expected).empty());
  }
}

TEST_CASE("a file that is not there, or has no data, is refused") {
  testing::MemoryHost host;
  host.files["header.safetensors"] =
      testing::safetensors({{"logits", "F32", {2, 3}}}, false);
  for (const char* path : {"missing.safetensors", "header.safetensors"}) {
    Diagnostics diags;
    CHECK_FALSE(read_expected(path, host, diags));
    CHECK(diags.count(Severity::Error) == 1);
  }
}

}  // namespace
}  // namespace shardplan::cli
