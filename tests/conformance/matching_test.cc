// SPDX-License-Identifier: Apache-2.0
#include <string>

#include <doctest/doctest.h>

#include "conformance/vector_case.h"
#include "tests/conformance/cases.h"

namespace shardplan::conformance {
namespace {

constexpr const char* kPattern = "create_pattern_based_partition_spec";

std::string on_names(const char* pattern, const char* names,
                     const char* expected) {
  const Json inputs = {{"pattern", pattern},
                       {"names", Json::parse(names)},
                       {"default_spec", Json::array({"d"})},
                       {"mesh_given", true}};
  const Json answer = {{"expected", Json::parse(expected)}};
  return outcome(kPattern, inputs.dump().c_str(), answer.dump().c_str());
}

TEST_CASE("a broken rule is noticed by the names that reach it") {
  CHECK(on_names("ok->x,(a->y", R"(["ok", "b"])", R"json(
    {"rules": [["ok", ["x"]], ["(a", ["y"]]],
     "result": {"ok": ["x"],
                "b": {"error": {"type": "error", "message": "missing"}}}}
    )json") == "passed");
  CHECK(on_names("ok->x", R"(["b"])", R"json(
    {"rules": [["ok", ["x"]]], "result": {"b": ["d"]}}
    )json") == "passed");
}

TEST_CASE("a rule with a look-ahead deviates: the names that reach it fail") {
  CHECK(on_names("ok->x,^(?!b)->y", R"(["ok", "w", "b"])", R"json(
    {"rules": [["ok", ["x"]], ["^(?!b)", ["y"]]],
     "result": {"ok": ["x"], "w": ["y"], "b": ["d"]}}
    )json") == "deviates");
}

TEST_CASE("two arrows and a missing mesh are refused") {
  CHECK(outcome(kPattern, R"json(
    {"pattern": "a->b->c", "names": [], "default_spec": null})json",
                R"json(
    {"error": {"type": "ValueError",
               "message": "too many values to unpack (expected 2)"}})json") ==
        "passed");
  CHECK(outcome(kPattern, R"json(
    {"pattern": "a->b", "names": [], "default_spec": null,
     "mesh_given": false})json",
                R"json(
    {"error": {"type": "AssertionError",
               "message": "No mesh found under this context manager."}})json") ==
        "passed");
}

Answer matched(const char* rules, const char* min_size, bool strict = true) {
  return match_partition_rules(
      {{"rules", Json::parse(rules)},
       {"tree",
        {{"w", {{"$shape", {4, 4}}}}, {"s", {{"$shape", Json::array()}}}}},
       {"min_size", Json::parse(min_size)},
       {"strict", strict}});
}

TEST_CASE("the size limit is left out, a number, a fraction or the default") {
  const char* rules = R"([["w", ["tp", null, "x"]]])";
  const Json cut = Json::parse(R"([["s", []], ["w", ["tp", null]]])");
  const Json small = Json::parse(R"([["s", []], ["w", []]])");
  CHECK(matched(rules, R"("default")").value == cut);
  CHECK(matched(rules, "16").value == cut);
  CHECK(matched(rules, "16.5").value == small);
  CHECK(matched(rules, "null").value == small);
}

TEST_CASE("an unmatched leaf is refused by name, as eformer does") {
  const Json error = {{"type", "ValueError"},
                      {"message", "Partition rule not found for param: s"}};
  const Answer answer = matched(R"([["w", []]])", "0", false);
  CHECK(is_same_match_error(answer, error));
  const Json other = {{"type", "ValueError"},
                      {"message", "Partition rule not found for param: w"}};
  CHECK_FALSE(is_same_match_error(answer, other));
}

TEST_CASE("broken patterns and missing specs are refused") {
  CHECK(matched(R"([["(", []]])", "0").refused == Code::UnsupportedPattern);
  CHECK(matched(R"([["w", null]])", "0").refused == Code::MalformedDocument);
}

}  // namespace

}  // namespace shardplan::conformance
