// SPDX-License-Identifier: Apache-2.0
#include "resolve/match.h"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "base/allocation.h"
#include "tests/support/builders.h"
#include "tests/support/messages.h"
#include "tests/support/property.h"
#include "tests/support/shared_dir.h"

namespace shardplan {
namespace {

using Found = std::vector<int>;

Matcher compiled(const RuleSet& rules) {
  Diagnostics diags;
  auto matcher = Matcher::compile(rules, true, diags);
  REQUIRE(matcher.has_value());
  return *std::move(matcher);
}

// The judge of match(): names that differ only in numbers are searched as well.
Matches match_every_name(const Matcher& matcher, const Manifest& manifest,
                         const MayDecide& may_decide, int jobs) {
  const auto found = matcher.find_sets(manifest, jobs, true);
  REQUIRE(found.has_value());
  return matches_of(*found, matcher.rules(), may_decide);
}

TEST_CASE("every rule found in a name is listed, in order") {
  const Matcher matcher = compiled(testing::rules(
      {{"kernel", ""}, {"^q", ""}, {"q/kernel$", ""}, {"", ""}}));
  Found found;
  matcher.find("q/kernel", found);
  CHECK(found == Found{0, 1, 2, 3});
  matcher.find("x", found);
  CHECK(found == Found{3});
}

TEST_CASE("patterns that would take long to compile together are refused") {
  std::vector<testing::PatternAndSpec> entries;
  for (char c = 'a'; c <= 'z'; ++c) {
    entries.push_back({c + ("(" + std::string(200, 'x') + "){1000}"), ""});
  }
  Diagnostics diags;
  CHECK_FALSE(Matcher::compile(testing::rules(entries), true, diags));
  CHECK(diags.all().back().labels.back().text ==
        "the patterns are too large together");
}

TEST_CASE("find is the loop over the rules") {
  CHECK(holds([] {
    std::vector<testing::PatternAndSpec> entries;
    const auto count = draw_in(0, 8);
    for (int i = 0; i < count; ++i) {
      entries.push_back(
          {draw_of<std::string>({"a", "b$", "^a", "a.b", ".*", "", "(a|b)+/",
                                 "[0-9]", "a{2}", "/b", "^$", "ab?"}),
           ""});
    }
    Diagnostics diags;
    const auto matcher = Matcher::compile(testing::rules(entries), true, diags);
    ENSURE(matcher.has_value());
    const auto name = draw_text("ab/0");
    Found one;
    Found other;
    matcher->find(name, one);
    matcher->find_one_by_one(name, other);
    ENSURE(one == other);
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
  CHECK(matches.rules[0].matched == 3);
  CHECK(matches.rules[0].decided == 2);
  CHECK(matches.rules[1].matched == 1);
  CHECK(matches.rules[1].decided == 0);
  CHECK(matches.rules[1].winners == Found{0});
  // Found in a name that nobody may decide.
  CHECK(matches.rules[2].matched == 1);
  CHECK(matches.rules[2].winners.empty());
  CHECK(matches.rules[3].matched == 0);
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
      CHECK(many.rules[r].matched == one.rules[r].matched);
      CHECK(many.rules[r].decided == one.rules[r].decided);
      CHECK(many.rules[r].winners == one.rules[r].winners);
    }
  }
}

// A mixture of experts: few classes of names, many numbers.
Manifest numbered_names(int layers, int experts) {
  Manifest manifest;
  const auto add = [&](const std::string& name, Shape shape) {
    REQUIRE(manifest.add(name, {DType::F32, std::move(shape)}, {}));
  };
  for (int layer = 0; layer < layers; ++layer) {
    const std::string at = "layers." + std::to_string(layer);
    add(at + ".norm.scale", {});
    add(at + ".conv1.w", {4});
    for (int expert = 0; expert < experts; ++expert) {
      const std::string in = at + ".experts." + std::to_string(expert);
      add(in + ".up.w", {4, 4});
      add(in + ".down.w", {4, 4});
    }
  }
  return manifest;
}

bool is_same(const Matches& a, const Matches& b) {
  bool same = a.winner == b.winner && a.rules.size() == b.rules.size();
  for (size_t i = 0; same && i < a.rules.size(); ++i) {
    same = a.rules[i].matched == b.rules[i].matched &&
           a.rules[i].decided == b.rules[i].decided &&
           a.rules[i].winners == b.rules[i].winners;
  }
  return same;
}

TEST_CASE("one name of a group is searched for all of them") {
  const Manifest manifest = numbered_names(30, 20);
  const auto not_scalar = [&](size_t i) {
    return !manifest.type(i).shape.empty();
  };
  int grouped = 0;
  CHECK(holds([&] {
    std::vector<testing::PatternAndSpec> entries;
    const auto count = draw_in(1, 8);
    for (int i = 0; i < count; ++i) {
      const std::string number = std::to_string(draw_in(0, 29));
      entries.push_back(
          {draw_of<std::string>({R"(layers\.)" + number + R"(\.experts)",
                                 R"(experts\.)" + number + R"(\.up)",
                                 R"(\.)" + number + R"(\.)",
                                 R"(experts\.\d+\.down)", "conv1", "norm",
                                 R"((layers|experts)\.(1|)" + number + R"()\.)",
                                 ".*", "x", R"(\.)" + number + "$"}),
           ""});
    }
    if (draw_in(0, 4) == 0) entries.push_back({R"(layers\.1)", ""});
    const Matcher matcher = compiled(testing::rules(entries));
    if (matcher.groups_of(manifest)) ++grouped;
    const Matches slow = match_every_name(matcher, manifest, not_scalar, 1);
    ENSURE(is_same(match(matcher, manifest, not_scalar, 1), slow));
    ENSURE(is_same(match(matcher, manifest, not_scalar, 3), slow));
  }));
  CHECK(grouped > 20);
}

TEST_CASE("names are searched one by one where nothing is gained or proved") {
  const auto is_grouped = [](const std::string& pattern,
                             const Manifest& manifest, bool plain) {
    Diagnostics diags;
    const auto matcher =
        Matcher::compile(testing::rules({{pattern, ""}}), plain, diags);
    return matcher->groups_of(manifest).has_value();
  };
  CHECK(is_grouped("up", numbered_names(10, 10), true));
  CHECK_FALSE(is_grouped("up", numbered_names(1, 10), true));
  CHECK_FALSE(is_grouped("up", numbered_names(10, 10), false));
  CHECK_FALSE(is_grouped(R"(layers\.1)", numbered_names(10, 10), true));
  Manifest unlike;
  for (int i = 0; i < 500; ++i) {
    REQUIRE(unlike.add("w" + std::to_string(i), {DType::F32, {2}}, {}));
  }
  CHECK_FALSE(is_grouped("w", unlike, true));
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
        "SP108 warning rules:1:1 `\\b` matches ASCII only, but some names are "
        "not ASCII");
}

TEST_CASE("a catch-all is found in any name whatever") {
  for (const char* pattern :
       {".*", ".", "", "^.+$", "(a|.*)", "^", "$", ".*$", "\\A.*\\Z", "\\S+",
        "^(.*)$", "(?i)[a-z]|[^A-Z]", "^.$|^..+$", "x*", "\\w|\\W", "^[^/]|^/",
        "[^ ]$"}) {
    CAPTURE(pattern);
    CHECK(is_catch_all(pattern));
  }
  for (const char* pattern :
       {"a",           ".*kernel",  "[^a-z]",    "\\W",          "/",   "~",
        "(",           "[^/]",      "[^-]+$",    "^$",           "..",  "^.$",
        "^(..)*$|^.$", "^.{1,60}$", "^[^/]+$",   "^.*[^.]$|^.$", "\\b", "\\B",
        "^.{1,900}$",  "[^@]",      "^.*[^+].*$"}) {
    CAPTURE(pattern);
    CHECK_FALSE(is_catch_all(pattern));
  }
}

std::string any_printable_name() {
  std::string name(1, draw_in('!', '\x7f'));
  for (const char c : draw_list([] { return draw_in('!', '\x7f'); })) name += c;
  return name;
}

// Patterns of few pieces, of which many are found in any name.
std::string wide_pattern() {
  std::string pattern;
  const auto pieces = draw_in(0, 4);
  for (int i = 0; i < pieces; ++i) {
    pattern += draw_of<std::string>(
        {".*", ".", ".+", "^", "$", "a?", "[^a]", "a", "|", "(.|a)", "[!-~]*",
         "\\w*", "(^.|b)", "[^/]*", "\\b", "(a|.*)", ".{2}", "\\S", "/?"});
  }
  return pattern;
}

TEST_CASE("a catch-all is found in random names, and what is none misses one") {
  int catch_alls = 0;
  CHECK(holds([&] {
    const std::string pattern = wide_pattern();
    Diagnostics diags;
    const auto matcher =
        Matcher::compile(testing::rules({{pattern, ""}}), true, diags);
    if (!matcher) return;  // `a|?` is not a pattern
    Found found;
    if (is_catch_all(pattern)) {
      ++catch_alls;
      for (int i = 0; i < 20; ++i) {
        matcher->find_one_by_one(any_printable_name(), found);
        ENSURE(found.size() == 1U);
      }
      return;
    }
    // None of these patterns needs a longer name than this to miss it.
    const std::string some = "a!~b/";
    bool misses = false;
    for (char c = '!'; c <= '~'; ++c) {
      matcher->find_one_by_one(std::string(1, c), found);
      misses = misses || found.empty();
    }
    for (const char a : some) {
      for (const char b : some) {
        for (const char c : some) {
          for (const std::string& name :
               {std::string{a, b}, std::string{a, b, c},
                std::string{a, b, c, a, b, c, a}}) {
            matcher->find_one_by_one(name, found);
            misses = misses || found.empty();
          }
        }
      }
    }
    ENSURE(misses);
  }));
  CHECK(catch_alls > 10);
}

// Words in any order, so that an automaton of many gaps finds no state again.
Manifest unlike_names(size_t count) {
  Manifest manifest;
  uint32_t state = 1;
  while (manifest.size() < count) {
    std::string name = std::to_string(manifest.size());
    for (int i = 0; i < 20; ++i) {
      state = state * 1664525U + 1013904223U;
      name += "0123456789abcdef"[state >> 28U];
    }
    REQUIRE(manifest.add(name, {DType::F32, {2}}, {}));
  }
  return manifest;
}

TEST_CASE("which way is taken follows from the input, and alters no answer") {
  std::vector<testing::PatternAndSpec> gaps;
  std::vector<testing::PatternAndSpec> plain;
  const std::string digits = "0123456789abcdef";
  for (size_t i = 0; i < 100; ++i) {
    const std::string a = {digits[i % 16], digits[i / 16]};
    gaps.push_back({".*" + a + ".*" + std::string(a.rbegin(), a.rend()), ""});
    plain.push_back({"layers/" + a + "/w", ""});
  }
  const Manifest manifest = unlike_names(3000);
  for (const auto& entries : {gaps, plain}) {
    const Matcher matcher = compiled(testing::rules(entries));
    const Matches matches = match(
        matcher, manifest, [](size_t) { return true; }, 2);
    Found found;
    for (size_t i = 0; i < manifest.size(); i += 100) {
      matcher.find_one_by_one(manifest.name(i), found);
      CHECK(matches.winner[i] == (found.empty() ? -1 : found.front()));
    }
  }
}

// What a loop over rules and names says.
Matches by_loop(const Matcher& matcher, const Manifest& manifest) {
  FoundSets found;
  for (size_t i = 0; i < manifest.size(); ++i) {
    matcher.find_one_by_one(manifest.name(i), found.sets.emplace_back());
    found.of.push_back(static_cast<uint32_t>(i));
  }
  return matches_of(found, matcher.rules(), [](size_t) { return true; });
}

TEST_CASE("rules that are found in everything, and equal ones, are counted") {
  std::vector<testing::PatternAndSpec> entries;
  for (size_t i = 0; i < 300; ++i) {
    entries.push_back(
        {i % 3 == 0 ? "[0-9]" : "[0-9]*(x|)" + std::to_string(i % 7) + "*$",
         ""});
  }
  const Manifest manifest = unlike_names(300);
  const Matcher matcher = compiled(testing::rules(entries));
  const auto found = matcher.find_sets(manifest, 2);
  REQUIRE(found.has_value());
  CHECK(found->sets.size() == 1);
  const Matches matches =
      matches_of(*found, matcher.rules(), [](size_t) { return true; });
  CHECK(is_same(matches, by_loop(matcher, manifest)));
  CHECK(matches.rules[0].decided == 300);
  CHECK(matches.rules[3].matched == 300);
  CHECK(matches.rules[3].winners == std::vector<int>{0});
}

TEST_CASE("where one automaton grows, a part follows the other") {
  CHECK(holds([] {
    std::vector<testing::PatternAndSpec> entries;
    const auto count = draw_in(60, 200);
    const auto digit = [] {
      return std::string(1, "0123456789abcdef"[draw_in(0, 15)]);
    };
    for (int i = 0; i < count; ++i) {
      const std::string a = digit();
      entries.push_back(
          {draw_of<std::string>({".*" + a + ".*" + digit(), a + "$", "^.?" + a,
                                 digit() + digit() + digit()}),
           ""});
    }
    const Manifest manifest =
        unlike_names(static_cast<size_t>(draw_in(1, 200)));
    const Matcher matcher = compiled(testing::rules(entries));
    const Matches loop = by_loop(matcher, manifest);
    const auto all = [](size_t) { return true; };
    ENSURE(is_same(match_every_name(matcher, manifest, all, 1), loop));
    ENSURE(is_same(match_every_name(matcher, manifest, all, 3), loop));
  }));
}

TEST_CASE("a search that would take minutes is refused") {
  if (!kCountsAllocations) return;  // a sanitizer counts none
  std::vector<testing::PatternAndSpec> entries;
  for (int i = 0; i < 4000; ++i) {
    entries.push_back({"(a|b)*a(a|b){" + std::to_string(100 + i % 50) + "}c" +
                           std::to_string(i),
                       ""});
  }
  Manifest manifest;
  // No name repeats what another has, so none finds its states made.
  uint32_t drawn = 1;
  for (int i = 0; i < 2500; ++i) {
    std::string name;
    for (int k = 0; k < 200 + i % 20; ++k) {
      drawn = drawn * 1664525U + 1013904223U;
      name += drawn >> 31U == 0 ? 'a' : 'b';
    }
    name += std::to_string(i);
    REQUIRE(manifest.add(name, {DType::F32, {2}}, {}));
  }
  CHECK_FALSE(compiled(testing::rules(entries)).find_sets(manifest, 1));
  // A few of them are searched for.
  entries.resize(2);
  CHECK(compiled(testing::rules(entries)).find_sets(manifest, 1));
}

TEST_CASE("patterns that are costly together are searched for one by one") {
  std::vector<testing::PatternAndSpec> entries;
  for (int i = 0; i < 150; ++i) {
    entries.push_back({"(a|b)*a(a|b){" + std::to_string(100 + i % 50) + "}c?" +
                           std::to_string(i) + (i % 3 == 0 ? "$" : ""),
                       ""});
  }
  Manifest manifest;
  for (int i = 0; i < 40; ++i) {
    std::string name;
    for (int k = 0; k < 100 + i; ++k) name += "ab";
    name += (i % 2 == 0 ? "c" : "") + std::to_string(i);
    for (int k = 0; k < i % 4 * 10; ++k) name += "ab";
    REQUIRE(manifest.add(name, {DType::F32, {2}}, {}));
  }
  const Matcher matcher = compiled(testing::rules(entries));
  const Matches loop = by_loop(matcher, manifest);
  const auto all = [](size_t) { return true; };
  CHECK(loop.rules[5].matched > 0);
  CHECK(is_same(match_every_name(matcher, manifest, all, 1), loop));
  CHECK(is_same(match_every_name(matcher, manifest, all, 3), loop));
}

TEST_CASE("long names in which automata grow at every letter are refused") {
  if (!kCountsAllocations) return;
  std::vector<testing::PatternAndSpec> entries;
  for (int i = 0; i < 300; ++i) {
    entries.push_back({"^(a|b)*a(a|b){100}" + std::to_string(i) + "$", ""});
  }
  Manifest manifest;
  uint32_t drawn = 1;
  for (int i = 0; i < 10; ++i) {
    std::string name(8000, 'a');
    for (char& letter : name) {
      drawn = drawn * 1664525U + 1013904223U;
      letter = drawn >> 31U == 0 ? 'a' : 'b';
    }
    REQUIRE(manifest.add(name + std::to_string(i), {DType::F32, {2}}, {}));
  }
  CHECK_FALSE(compiled(testing::rules(entries)).find_sets(manifest, 1));
}

TEST_CASE("a program that is too large for a name is not tried") {
  Manifest manifest;
  REQUIRE(manifest.add(std::string(500000, 'a'), {DType::F32, {2}}, {}));
  CHECK(compiled(testing::rules({{"a{100}b", ""}})).find_sets(manifest, 1));
  const char* const large = "(a|b)*a((a|b){900}c|(a|b){901}d|(a|b){902}e)";
  CHECK_FALSE(compiled(testing::rules({{large, ""}})).find_sets(manifest, 1));
}

// The matcher on rules as people write them: hundreds in one set.

using Json = nlohmann::json;
using RuleShapesFound = std::vector<int>;

Json read_json(const std::filesystem::path& path) {
  std::ifstream file(path);
  return Json::parse(file);
}

const Json& own_shapes() {
  static const Json kShapes =
      read_json(source_dir() / "tests/data/patterns/rule_shapes.json");
  return kShapes;
}

Matcher rule_shapes_compiled(const std::vector<std::string>& patterns) {
  RuleSet rules;
  for (const std::string& pattern : patterns) {
    rules.rules.emplace_back().pattern = pattern;
  }
  Diagnostics diags;
  auto matcher = Matcher::compile(rules, true, diags);
  REQUIRE(matcher.has_value());
  CHECK(diags.all().empty());
  return *std::move(matcher);
}

std::vector<std::string> own_patterns() {
  std::vector<std::string> patterns;
  for (const Json& row : own_shapes().at("patterns")) {
    patterns.push_back(row.at("pattern"));
  }
  return patterns;
}

// Pieces of the names, put together anew.
std::string any_name() {
  static const std::vector<std::string> kPieces = [] {
    std::vector<std::string> pieces = {"", "0", "11", "layernorm", "experts"};
    for (const Json& name : own_shapes().at("names")) {
      const auto text = name.get<std::string>();
      size_t begin = 0;
      for (size_t i = 0; i <= text.size(); ++i) {
        if (i < text.size() && text[i] != '/' && text[i] != '.') continue;
        pieces.push_back(text.substr(begin, i - begin));
        begin = i + 1;
      }
    }
    return pieces;
  }();
  const auto separator = draw_of<std::string>({"/", "/", ".", "_"});
  std::string name;
  for (const std::string& piece : draw_list([] { return draw_of(kPieces); })) {
    name += (name.empty() ? "" : separator) + piece;
  }
  return name;
}

// What both ways find in a name; they must agree.
RuleShapesFound found_in(const Matcher& matcher, const std::string& name) {
  RuleShapesFound found;
  RuleShapesFound one_by_one;
  matcher.find(name, found);
  matcher.find_one_by_one(name, one_by_one);
  CHECK_MESSAGE(found == one_by_one, name);
  return found;
}

TEST_CASE("hundreds of rules find in a name what Python finds, one by one") {
  const Matcher matcher = rule_shapes_compiled(own_patterns());
  CHECK(matcher.rules() > 300);
  const Json& names = own_shapes().at("names");
  for (size_t i = 0; i < names.size(); ++i) {
    const auto name = names[i].get<std::string>();
    CAPTURE(name);
    RuleShapesFound expected;
    const Json& rows = own_shapes().at("patterns");
    for (size_t rule = 0; rule < rows.size(); ++rule) {
      const auto found = rows[rule].at("found").get<std::string>();
      if (found[i] == '1') expected.push_back(static_cast<int>(rule));
    }
    CHECK(found_in(matcher, name) == expected);
  }
}

TEST_CASE("hundreds of rules are searched as a loop over them would") {
  const Matcher matcher = rule_shapes_compiled(own_patterns());
  CHECK(holds([&] {
    const std::string name = any_name();
    RuleShapesFound found;
    RuleShapesFound one_by_one;
    matcher.find(name, found);
    matcher.find_one_by_one(name, one_by_one);
    ENSURE(found == one_by_one);
  }));
}

TEST_CASE(
    "the patterns of public projects all compile, and agree with a loop") {
  const auto path = testing::shared_file("data/real-rule-patterns.json");
  if (!path) return;
  const auto patterns = read_json(*path).get<std::vector<std::string>>();
  CHECK(patterns.size() == 1061);
  const Matcher matcher = rule_shapes_compiled(patterns);
  for (const Json& name : own_shapes().at("names")) found_in(matcher, name);
  // Each literal is found in itself.
  for (size_t i = 0; i < patterns.size(); ++i) {
    if (patterns[i].find_first_of("\\.*()|[]?+^$") != std::string::npos) {
      continue;
    }
    const RuleShapesFound found = found_in(matcher, patterns[i]);
    CHECK(std::count(found.begin(), found.end(), static_cast<int>(i)) == 1);
  }
}

}  // namespace

}  // namespace shardplan
