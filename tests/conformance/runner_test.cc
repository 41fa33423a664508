// SPDX-License-Identifier: Apache-2.0

#include "tests/conformance/runner/runner.h"

#include <limits>
#include <set>
#include <string>

#include <doctest/doctest.h>

#include "tests/conformance/runner/vector_case.h"
#include "tests/support/memory_host.h"

namespace shardplan::conformance {
namespace {

std::string names(const char* tree) {
  Diagnostics diags;
  const auto manifest = decode_tree(Json::parse(tree), diags);
  if (!manifest) return "refused " + code_id(diags.all().front().code);
  std::string text;
  for (size_t i = 0; i < manifest->size(); ++i) {
    text += std::string(manifest->name(i)) +
            shape_text(manifest->type(i).shape) + " ";
  }
  return text;
}

TEST_CASE("a tree is walked with sorted keys, lists by position") {
  CHECK(names(R"({"b": {"$shape": [1]}, "a-b": {"$shape": [2]},
                  "a": {"z": {"$shape": [3]}, "n": null}})") ==
        "a/z[3] a-b[2] b[1] ");
  CHECK(names(R"({"l": {"$tuple": [[{"$shape": [1]}], {"$shape": [2]}]}})") ==
        "l/0/0[1] l/1[2] ");
}

TEST_CASE("what has no shape is a scalar, and a bare array has no name") {
  CHECK(names(R"({"step": 3, "name": {"$shape": [4]}})") == "name[4] step[] ");
  CHECK(names(R"({"$shape": [5]})") == "[5] ");
  CHECK(names("{}").empty());
}

TEST_CASE("every function is there once, with an answer and kinds of errors") {
  std::set<std::string> names;
  for (const Function& function : functions()) {
    CAPTURE(function.name);
    CHECK(names.insert(std::string(function.name)).second);
    const bool is_whole =
        function.answer != nullptr && function.same_kind != nullptr;
    CHECK(is_whole);
  }
  for (const char* name :
       {"match_partition_rules", "flax.logical_to_mesh_axes",
        "PartitionManager.resolve", "create_pattern_based_partition_spec",
        "get_matmul_output_sharding", "auto_partition_spec", "create_mesh",
        "get_safe_hash_int", "async_scatter_split", "split_array_over_mesh"}) {
    CHECK_MESSAGE(names.count(name) == 1, name);
  }
}

TEST_CASE("every deviation is of a function that is there") {
  for (const Deviation& deviation : deviations()) {
    bool found = false;
    for (const Function& function : functions()) {
      found = found || function.name == deviation.function;
    }
    CHECK_MESSAGE(found, deviation.function);
  }
}

constexpr const char* kRight = R"({"id": "a", "function": "shard_layout",
  "inputs": {"shape": [], "spec": [], "mesh": "tp=1"},
  "expected": {"shard_shape": [], "num_distinct_shards": 1, "replication": 1,
               "shard_index[device]": [[]], "slices[device]": [[]]}})";
constexpr const char* kWrong = R"({"id": "b", "function": "shard_layout",
  "inputs": {"shape": [], "spec": [], "mesh": "tp=1"}, "expected": 3})";
constexpr const char* kUnknown = R"({"id": "c", "function": "nothing",
  "inputs": {}, "expected": 3})";
constexpr const char* kBroken = R"({"id": "d", "function": "shard_layout"})";
// The original has no answer of ours to compare: a deviation.
constexpr const char* kOther = R"({"id": "e",
  "function": "with_sharding_constraint",
  "inputs": {"shape": [2], "spec": ["tp"], "mesh": null},
  "expected": {"applied": null}})";

int run_on(const std::string& cases, testing::MemoryHost& host) {
  host.files["v.json"] = "[" + cases + "]";
  return run({"v.json"}, host);
}

TEST_CASE("cases pass, fail or deviate, and the last line counts") {
  testing::MemoryHost host;
  CHECK(run_on(std::string(kRight) + "," + kOther, host) == 0);
  CHECK(host.out ==
        "function passed failed deviates\n"
        "shard_layout 1 0 0\n"
        "with_sharding_constraint 0 0 1\n"
        "1 passed, 0 failed\n");
}

TEST_CASE("a wrong answer, an unknown function and a broken case have failed") {
  for (const char* bad : {kWrong, kUnknown, kBroken}) {
    CAPTURE(bad);
    testing::MemoryHost host;
    CHECK(run_on(std::string(kRight) + "," + bad, host) == 1);
    CHECK(host.out.find("1 passed, 1 failed\n") != std::string::npos);
  }
  testing::MemoryHost host;
  run_on(kWrong, host);
  CHECK(host.out.find("b\n  expected 3\n  got {") != std::string::npos);
}

TEST_CASE("a newer upstream's answer is the one that counts") {
  Json test = Json::parse(kWrong);
  test["expected_head"] = Json::parse(kRight).at("expected");
  testing::MemoryHost host;
  CHECK(run_on(test.dump(), host) == 0);
}

TEST_CASE("what is not a list of cases cannot be run") {
  testing::MemoryHost host;
  host.files["v.json"] = "{}";
  CHECK(run({"v.json"}, host) == 2);
  CHECK(run({"absent.json"}, host) == 2);
  CHECK(run({}, host) == 2);
  CHECK(host.out.empty());
}

TEST_CASE("specs are canonicalised as jax does") {
  struct Row {
    const char* spec;
    const char* canonical;
  };
  const Row rows[] = {
      {R"([])", R"([])"},
      {R"([null, "tp"])", R"([null, "tp"])"},
      {R"([["tp"], ["a", "b"]])", R"(["tp", ["a", "b"]])"},
      {R"(["", [], [null]])", R"([null, null, null])"},
      {R"([["dp", null]])", R"([["dp", ""]])"},
      {R"([[""]])", R"([""])"},
      {R"([{"$unconstrained": true}])", R"([{"$unconstrained": true}])"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.spec);
    CHECK(encode_spec(decode_spec(Json::parse(row.spec))) ==
          Json::parse(row.canonical));
  }
}

// A unit of the largest float was infinite, so that it agreed with any number.
TEST_CASE("numbers agree within four units in the last place of a float") {
  constexpr double kLargest = std::numeric_limits<float>::max();
  CHECK(agree_within_4_ulps(0.5, 0.5));
  CHECK(agree_within_4_ulps(0.5 + 0x1p-22, 0.5));
  CHECK_FALSE(agree_within_4_ulps(0.5 + 0x1p-21, 0.5));
  CHECK_FALSE(agree_within_4_ulps(3, 4));
  CHECK(agree_within_4_ulps(kLargest, kLargest));
  CHECK_FALSE(agree_within_4_ulps(1, kLargest));
  CHECK_FALSE(agree_within_4_ulps(1, 1e39));
  CHECK_FALSE(agree_within_4_ulps(nullptr, 0.5));
}

TEST_CASE("a mesh is names with sizes in a list or an object, or text") {
  Diagnostics diags;
  for (const char* text :
       {R"({"axis_names": ["dp", "tp"], "shape": [2, 4]})",
        R"({"axis_names": ["dp", "tp"], "shape": {"dp": 2, "tp": 4}})",
        R"("dp=2,tp=4")"}) {
    CAPTURE(text);
    const auto mesh = decode_mesh(Json::parse(text), diags);
    REQUIRE(mesh.has_value());
    CHECK(mesh_text(*mesh) == "dp=2,tp=4");
  }
  CHECK_FALSE(decode_mesh(nullptr, diags).has_value());
  CHECK(refusal(diags).refused == Code::InvalidMesh);
}

}  // namespace

}  // namespace shardplan::conformance
