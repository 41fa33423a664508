// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "tests/conformance/cases.h"

namespace shardplan::conformance {
namespace {

TEST_CASE("None within a tuple is a name like any other") {
  const char* matmul = "get_matmul_output_sharding";
  CHECK(outcome(matmul,
                R"({"lhs_pspec": [["a", null], null], "rhs_pspec": ["b"]})",
                R"({"expected": [["a", null], "b"]})") == "passed");
  CHECK(outcome(matmul,
                R"({"lhs_pspec": [null, ["a", null], null],
                    "rhs_pspec": ["b"]})",
                R"({"expected": [null, "a", "b"]})") == "passed");
}

TEST_CASE("a collective product's axis may be none or several") {
  const char* collective = "get_output_partition_spec";
  CHECK(outcome(collective,
                R"({"lhs_ndim": 2, "lhs_spec": [], "rhs_spec": ["a"],
                    "axis_name": "tp"})",
                R"({"error": {"type": "IndexError", "message":
                    "tuple index out of range"}})") == "passed");
  CHECK(outcome(collective,
                R"({"lhs_ndim": 1, "lhs_spec": [], "rhs_spec": [],
                    "axis_name": ["a", "b"]})",
                R"({"expected": [["a", "b"]]})") == "passed");
}

TEST_CASE("a configuration is checked where a method is chosen") {
  const char* config = "TensorParallelConfig";
  CHECK(outcome(config, R"({"mesh": {"axis_names": ["tp"], "shape": [2]}})",
                R"({"expected": {"axis_name": "tp", "mesh_axis_names": ["tp"],
                    "reduce_output": false, "reduce_scatter_output": false,
                    "matmul_method": null}})") == "passed");
  CHECK(outcome(config, R"({"mesh": "dp", "matmul_method": "ALL_GATHER"})",
                R"({"error": {"type": "ValueError", "message":
                    "axis_name 'tp' not found"}})") == "passed");
  CHECK(outcome(config, R"({"matmul_method": "ALL_GATHER"})",
                R"({"error": {"type": "AssertionError", "message":
                    "No mesh found"}})") == "passed");
}

}  // namespace
}  // namespace shardplan::conformance
