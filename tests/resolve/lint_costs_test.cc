// SPDX-License-Identifier: Apache-2.0
// SP204, SP302, SP304: src/resolve/lint_costs.cc.
#include <doctest/doctest.h>

#include "tests/support/linted.h"
#include "tests/support/messages.h"

namespace shardplan {
namespace {

using testing::lint_of;
using testing::message;

TEST_CASE("an axis that shards nothing is a warning") {
  const auto found =
      lint_of(testing::manifest({{"w", "u8[8]"}}),
              testing::rules({{"w", "tp"}}, {"dp"}), "dp=2,tp=2,one=1")
          .find(Code::UnusedAxis);
  REQUIRE(found.size() == 1);
  CHECK(message(found[0]) == "SP204 warning axis `dp` shards no parameter");
}

TEST_CASE("a large parameter that is replicated is a warning") {
  const auto found =
      lint_of(testing::manifest({{"w", "u8[1048576]"}, {"b", "u8[1048575]"}}),
              testing::rules({{"w|b", ""}}), "tp=2")
          .find(Code::LargeReplicatedParameter);
  REQUIRE(found.size() == 1);
  CHECK(found[0].parameters == std::vector<std::string>{"w"});
}

TEST_CASE("sharding lost beyond the tolerance is an error") {
  // As asked for, padded: 25 + 2500 bytes; as resolved: 97 + 2500.
  const Manifest manifest =
      testing::manifest({{"a", "u8[97]"}, {"b", "u8[10000]"}});
  const auto lost = [&](double tolerance) {
    LintOptions options;
    options.tolerance = tolerance;
    return lint_of(manifest, testing::rules({{"a|b", "tp"}}), "tp=4", {},
                   options)
        .find(Code::ShardingLost);
  };
  REQUIRE(lost(0.02).size() == 1);
  CHECK(lost(0.02)[0].severity == Severity::Error);
  CHECK(lost(0.0286).empty());
  CHECK(lost(0.0285).size() == 1);
}

TEST_CASE("too large a replicated fraction is an error when it is gated") {
  const Manifest manifest =
      testing::manifest({{"a", "u8[25]"}, {"b", "u8[75, 4]"}});
  const auto gated = [&](double most) {
    LintOptions options;
    options.max_replicated = most;
    return lint_of(manifest, testing::rules({{"a", ""}, {"b", "None, tp"}}),
                   "tp=4", {}, options)
        .find(Code::ShardingLost);
  };
  CHECK(gated(0.07).size() == 1);
  CHECK(gated(0.08).empty());
}

}  // namespace
}  // namespace shardplan
