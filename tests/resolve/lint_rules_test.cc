// SPDX-License-Identifier: Apache-2.0
// SP101, SP102, SP103, SP107: src/resolve/lint_rules.cc.
#include <doctest/doctest.h>

#include "tests/support/linted.h"
#include "tests/support/messages.h"

namespace shardplan {
namespace {

using testing::lint_of;
using testing::message;

TEST_CASE("an unmatched parameter is an error, or a note when asked for") {
  const Manifest manifest =
      testing::manifest({{"l/0/w", "u8[8]"}, {"l/1/w", "u8[8]"}});
  const auto found = lint_of(manifest, testing::rules({{"x", ""}}), "tp=2")
                         .find(Code::UnmatchedParameter);
  REQUIRE(found.size() == 1);
  CHECK(message(found[0]) ==
        "SP101 parameters `l/0/w` and 1 more match no rule");
  CHECK(found[0].findings == 2);
  LintOptions options;
  options.accept_unmatched = true;
  CHECK(lint_of(manifest, testing::rules({{"x", ""}}), "tp=2", {}, options)
            .find(Code::UnmatchedParameter)
            .at(0)
            .severity == Severity::Note);
}

TEST_CASE("rules that are not found, or come too late, are warnings") {
  const auto result =
      lint_of(testing::manifest({{"w", "u8[8]"}, {"s", "u8[]"}}),
              testing::rules({{"w", "tp"}, {"^w$", ""}, {"zz", ""}, {"s", ""}}),
              "tp=2");
  const auto shadowed = result.find(Code::ShadowedRule);
  REQUIRE(shadowed.size() == 1);
  CHECK(message(shadowed[0]) ==
        "SP103 warning rules:2:1 rule 2 (rules:2) never applies");
  CHECK(shadowed[0].labels.at(1).where.text() == "w");
  const auto unused = result.find(Code::UnusedRule);
  REQUIRE(unused.size() == 2);
  CHECK(message(unused[0]) ==
        "SP102 warning rules:3:1 rule 3 (rules:3) is found in no parameter");
  CHECK(unused[1].message ==
        "rule 4 (rules:4) is found in scalars only, which are never sharded");
}

TEST_CASE("what only a catch-all decides is a warning") {
  const auto found =
      lint_of(testing::manifest({{"w", "u8[8]"}, {"x", "u8[8]"}}),
              testing::rules({{"w", "tp"}, {".*", ""}}), "tp=2")
          .find(Code::CatchAllOnly);
  REQUIRE(found.size() == 1);
  CHECK(found[0].parameters == std::vector<std::string>{"x"});
}

}  // namespace
}  // namespace shardplan
