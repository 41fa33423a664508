// SPDX-License-Identifier: Apache-2.0
// SP114, and how entries of folding tables fare in SP102 and SP103.
#include <doctest/doctest.h>

#include "core/folded_key.h"
#include "tests/support/linted.h"
#include "tests/support/messages.h"

namespace shardplan {
namespace {

using testing::lint_of;
using testing::message;

std::string module_of_key(const std::string& key) {
  return key_pattern(key, KeyPart::Module, false);
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
  CHECK(message(found[0]) ==
        "SP114 warning rules:1:1 `e.*.w*` stands for parameters of different "
        "kinds");
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
  const auto result =
      lint_of(manifest,
              testing::rules({{key_pattern("a", KeyPart::Bias, false), "tp"},
                              {module_of_key("a"), "tp"},
                              {key_pattern("b", KeyPart::Bias, false), "tp"},
                              {module_of_key("b"), "tp"},
                              {module_of_key("c"), ""},
                              {module_of_key("a"), ""},
                              {".*", ""}}),
              "tp=2");
  const auto unused = result.find(Code::UnusedRule);
  REQUIRE(unused.size() == 1);
  CHECK(message(unused[0]) ==
        "SP102 warning rules:3:1 rule 3 (rules:3) is found in no parameter");
  CHECK(result.find(Code::ShadowedRule).empty());
}

}  // namespace
}  // namespace shardplan
