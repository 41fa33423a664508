// SPDX-License-Identifier: Apache-2.0
#include "advise/name_pattern.h"

#include <set>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <rapidcheck.h>

#include "core/fold.h"
#include "resolve/match.h"
#include "tests/support/builders.h"

namespace shardplan {
namespace {

using Names = std::vector<std::string_view>;

std::string pattern(const Names& targets, const Names& others) {
  return pattern_for(targets, others).value_or("none");
}

TEST_CASE("the shortest ending of at least two components is taken") {
  CHECK(pattern({"norm"}, {}) == "norm$");
  CHECK(pattern({"layers/*/mlp/up"}, {}) == "mlp/up$");
  CHECK(pattern({"layers/*/mlp/up"}, {"head/mlp/up"}) ==
        "layers/[0-9]+/mlp/up$");
  CHECK(pattern({"layers.*.up"}, {}) == R"(layers\.[0-9]+\.up$)");
  CHECK(pattern({"mlp/up"}, {"layers/mlp/up"}) == "^mlp/up$");
}

TEST_CASE("several names share an ending, or differ in one component") {
  CHECK(pattern({"a/mlp/up", "b/mlp/up"}, {"c/x"}) == "mlp/up$");
  CHECK(pattern({"l/*/k_proj/kernel", "l/*/v_proj/kernel"},
                {"l/*/q_proj/kernel"}) == "(k_proj|v_proj)/kernel$");
  CHECK(pattern({"l/*/up/w", "l/*/up/b"}, {"l/*/up/s"}) == "up/(w|b)$");
  CHECK(pattern({"a/b", "c/d"}, {"a/d"}) == "none");
  CHECK(pattern({}, {}) == "none");
}

TEST_CASE("a pattern is found in its targets and in nothing else") {
  CHECK(rc::check("pattern_for tells names apart as a search does", [] {
    std::set<std::string> names;
    for (int i = 0; i < 8; ++i) {
      std::string name;
      const auto parts = *rc::gen::inRange(1, 5);
      for (int k = 0; k < parts; ++k) {
        name += (k > 0 ? *rc::gen::element<std::string>("/", ".") : "") +
                *rc::gen::element<std::string>("a", "b", "ab", "7", "w1", "x+");
      }
      names.insert(name);
    }
    Names targets;
    Names others;
    std::set<std::string> folded;
    for (const std::string& name : names) folded.insert(folded_name(name));
    for (const std::string& name : folded) {
      (*rc::gen::inRange(0, 4) == 0 ? targets : others).push_back(name);
    }
    const auto found = pattern_for(targets, others);
    if (!found) return;
    Diagnostics diags;
    const auto matcher =
        Matcher::compile(testing::rules({{*found, ""}}), true, diags);
    RC_ASSERT(matcher.has_value());
    for (const std::string& name : names) {
      std::vector<int> rules;
      matcher->find(name, rules);
      const std::string own = folded_name(name);
      const bool wanted =
          std::find(targets.begin(), targets.end(), own) != targets.end();
      RC_LOG() << *found << " in " << name;
      RC_ASSERT(wanted == !rules.empty());
    }
  }));
}

}  // namespace
}  // namespace shardplan
