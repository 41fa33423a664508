// SPDX-License-Identifier: Apache-2.0

#include "findings/findings.h"

#include <cstdint>
#include <vector>

#include <doctest/doctest.h>

#include "core/fold.h"
#include "core/plan.h"
#include "tests/support/builders.h"
#include "tests/support/linted.h"
#include "tests/support/messages.h"

namespace shardplan {
namespace {

using Sizes = std::vector<int64_t>;

TEST_CASE("common divisors ascend up to the limit") {
  CHECK(common_divisors(12, 18, 100) == Sizes{1, 2, 3, 6});
  CHECK(common_divisors(36, 36, 10) == Sizes{1, 2, 3, 4, 6, 9});
  CHECK(common_divisors(49, 49, 49) == Sizes{1, 7, 49});
  CHECK(common_divisors(7, 5, 100) == Sizes{1});
  CHECK(common_divisors(int64_t{1} << 62, int64_t{1} << 62, 8) ==
        Sizes{1, 2, 4, 8});
}

TEST_CASE("names are shown by the first and how many more") {
  CHECK(names_text({}) == "no parameter");
  CHECK(names_text({"a"}) == "`a`");
  CHECK(names_text({"a", "b", "c"}) == "`a` and 2 more");
}

TEST_CASE("what was requested is counted padded, unknown axes gone") {
  const Plan plan{testing::mesh("tp=4"), {}, true, {}, {}, {}, {}};
  Placement placement;
  placement.type = testing::type("u8[10, 8]");
  placement.requested = testing::spec("tp, zz");
  measure(placement, plan.mesh, plan.on_indivisible);
  CHECK(placement.bytes_per_device == 80);
  CHECK(requested_bytes(plan, placement) == 24);
}

// SP114, and how entries of folding tables fare in SP102 and SP103.

using testing::lint_of;
using testing::message;

std::string module_of_key(const std::string& key) {
  return key_pattern(key, KeyPart::Module, "");
}

TEST_CASE("one entry that stands for different shapes is a warning") {
  const Manifest manifest = testing::manifest({{"e.0.w1.weight", "u8[8, 4]"},
                                               {"e.0.w2.weight", "u8[4, 8]"},
                                               {"e.1.w1.weight", "u8[8, 4]"},
                                               {"e.1.w2.weight", "u8[4, 8]"}});
  const auto result = lint_of(
      manifest, testing::rules({{module_of_key("e.*.w*"), "tp"}}), "tp=2");
  const auto found = result.find(Code::MergedLayouts);
  REQUIRE(found.size() == 1);
  CHECK(
      message(found[0]) ==
      "SP114 warning rules:1:1 `e.*.w*` covers parameters of different types");
  CHECK(found[0].facts[0] == "`e.*.w1.weight` is u8[8, 4]");
  CHECK(found[0].parameters.size() == 4);
}

TEST_CASE("equal shapes, weights beside scales and other rules are fine") {
  const Manifest manifest = testing::manifest({{"e.0.w1.weight", "u8[8, 4]"},
                                               {"e.0.w3.weight", "u8[8, 4]"},
                                               {"e.0.w1.scale", "u8[8]"},
                                               {"f.0.w1", "u8[8]"},
                                               {"f.0.w2", "u8[4]"}});
  CHECK(lint_of(manifest,
                testing::rules({{module_of_key("e.*.w*"), "tp"},
                                {"^f\\.\\d+\\.w\\d+$", "tp"}}),
                "tp=2")
            .find(Code::MergedLayouts)
            .empty());
}

TEST_CASE("an entry is unused only as a whole, and where it places a thing") {
  const Manifest manifest = testing::manifest({{"a.weight", "u8[8, 4]"}});
  RuleSet rules = testing::rules({{key_pattern("a", KeyPart::Bias, ""), "tp"},
                                  {module_of_key("a"), "tp"},
                                  {key_pattern("b", KeyPart::Bias, ""), "tp"},
                                  {module_of_key("b"), "tp"},
                                  {module_of_key("c"), ""},
                                  {module_of_key("a"), ""},
                                  {".*", ""}});
  rules.rules.back().by_dialect = true;
  const auto result = lint_of(manifest, rules, "tp=2");
  const auto unused = result.find(Code::UnusedRule);
  REQUIRE(unused.size() == 1);
  CHECK(message(unused[0]) ==
        "SP102 warning rules:3:1 rule 3 (rules:3) matches no parameter");
  CHECK(result.find(Code::ShadowedRule).empty());
}

}  // namespace

}  // namespace shardplan
