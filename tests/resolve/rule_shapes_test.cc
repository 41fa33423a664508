// SPDX-License-Identifier: Apache-2.0
// The matcher on rules as people write them: hundreds in one set.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>
#include <rapidcheck.h>

#include "resolve/match.h"
#include "tests/support/builders.h"
#include "tests/support/shared_dir.h"

namespace shardplan {
namespace {

using Json = nlohmann::json;
using Found = std::vector<int>;

Json read_json(const std::filesystem::path& path) {
  std::ifstream file(path);
  return Json::parse(file);
}

const Json& own_shapes() {
  static const Json kShapes =
      read_json(source_dir() / "tests/data/patterns/rule_shapes.json");
  return kShapes;
}

Matcher compiled(const std::vector<std::string>& patterns) {
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
  const auto separator = *rc::gen::element<std::string>("/", "/", ".", "_");
  std::string name;
  for (const std::string& piece : *rc::gen::container<std::vector<std::string>>(
           rc::gen::elementOf(kPieces))) {
    name += (name.empty() ? "" : separator) + piece;
  }
  return name;
}

// What both ways find in a name; they must agree.
Found found_in(const Matcher& matcher, const std::string& name) {
  Found found;
  Found one_by_one;
  matcher.find(name, found);
  matcher.find_one_by_one(name, one_by_one);
  CHECK_MESSAGE(found == one_by_one, name);
  return found;
}

TEST_CASE("hundreds of rules find in a name what Python finds, one by one") {
  const Matcher matcher = compiled(own_patterns());
  CHECK(matcher.rules() > 300);
  const Json& names = own_shapes().at("names");
  for (size_t i = 0; i < names.size(); ++i) {
    const auto name = names[i].get<std::string>();
    CAPTURE(name);
    Found expected;
    const Json& rows = own_shapes().at("patterns");
    for (size_t rule = 0; rule < rows.size(); ++rule) {
      const auto found = rows[rule].at("found").get<std::string>();
      if (found[i] == '1') expected.push_back(static_cast<int>(rule));
    }
    CHECK(found_in(matcher, name) == expected);
  }
}

TEST_CASE("hundreds of rules are searched as a loop over them would") {
  const Matcher matcher = compiled(own_patterns());
  CHECK(rc::check([&] {
    const std::string name = any_name();
    Found found;
    Found one_by_one;
    matcher.find(name, found);
    matcher.find_one_by_one(name, one_by_one);
    RC_ASSERT(found == one_by_one);
  }));
}

TEST_CASE(
    "the patterns of public projects all compile, and agree with a loop") {
  const auto path = testing::shared_file("data/real-rule-patterns.json");
  if (!path) {
    MESSAGE("SKIPPED: no real-rule-patterns.json; set SHARDPLAN_SHARED");
    return;
  }
  const auto patterns = read_json(*path).get<std::vector<std::string>>();
  CHECK(patterns.size() == 1061);
  const Matcher matcher = compiled(patterns);
  for (const Json& name : own_shapes().at("names")) found_in(matcher, name);
  // Each literal is found in itself.
  for (size_t i = 0; i < patterns.size(); ++i) {
    if (patterns[i].find_first_of("\\.*()|[]?+^$") != std::string::npos) {
      continue;
    }
    const Found found = found_in(matcher, patterns[i]);
    CHECK(std::count(found.begin(), found.end(), static_cast<int>(i)) == 1);
  }
}

}  // namespace
}  // namespace shardplan
