// SPDX-License-Identifier: Apache-2.0
#include "conformance/runner.h"

#include <doctest/doctest.h>

#include "tests/support/memory_host.h"

namespace shardplan::conformance {
namespace {

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

TEST_CASE("what is no list of cases cannot be run") {
  testing::MemoryHost host;
  host.files["v.json"] = "{}";
  CHECK(run({"v.json"}, host) == 2);
  CHECK(run({"absent.json"}, host) == 2);
  CHECK(run({}, host) == 2);
  CHECK(host.out.empty());
}

}  // namespace
}  // namespace shardplan::conformance
