// SPDX-License-Identifier: Apache-2.0
#include "io/segment_pattern.h"

#include <vector>

#include <doctest/doctest.h>
#include <rapidcheck.h>

#include "core/rules.h"
#include "resolve/match.h"

namespace shardplan {
namespace {

bool is_found(const std::string& pattern, std::string_view name) {
  RuleSet rules;
  rules.rules.push_back({pattern, {}, {}, {}, {}});
  Diagnostics diags;
  const auto matcher = Matcher::compile(rules, true, diags);
  REQUIRE_MESSAGE(matcher, pattern);
  std::vector<int> found;
  matcher->find(name, found);
  return !found.empty();
}

std::vector<std::string> parts_of(std::string_view name) {
  std::vector<std::string> parts(1);
  for (const char c : name) {
    if (c == '/') {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

// As the originals do it: each pattern, with `$` behind it, from the beginning
// of one of consecutive parts.
bool is_found_in_window(const std::vector<std::string>& segments,
                        std::string_view name) {
  const std::vector<std::string> parts = parts_of(name);
  for (size_t at = 0; at + segments.size() <= parts.size(); ++at) {
    bool all = true;
    for (size_t i = 0; i < segments.size(); ++i) {
      // re.match begins where the text does, in every branch.
      std::string from_start = "^(?:" + segments[i] + "$)";
      all = all && is_found(from_start, parts[at + i]);
    }
    if (all) return true;
  }
  return false;
}

std::string written(const std::vector<std::string>& segments) {
  SegmentProblem problem;
  const auto pattern = pattern_of_segments(segments, problem);
  return pattern ? *pattern : "refused: " + problem.why;
}

TEST_CASE("segments become a search for whole parts") {
  CHECK(written({"mlp", "c_fc", "kernel"}) == "(?:^|/)mlp/c_fc/kernel(?:/|$)");
  CHECK(written({"h_.*", "[^a]b", "\\W"}) ==
        "(?:^|/)h_[^/]*/[^/a]b/[^/\\w](?:/|$)");
  CHECK(written({"^(q|k|v)$"}) == "(?:^|/)(q|k|v)(?:/|$)");
  CHECK(written({"q|k"}) == "(?:^|/)(?:q[^/]*|k)(?:/|$)");
}

TEST_CASE("what only a part by itself can say is refused") {
  for (const char* pattern :
       {"a/b", "a^b", "(a$)b", "\\Aab", "[\\W]", "[!-~]", "[/]", "[a", "a\\"}) {
    CAPTURE(pattern);
    CHECK(written({pattern}).substr(0, 8) == "refused:");
  }
}

TEST_CASE("a search for segments agrees with matching part by part") {
  CHECK(rc::check([] {
    const auto pick = [](auto... options) {
      return *rc::gen::element<std::string>(options...);
    };
    std::vector<std::string> segments;
    const auto count = *rc::gen::inRange<size_t>(1, 4);
    for (size_t i = 0; i < count; ++i) {
      segments.push_back(pick("a", "b", "a.*", ".", ".+b", "a|b", "(a|b)+",
                              "[^a]", "[ab]*", "\\w+", "\\D", "a?", "ab|a$"));
    }
    std::string name;
    const auto length = *rc::gen::inRange<size_t>(1, 5);
    for (size_t i = 0; i < length; ++i) {
      if (i > 0) name += '/';
      name += pick("a", "b", "ab", "ba", "aab", "c", "1", "", "a-b");
    }
    SegmentProblem problem;
    const auto pattern = pattern_of_segments(segments, problem);
    RC_ASSERT(pattern.has_value());
    RC_ASSERT(is_found(*pattern, name) == is_found_in_window(segments, name));
  }));
}

TEST_CASE("searches of keystr's text become searches of paths") {
  const auto path = [](const char* pattern) {
    return pattern_of_keystr(pattern).value_or("refused");
  };
  CHECK(is_keystr_pattern("\\['wte'\\]"));
  CHECK_FALSE(is_keystr_pattern("wte/embedding"));
  CHECK(path("\\['wte'\\]\\['embedding'\\]") == "(?:^|/)wte/embedding(?:/|$)");
  CHECK(path("\\['attn'\\]\\['(q|c)_attn'\\]\\['kernel'\\]") ==
        "(?:^|/)attn/(q|c)_attn/kernel(?:/|$)");
  CHECK(path("\\['h'\\].*\\['kernel'\\]$") == "(?:^|/)h/(?:.*/)?kernel$");
  CHECK(path(".*\\['wte'\\].*") == "(?:^|/)wte(?:/|$)");
  CHECK(path("\\['a'\\].+\\['b'\\]") == "refused");
  CHECK(path(".*") == ".*");
  CHECK(path("x\\[0\\]") == "refused");
}

}  // namespace
}  // namespace shardplan
