// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "tests/conformance/cases.h"

namespace shardplan::conformance {
namespace {

TEST_CASE("sizes are asked by one name, several or none") {
  const char* size = "get_axes_size_in_mesh";
  const auto asked = [&](const std::string& names, const char* answer) {
    return outcome(
        size, (R"({"mesh": "dp=2,tp=4", "axis_names": )" + names + "}").c_str(),
        answer);
  };
  CHECK(asked(R"("tp")", R"({"expected": 4})") == "passed");
  CHECK(asked(R"({"$tuple": ["tp", "dp", "dp"]})", R"({"expected": 16})") ==
        "passed");
  CHECK(asked(R"(["tp", "zz"])",
              R"({"error": {"type": "KeyError", "message": "'zz'"}})") ==
        "passed");
  CHECK(asked(R"([null])",
              R"({"error": {"type": "KeyError", "message": "None"}})") ==
        "passed");
  CHECK(asked("7", R"({"error": {"type": "TypeError", "message":
                       "axis_names must be str or Sequence[str]"}})") ==
        "passed");
}

TEST_CASE("a mesh with an axis of size 0 is none") {
  CHECK(outcome("get_axes_size_in_mesh",
                R"({"axis_names": "tp",
                    "mesh": {"axis_names": ["tp"], "shape": [0]}})",
                R"({"error": {"type": "AssertionError", "message":
                    "No mesh found"}})") == "passed");
  CHECK(outcome("with_sharding_constraint",
                R"({"shape": [8], "spec": ["tp"],
                    "mesh": {"axis_names": ["tp"], "shape": [0]}})",
                R"({"expected": {"applied": null}})") == "deviates");
}

TEST_CASE("names are collected from anything but markers") {
  const char* names = "get_names_from_partition_spec";
  CHECK(outcome(names, R"({"specs": {"a": "dp", "b": [["tp", "dp"], null]}})",
                R"({"expected": ["dp", "tp"]})") == "passed");
  CHECK(outcome(names, R"({"str": "é1"})", R"({"expected": ["1", "é"]})") ==
        "passed");
  for (const char* inputs :
       {R"({"spec": null})", R"({"spec": [{"$unconstrained": true}]})",
        R"({"spec": [1]})"}) {
    CHECK(outcome(names, inputs, R"({"error": {"type": "TypeError",
                                    "message": "not iterable"}})") == "passed");
  }
}

TEST_CASE("a tree whose spec repeats an axis is refused, not left alone") {
  CHECK(outcome("with_sharding_constraint",
                R"({"tree": {"a": [8, 8]}, "spec": ["tp", "tp"],
                    "mesh": "tp=2"})",
                R"({"expected": {"applied_in_traversal_order": [],
                                 "non_arrays_untouched": true}})") ==
        "deviates");
}

}  // namespace
}  // namespace shardplan::conformance
