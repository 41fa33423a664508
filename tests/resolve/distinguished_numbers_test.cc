// SPDX-License-Identifier: Apache-2.0
#include "resolve/distinguished_numbers.h"

#include <set>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "resolve/match.h"
#include "resolve/name_groups.h"
#include "resolve/python_regex.h"
#include "tests/support/builders.h"
#include "tests/support/property.h"

namespace shardplan {
namespace {

using Codes = std::vector<uint32_t>;

bool distinguishes(const std::string& pattern,
                   DistinguishedNumbers& distinguished) {
  const auto translated = translate_pattern(pattern, true);
  return std::holds_alternative<TranslatedPattern>(translated) &&
         add_distinguished_numbers(std::get<TranslatedPattern>(translated).re2,
                                   distinguished);
}

TEST_CASE("patterns that take any number tell none") {
  for (const std::string pattern :
       {R"(experts\.\d+\.(gate|up)_proj)", "[0-9]+", R"(layers\.\d+)", ".*",
        "layers.*mlp", "layers/[^/]+/mlp", R"(h.\d+.attn)", R"(\.w1\.)",
        R"(^model\.(\w+\.)*bias$)", "conv1d", "", "a*", R"(\d)",
        R"(layers\.\d+?\.w)", R"((?:\.[^.]+)?$)"}) {
    CAPTURE(pattern);
    DistinguishedNumbers distinguished;
    CHECK(distinguishes(pattern, distinguished));
    CHECK(distinguished.after_text.empty());
  }
}

TEST_CASE("numbers that a pattern has as they are written are told") {
  struct Case {
    std::string pattern;
    std::string text_before;
    Codes codes;
  };
  const Case kCases[] = {
      {R"(layers\.7\.mlp)", "layers.", {17}},
      {R"(layers\.07$)", "layers.", {107}},
      {R"((^|\.)h\.(1|25)\.w)", "h.", {11, 125}},
      {"^7/w", std::string(1, kNameBegin), {17}},
      {R"([./]7/w)", "", {17}},
      {R"(a\.\d+\.7\.)", ".", {17}},
      {R"(\.[89]\.)", ".", {18, 19}},
      {R"(\.99999\.)", ".", {199999}},
  };
  for (const Case& c : kCases) {
    CAPTURE(c.pattern);
    DistinguishedNumbers distinguished;
    CHECK(distinguishes(c.pattern, distinguished));
    REQUIRE(distinguished.after_text.size() == 1);
    CHECK(distinguished.after_text.begin()->first == c.text_before);
    CHECK(distinguished.after_text.begin()->second == c.codes);
  }
}

TEST_CASE("what is not proved is refused") {
  for (const std::string pattern :
       {R"(layers\.1)", R"(\d\d)", R"(\.\d{2}\.)", R"(\.\d\.)", R"(1\.w)",
        R"(\d+[0-9])", "[0-4]", R"(\bq)", "(?i)q", R"(\.123456\.)",
        R"(\.1\d*\.)", "[^/]+\\d+$", R"(w(\.\d\d)*$)", R"(x{300})",
        R"(\.[0-8]+\.)"}) {
    CAPTURE(pattern);
    DistinguishedNumbers distinguished;
    CHECK_FALSE(distinguishes(pattern, distinguished));
  }
  DistinguishedNumbers distinguished;
  const std::string deep(1000, '(');
  CHECK_FALSE(add_distinguished_numbers(deep + "a" + std::string(1000, ')'),
                                        distinguished));
  for (const std::string broken :
       {"(", ")", "[", "[a", "*", "a{", "a{1", "a**", "\\", "\\x{", "\\x{zz}",
        "[\\p{L}]", "[[:alpha:]]", "(?i)a", "a{1001}", "\xC3\xA9"}) {
    CAPTURE(broken);
    CHECK_FALSE(add_distinguished_numbers(broken, distinguished));
  }
}

TEST_CASE("names are one group unless a pattern tells their numbers") {
  const Manifest manifest = testing::manifest({{"a.1.w", "f32[]"},
                                               {"a.2.w", "f32[]"},
                                               {"a.7.w", "f32[]"},
                                               {"a.123456.w", "f32[]"},
                                               {"b.7.w", "f32[]"},
                                               {"b.8.w", "f32[]"},
                                               {"a.07.w", "f32[]"}});
  DistinguishedNumbers distinguished;
  REQUIRE(distinguishes(R"(a\.7\.w)", distinguished));
  const NameGroups groups = group_names(manifest, distinguished);
  CHECK(groups.of == Codes{0, 0, 1, 0, 2, 2, 0});
  CHECK(groups.first == Codes{0, 2, 4});
}

std::string drawn_piece(int deeper) {
  if (deeper > 0 && draw_in(0, 7) == 0) {
    return "(" + drawn_piece(deeper - 1) + drawn_piece(deeper - 1) + ")" +
           draw_of<std::string>({"", "*", "+", "?", "{2}"});
  }
  return draw_of<std::string>(
      {"\\d+",       "\\d",    "[0-9]+",   "\\d*",      ".*",      ".",
       "[^/]+",      "\\w+",   "\\.",      "\\.",       "/",       "a",
       "ab",         "1",      "7",        "12",        "07",      "[0-4]",
       "(1|2)",      "\\d{2}", "[^0-9]",   "[^1]",      "\\D+",    "\\d+?",
       "(\\.\\d+)*", "[./]",   "^",        "$",         "(^|\\.)", "(\\.|$)",
       "\\.7\\.",    "a\\.1/", "\\.12\\.", "1[0-9]",    "|",       "{2}",
       "(?:7)?",     "1*",     "(0|1)+",   "\\.12345/", "\\Z",     "\\b"});
}

std::string drawn_name() {
  std::string name;
  const auto parts = draw_in(1, 5);
  for (int i = 0; i < parts; ++i) {
    if (i > 0) name += draw_of("./");
    name += draw_of<std::string>({"a", "ab", "7a", "b12", "0", "1", "2", "7",
                                  "12", "13", "07", "71", "123", "12345",
                                  "123456", "99999"});
  }
  return name;
}

Manifest drawn_manifest(int most) {
  Manifest manifest;
  std::set<std::string> names;
  const auto count = draw_in(1, most);
  for (int i = 0; i < count; ++i) {
    const std::string name = drawn_name();
    if (names.insert(name).second) {
      manifest.add(name, {DType::F32, {2}}, {});
    }
  }
  return manifest;
}

// The slow twin: every name is searched.
TEST_CASE("a pattern is found in all names of a group or in none") {
  int proved = 0;
  CHECK(holds([&] {
    const Manifest manifest = drawn_manifest(100);
    for (int i = 0; i < 20; ++i) {
      std::string pattern;
      const auto pieces = draw_in(1, 5);
      for (int k = 0; k < pieces; ++k) pattern += drawn_piece(1);
      Diagnostics ignored;
      const auto matcher =
          Matcher::compile(testing::rules({{pattern, ""}}), true, ignored);
      DistinguishedNumbers distinguished;
      if (!matcher || !distinguishes(pattern, distinguished)) continue;
      ++proved;
      const NameGroups groups = group_names(manifest, distinguished);
      std::vector<int> found;
      std::vector<bool> first;
      for (size_t k = 0; k < manifest.size(); ++k) {
        matcher->find_one_by_one(manifest.name(k), found);
        if (groups.of[k] == first.size()) first.push_back(!found.empty());
        ENSURE(first.at(groups.of[k]) == !found.empty());
      }
      ENSURE(first.size() == groups.first.size());
    }
  }));
  CHECK(proved > 100);
}

}  // namespace

}  // namespace shardplan
