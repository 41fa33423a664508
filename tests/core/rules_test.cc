// SPDX-License-Identifier: Apache-2.0
#include "core/rules.h"

#include <doctest/doctest.h>

#include "resolve/match.h"

namespace shardplan {
namespace {

TEST_CASE("an exact pattern escapes what patterns give a meaning") {
  CHECK(exact_pattern("model/layers/0/kernel") == "^model/layers/0/kernel$");
  CHECK(exact_pattern("lm_head.weight") == "^lm_head\\.weight$");
  CHECK(exact_pattern("['a'](b)*") == "^\\['a'\\]\\(b\\)\\*$");
  CHECK(exact_pattern("") == "^$");
}

TEST_CASE("an exact pattern is found in its own name alone") {
  const std::vector<std::string> names = {"a.b",   "axb",  "a.b.c", "x.a.b",
                                          "a|b",   "a\\b", "a+",    "aa",
                                          "größe", "^a$",  "{1,2}"};
  RuleSet rules;
  for (const std::string& name : names) {
    rules.rules.push_back({exact_pattern(name), {}, {}, {}, {}});
  }
  Diagnostics diags;
  const auto matcher = Matcher::compile(rules, false, diags);
  REQUIRE(matcher.has_value());
  for (size_t i = 0; i < names.size(); ++i) {
    CAPTURE(names[i]);
    std::vector<int> found;
    matcher->find(names[i], found);
    CHECK(found == std::vector<int>{static_cast<int>(i)});
  }
}

}  // namespace
}  // namespace shardplan
