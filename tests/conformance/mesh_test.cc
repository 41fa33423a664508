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

constexpr const char* kSpec = "PartitionAxis.resolve_spec";
constexpr const char* kManager = "PartitionManager.resolve";

TEST_CASE(
    "`_` within a list is None, where the original takes it for an axis") {
  CHECK(outcome(kSpec,
                R"({"kwargs": {}, "mode": "__train__",
                    "axes": [{"$list": ["_", "__HEAD__"]}]})",
                R"({"error": {"type": "LookupError", "message":
                              "Attribute '_' not found in PartitionAxis"},
                    "expected_head": [["_", "tp"]]})") == "deviates");
  CHECK(outcome("PartitionAxis.resolve_axis",
                R"({"kwargs": {}, "mode": "__train__",
                    "axes": [{"$list": [null, "__HEAD__"]}]})",
                R"({"error": {"type": "TypeError", "message":
                              "attribute name must be string, not 'NoneType'"},
                    "expected_head": [[null, "tp"]]})") == "passed");
}

TEST_CASE("a value that is not a text is an unknown name") {
  CHECK(outcome(kSpec, R"({"kwargs": {}, "axes": [5], "mode": null})",
                R"({"error": {"type": "ValueError", "message":
                              "Unknown semantic axis name: '5'"}})") ==
        "passed");
}

TEST_CASE("None and tuples among the fields stay what they are") {
  CHECK(outcome(kSpec,
                R"({"kwargs": {"data_parallel_axis": null, "head_axis": [],
                               "decode_kv_head_axis": []},
                    "axes": ["__BATCH__", "__HEAD__", "__KV_HEAD__"],
                    "mode": "__autoregressive__"})",
                R"({"expected": [["fsdp", null], null, null]})") == "passed");
}

TEST_CASE("a manager takes axes and mode from one place") {
  const char* missing = R"({"error": {"type": "ValueError", "message":
      "if axes or mode is empty you should provide dynamic axes"}})";
  CHECK(outcome(kManager, R"({"axes": ["__HEAD__"]})", missing) == "passed");
  CHECK(outcome(kManager, R"({"axes": ["__HEAD__"], "dynamic_instance": null})",
                R"({"error": {"type": "AttributeError", "message":
                    "'NoneType' object has no attribute 'axes'"}})") ==
        "passed");
  CHECK(outcome(kManager, R"({"axes": ["__HEAD__"], "mode": 1, "shape": [1]})",
                R"({"error": {"type": "IndexError", "message":
                    "list index out of range"}})") == "passed");
  CHECK(outcome(kManager, R"({"axes": ["__HEAD__"], "mode": -1, "shape": [1],
                              "kwargs": {"decode_head_axis": "x"}})",
                R"({"expected": ["x"]})") == "passed");
}

TEST_CASE(
    "Axes from two places were taken from the first in every version: later "
    "ones keep the dynamic axes, and an instance may have a mode beside it") {
  const char* both =
      R"({"axes_class": "RowWise", "dynamic_class": "ColumnWise"})";
  CHECK(outcome(kManager, both, R"({"expected": ["tp", ["fsdp", "sp"]],
                                    "expected_head": [["fsdp", "sp"], "tp"]})") ==
        "passed");
  // What was answered before is wrong in one version or the other.
  CHECK(outcome(kManager, both, R"({"expected": ["tp", ["fsdp", "sp"]]})") !=
        "passed");
  const char* instance = R"({"axes_instance": {"axes": ["__BATCH__"],
                             "mode": "__train__"}, "mode": "__train__"})";
  const char* unknown = R"({"error": {"type": "ValueError", "message":
      "Unknown semantic axis name: '__train__'"},
      "expected_head": [["fsdp", "dp"]]})";
  CHECK(outcome(kManager, instance, unknown) == "passed");
  CHECK(outcome(kManager, instance, R"({"error": {"type": "ValueError",
      "message": "if axes or mode is empty you should provide dynamic axes"},
      "expected_head": [["fsdp", "dp"]]})") != "passed");
  CHECK(outcome(kManager,
                R"({"axes_class": "RowWise", "dynamic_class": "ColumnWise",
                    "mode": "__train__"})",
                R"({"expected": ["tp", ["fsdp", "sp"]], "error_head":
                    {"type": "TypeError", "message":
                     "'type' object is not iterable"}})") == "passed");
}

TEST_CASE("a safe hash is of Python's text of a value") {
  const char* hash = "get_safe_hash_int";
  // md5("None")
  CHECK(outcome(hash, R"({"text": null})",
                R"({"expected": "142059132063289656026104991475001407316"})") ==
        "passed");
  CHECK(outcome(hash, R"({"text": "x", "algorithm": "shake_128"})",
                R"({"error": {"type": "Exception", "message":
                    "Error generating hash: digest() missing"}})") == "passed");
  CHECK(outcome(hash, R"({"text": "x", "algorithm": "shake_128"})",
                R"({"error": {"type": "ValueError", "message":
                    "Unsupported hash algorithm: shake_128"}})") != "passed");
}

}  // namespace

}  // namespace shardplan::conformance
