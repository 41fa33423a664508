// SPDX-License-Identifier: Apache-2.0
#include "gate/pattern_samples.h"

#include <algorithm>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "base/shipped.h"
#include "resolve/match.h"
#include "tests/support/builders.h"

namespace shardplan {
namespace {

Matcher sample_matcher(const std::vector<std::string>& patterns) {
  std::vector<testing::PatternAndSpec> entries;
  for (const std::string& pattern : patterns) entries.push_back({pattern, ""});
  Diagnostics diags;
  auto matcher = Matcher::compile(testing::rules(entries), true, diags);
  REQUIRE(matcher.has_value());
  return *std::move(matcher);
}

std::vector<std::string> texts_of(const std::string& pattern) {
  std::vector<std::string> texts;
  for (const PatternSample& sample : pattern_samples(pattern, 8)) {
    texts.push_back(sample.text);
  }
  return texts;
}

TEST_CASE("alternatives, classes and repetitions give a name each") {
  const struct {
    const char* pattern;
    std::vector<std::string> texts;
  } rows[] = {
      {"kernel", {"kernel"}},
      {"^kernel$", {"kernel"}},
      {"(q|k|v)_proj", {"q_proj", "k_proj", "v_proj"}},
      {"a(?:b|c)d", {"abd", "acd"}},
      {R"(layers\.\d+\.w)", {"layers.0.w"}},
      {R"(norm[./](weight|scale)$)",
       {"norm.weight", "norm.scale", "norm/weight", "norm/scale"}},
      {"(^|/)norm", {"norm", "/norm"}},
      {"wq?", {"w", "wq"}},
      {"a{3}", {"aaa"}},
      {"attn/.*kernel", {"attn/kernel"}},
      {"attn/.+kernel", {"attn/xkernel"}},
      {"(?P<what>a|b)", {"a", "b"}},
      {"", {""}},
      // No name ends before it ends.
      {"a$b", {}},
      {"a^b", {}},
  };
  for (const auto& row : rows) {
    CAPTURE(row.pattern);
    CHECK(texts_of(row.pattern) == row.texts);
  }
}

TEST_CASE("a sample knows where it begins, ends and takes anything") {
  const auto samples = pattern_samples("^layers/.*kernel$", 4);
  REQUIRE(samples.size() == 1);
  CHECK(samples[0].at_begin);
  CHECK(samples[0].at_end);
  CHECK(samples[0].holes == std::vector<size_t>{7});
  CHECK_FALSE(pattern_samples("kernel", 4)[0].at_begin);
}

TEST_CASE("samples are no more than requested, and none of a bad pattern") {
  CHECK(pattern_samples("(a|b|c|d)(e|f|g)", 5).size() == 5);
  CHECK(pattern_samples("(", 5).empty());
  CHECK(pattern_samples("a(?=b)", 5).empty());
}

TEST_CASE("every pattern of the shipped rules is found in a name made of it") {
  size_t patterns = 0;
  for (const ShippedFile& file : shipped_files("models")) {
    const std::string text(file.text);
    for (size_t at = text.find("- ['"); at != std::string::npos;
         at = text.find("- ['", at + 1)) {
      const size_t end = text.find("',", at);
      const std::string pattern = text.substr(at + 4, end - at - 4);
      CAPTURE(pattern);
      const Matcher matcher = sample_matcher({pattern});
      const auto samples = texts_of(pattern);
      CHECK(std::any_of(samples.begin(), samples.end(),
                        [&](const std::string& name) {
                          std::vector<int> found;
                          matcher.find(name, found);
                          return !found.empty();
                        }));
      ++patterns;
    }
  }
  CHECK(patterns > 100);
}

TEST_CASE("two patterns are found in a name made of both") {
  const std::pair<const char*, const char*> rows[] = {
      {"attn", "kernel$"},           {"self_attn/q_proj", "q_proj/kernel"},
      {"^layers/.*kernel$", "attn"}, {"^layers/.*kernel$", "^layers/attn"},
      {"experts", R"(\.weight$)"},   {"(q|k|v)_proj", ".*"},
      {"^embed", "embed"},
  };
  for (const auto& row : rows) {
    const std::string first = row.first;
    const std::string second = row.second;
    CAPTURE(first);
    CAPTURE(second);
    const Matcher matcher = sample_matcher({first, second});
    bool both = false;
    for (const PatternSample& a : pattern_samples(first, 3)) {
      for (const PatternSample& b : pattern_samples(second, 3)) {
        for (const std::string& name : joined_samples(a, b)) {
          std::vector<int> found;
          matcher.find(name, found);
          both = both || found.size() == 2;
        }
      }
    }
    CHECK(both);
  }
}

}  // namespace
}  // namespace shardplan
