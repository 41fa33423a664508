// SPDX-License-Identifier: Apache-2.0
#include "resolve/match.h"

#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <rapidcheck.h>

#include "tests/support/builders.h"
#include "tests/support/messages.h"

namespace shardplan {
namespace {

using Found = std::vector<int>;

Matcher compiled(const RuleSet& rules) {
  Diagnostics diags;
  auto matcher = Matcher::compile(rules, true, diags);
  REQUIRE(matcher.has_value());
  return *std::move(matcher);
}

TEST_CASE("every rule found in a name is told, in order") {
  const Matcher matcher = compiled(testing::rules(
      {{"kernel", ""}, {"^q", ""}, {"q/kernel$", ""}, {"", ""}}));
  Found found;
  matcher.find("q/kernel", found);
  CHECK(found == Found{0, 1, 2, 3});
  matcher.find("x", found);
  CHECK(found == Found{3});
}

TEST_CASE("find is the loop over the rules") {
  CHECK(rc::check([] {
    std::vector<testing::PatternAndSpec> entries;
    const auto count = *rc::gen::inRange(0, 8);
    for (int i = 0; i < count; ++i) {
      entries.push_back({*rc::gen::element<std::string>(
                             "a", "b$", "^a", "a.b", ".*", "", "(a|b)+/",
                             "[0-9]", "a{2}", "/b", "^$", "ab?"),
                         ""});
    }
    Diagnostics diags;
    const auto matcher = Matcher::compile(testing::rules(entries), true, diags);
    RC_ASSERT(matcher.has_value());
    const auto name =
        *rc::gen::container<std::string>(rc::gen::element('a', 'b', '/', '0'));
    Found one;
    Found other;
    matcher->find(name, one);
    matcher->find_one_by_one(name, other);
    RC_ASSERT(one == other);
  }));
}

TEST_CASE("the first rule wins; counts say who took what") {
  const Matcher matcher = compiled(
      testing::rules({{"w", ""}, {"wq", ""}, {"b", ""}, {"nothing", ""}}));
  const Manifest manifest = testing::manifest(
      {{"wq", "f32[2]"}, {"wk", "f32[2]"}, {"wb", "f32[]"}, {"x", "f32[2]"}});
  const Matches matches = match(
      matcher, manifest, [](size_t i) { return i != 2; }, 1);
  CHECK(matches.winner == std::vector<int32_t>{0, 0, -1, -1});
  CHECK(matches.rules[0].found == 3);
  CHECK(matches.rules[0].won == 2);
  CHECK(matches.rules[1].found == 1);
  CHECK(matches.rules[1].won == 0);
  CHECK(matches.rules[1].winners == Found{0});
  // Found in a name that nobody may decide.
  CHECK(matches.rules[2].found == 1);
  CHECK(matches.rules[2].winners.empty());
  CHECK(matches.rules[3].found == 0);
}

TEST_CASE("the answer is the same for any number of threads") {
  Manifest manifest;
  for (int i = 0; i < 5000; ++i) {
    const std::string name = "l/" + std::to_string(i) + "/w";
    REQUIRE(manifest.add(name, {DType::F32, {2}}, {}));
  }
  const Matcher matcher = compiled(
      testing::rules({{"7/w", ""}, {"1", ""}, {"17", ""}, {"w$", ""}}));
  const auto all = [](size_t i) { return i % 3 != 0; };
  const Matches one = match(matcher, manifest, all, 1);
  for (const int jobs : {0, 2, 3, 64}) {
    CAPTURE(jobs);
    const Matches many = match(matcher, manifest, all, jobs);
    CHECK(many.winner == one.winner);
    for (size_t r = 0; r < one.rules.size(); ++r) {
      CHECK(many.rules[r].found == one.rules[r].found);
      CHECK(many.rules[r].won == one.rules[r].won);
      CHECK(many.rules[r].winners == one.rules[r].winners);
    }
  }
}

TEST_CASE("every pattern that cannot be compiled is SP105 at its fragment") {
  Diagnostics diags;
  const RuleSet rules = testing::rules({{"a(?=b)", ""}, {"b", ""}, {"c)", ""}});
  CHECK_FALSE(Matcher::compile(rules, true, diags).has_value());
  CHECK(diags.all().size() == 2);
  CHECK(testing::messages(diags).starts_with(
      "SP105 rules:1:2 pattern `a(?=b)` cannot be compiled\nSP105 rules:3:"));
  CHECK(diags.cannot_run());
}

TEST_CASE("a pattern narrowed to ASCII is a warning where names are not") {
  Diagnostics diags;
  const RuleSet rules = testing::rules({{"\\bq", ""}});
  CHECK(Matcher::compile(rules, false, diags).has_value());
  CHECK(testing::messages(diags) ==
        "SP108 warning rules:1:1 `\\b` looks at ASCII only, and some names are "
        "not ASCII");
}

TEST_CASE("a catch-all is found in any name whatever") {
  for (const char* pattern : {".*", ".", "", "^.+$", "(a|.*)", "^"}) {
    CAPTURE(pattern);
    CHECK(is_catch_all(pattern));
  }
  for (const char* pattern :
       {"a", ".*kernel", "[^a-z]", "\\W", "/", "~", "("}) {
    CAPTURE(pattern);
    CHECK_FALSE(is_catch_all(pattern));
  }
}

}  // namespace
}  // namespace shardplan
