// SPDX-License-Identifier: Apache-2.0
#include <string>

#include <doctest/doctest.h>

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

}  // namespace
}  // namespace shardplan::conformance
