// SPDX-License-Identifier: Apache-2.0

#include <string>

#include <doctest/doctest.h>

#include "tests/conformance/cases.h"
#include "tests/conformance/runner/vector_case.h"

namespace shardplan::conformance {
namespace {

std::string auto_outcome(const char* names, const char* least,
                         const char* answer) {
  const std::string inputs =
      R"({"shape": [8, 8], "mesh": "fsdp=4,tp=2", "reverse": false, "names": )" +
      std::string(names) + R"(, "min_sharding_size": )" + least + "}";
  return outcome("auto_partition_spec", inputs.c_str(), answer);
}

TEST_CASE("sizes may be fractions, and no size is the number of devices") {
  CHECK(auto_outcome("null", "null", R"({"expected": ["fsdp", "tp"]})") ==
        "passed");
  CHECK(auto_outcome("null", "64.5", R"({"expected": []})") == "passed");
}

TEST_CASE("a name that the mesh lacks is refused") {
  CHECK(auto_outcome(R"(["zz"])", "null",
                     R"({"error": {"type": "KeyError", "message": "'zz'"}})") ==
        "passed");
}

TEST_CASE("names that overlap deviate: an axis shards one dimension") {
  CHECK(auto_outcome(R"([["fsdp", "tp"], "tp"])", "1",
                     R"({"expected": [["fsdp", "tp"], "tp"]})") == "deviates");
}

Json inputs(const char* shape, const char* spec) {
  return {{"shape", Json::parse(shape)},
          {"spec", Json::parse(spec)},
          {"mesh", {{"axis_names", {"dp", "tp"}}, {"shape", {2, 4}}}}};
}

TEST_CASE("correction gives the spec and the mesh's names") {
  const Json expected = {{"spec", {nullptr, "tp"}},
                         {"mesh_axis_names", {"dp", "tp"}}};
  CHECK(
      get_corrected_named_sharding(inputs("[3, 8]", R"(["dp", "tp"])")).value ==
      expected);
}

TEST_CASE("an empty spec constrains nothing, a lost one replicates") {
  CHECK(with_sharding_constraint(inputs("[8]", "[]")).value ==
        Json({{"applied", nullptr}}));
  CHECK(with_sharding_constraint(inputs("[3]", R"(["dp"])")).value ==
        Json({{"applied", Json::array()}}));
}

TEST_CASE("a repeated axis is refused as a duplicate, no mesh as none") {
  const Json duplicate = {{"type", "DuplicateSpecError"}, {"message", ""}};
  const Answer answer =
      get_corrected_named_sharding(inputs("[8, 8]", R"(["tp", "tp"])"));
  CHECK(is_same_correction_error(answer, duplicate));
  Json no_mesh = inputs("[8]", "[]");
  no_mesh["mesh"] = nullptr;
  const Answer refused = get_corrected_named_sharding(no_mesh);
  CHECK_FALSE(is_same_correction_error(refused, duplicate));
  CHECK(is_same_correction_error(refused, {{"type", "AssertionError"}}));
}

Answer layout(const char* spec, int64_t size = 6) {
  return shard_layout(
      {{"shape", {size}},
       {"spec", Json::parse(spec)},
       {"mesh", {{"axis_names", {"a", "b"}}, {"shape", {2, 3}}}}});
}

TEST_CASE("the first axis of a dimension is the most significant") {
  const Json ab = layout(R"([["a", "b"]])").value;
  const Json ba = layout(R"([["b", "a"]])").value;
  CHECK(ab.at("shard_shape") == Json({1}));
  CHECK(ab.at("shard_index[device]") == Json({{0}, {1}, {2}, {3}, {4}, {5}}));
  CHECK(ba.at("shard_index[device]") == Json({{0}, {2}, {4}, {1}, {3}, {5}}));
  CHECK(ba.at("slices[device]")[1] == Json::parse("[[2, 3]]"));
}

TEST_CASE("a layout is refused for the reason that jax gives") {
  struct Row {
    const char* spec;
    int64_t size;
    const char* message;
  };
  const Row rows[] = {
      {R"([["a", "b"]])", 8, "should evenly divide the shape"},
      {R"([["a", "c", "a"]])", 8, "has duplicate entries for `a`"},
      {R"(["c"])", 6, "Resource axis: c is not found in mesh"},
      {R"([null, "a"])", 6, "is only valid for values of rank at least 2"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.spec);
    const Answer answer = layout(row.spec, row.size);
    REQUIRE(answer.refused.has_value());
    CHECK(is_same_layout_error(answer, {{"message", row.message}}));
    CHECK_FALSE(is_same_layout_error(answer, {{"message", "another"}}));
  }
}

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
