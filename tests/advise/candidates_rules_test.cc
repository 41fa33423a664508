// SPDX-License-Identifier: Apache-2.0
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "tests/support/advised.h"

namespace shardplan {
namespace {

using testing::Advised;
using testing::advised;

std::string fixed(const Advised& plan, Code code, size_t which = 0) {
  const auto found = plan.find(code);
  REQUIRE_FALSE(found.empty());
  REQUIRE(found[0].fixes.size() > which);
  const Fix& fix = found[0].fixes[which];
  CHECK(testing::broken_promise(plan, found[0], fix) == "");
  return edited(plan.text, fix.edits);
}

TEST_CASE("an unmatched parameter is placed as its like are") {
  const Advised plan = advised(testing::manifest({{"l/0/up/w", "u8[8, 4]"},
                                                  {"l/0/gate/w", "u8[8, 4]"},
                                                  {"l/1/gate/w", "u8[8, 4]"}}),
                               "rules:\n  - [\"up/w\", [null, tp]]\n  # end\n",
                               testing::mesh("tp=2"));
  CHECK(fixed(plan, Code::UnmatchedParameter) ==
        "rules:\n  - [\"up/w\", [null, tp]]\n  - [\"gate/w$\", [null, tp]]\n  "
        "# end\n");
  // At last, as it is now: replicated.
  const auto found = plan.find(Code::UnmatchedParameter);
  CHECK(found[0].fixes.back().text ==
        "put `[\"gate/w$\", []]` behind the last rule");
}

TEST_CASE("one of a kind gets all axes where they divide") {
  const Advised plan = advised(
      testing::manifest({{"a/w", "u8[8]"}, {"b/v", "u8[7, 16]"}}),
      "rules:\n  - [\"a/w\", [[dp, tp]]]\n", testing::mesh("dp=2,tp=4"));
  CHECK(fixed(plan, Code::UnmatchedParameter) ==
        "rules:\n  - [\"a/w\", [[dp, tp]]]\n  - [\"b/v$\", [null, [dp, "
        "tp]]]\n");
}

TEST_CASE("a rule that is found nowhere goes") {
  const Advised plan =
      advised(testing::manifest({{"w", "u8[8]"}}),
              "rules:\n  - [w, [tp]]\n  # old\n  - [v, [tp]]  # too\n",
              testing::mesh("tp=2"));
  CHECK(fixed(plan, Code::UnusedRule) == "rules:\n  - [w, [tp]]\n  # old\n");
}

TEST_CASE("a shadowed rule moves above the one that takes its names") {
  const Advised plan = advised(
      testing::manifest({{"mlp/up", "u8[8, 6]"}, {"mlp/down", "u8[6, 8]"}}),
      "rules:\n  - [\"mlp\", [null, tp]]\n  - [\"mlp/down\", [tp, "
      "null]]  # rows\n",
      testing::mesh("tp=2"));
  CHECK(fixed(plan, Code::ShadowedRule) ==
        "rules:\n  - [\"mlp/down\", [tp, null]]  # rows\n  - [\"mlp\", [null, "
        "tp]]\n");
}

TEST_CASE("a pattern found in the middle of words is anchored") {
  const Advised plan = advised(
      testing::manifest({{"up/w", "u8[8, 6]"}, {"upper/w", "u8[8, 6]"}}),
      "rules:\n  - [up, [null, tp]]\n  - [upper, [tp, null]]\n",
      testing::mesh("tp=2"));
  bool anchored = false;
  const auto found = plan.find(Code::ShadowedRule);
  REQUIRE(found.size() == 1);
  for (const Fix& fix : found[0].fixes) {
    CHECK(testing::broken_promise(plan, found[0], fix) == "");
    anchored =
        anchored || fix.text ==
                        "write `(^|[./])up([./]|$)` as the pattern of rule "
                        "1 (rules.yaml:2)";
  }
  CHECK(anchored);
}

TEST_CASE("a rule for several ranks is split by rank") {
  Diagnostics severities;
  severities.set_severity(Code::OverlyBroadPattern, Severity::Warning);
  const Advised plan = advised(
      testing::manifest({{"mlp/kernel", "u8[8, 8]"}, {"mlp/bias", "u8[8]"}}),
      "rules:\n  - [mlp, [tp]]\n", testing::mesh("tp=2"), {}, severities);
  CHECK(fixed(plan, Code::OverlyBroadPattern) ==
        "rules:\n  - [\"mlp/bias$\", [tp]]\n  - [mlp, [tp]]\n");
}

TEST_CASE("a catch-all becomes explicit") {
  const Advised plan =
      advised(testing::manifest({{"a/w", "u8[8]"}, {"b/v", "u8[8]"}}),
              "rules:\n  - [\"a/w\", [tp]]\n  - [\".*\", [tp]]\n",
              testing::mesh("tp=2"));
  CHECK(fixed(plan, Code::CatchAllOnly) ==
        "rules:\n  - [\"a/w\", [tp]]\n  - [\"b/v$\", [tp]]\n");
}

}  // namespace
}  // namespace shardplan
