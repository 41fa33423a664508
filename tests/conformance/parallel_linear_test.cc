// SPDX-License-Identifier: Apache-2.0
#include "tests/conformance/runner/parallel_linear.h"

#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "tests/conformance/cases.h"
#include "tests/support/builders.h"
#include "tests/support/messages.h"

namespace shardplan {
namespace {

// The short name of the result, or why there is none.
std::string promoted(const std::vector<DType>& operands,
                     std::optional<DType> wish = std::nullopt) {
  Diagnostics diags;
  const auto result = promoted_dtype(operands, wish, diags);
  return result ? std::string(dtype_name(*result)) : testing::messages(diags);
}

TEST_CASE("operands decide as in JAX's lattice") {
  CHECK(promoted({DType::F32, DType::F32}) == "f32");
  CHECK(promoted({DType::BF16, DType::BF16}) == "bf16");
  CHECK(promoted({DType::BF16, DType::F16}) == "f32");
  CHECK(promoted({DType::BF16, DType::F32}) == "f32");
  CHECK(promoted({DType::F16, DType::F64}) == "f64");
  CHECK(promoted({DType::I64, DType::BF16}) == "bf16");
  CHECK(promoted({DType::I8, DType::I32, DType::F16}) == "f16");
  CHECK(promoted({DType::F8E4M3FN, DType::BF16}) == "bf16");
  CHECK(promoted({DType::C64, DType::F64}) == "c128");
  CHECK(promoted({DType::C64, DType::F32, DType::I64}) == "c64");
}

TEST_CASE("integers alone become f32") {
  CHECK(promoted({DType::I32, DType::I32}) == "f32");
  CHECK(promoted({DType::I64, DType::Bool}) == "f32");
  CHECK(promoted({}) == "f32");
}

TEST_CASE("a wish wins, if it can be computed in") {
  CHECK(promoted({DType::F32, DType::F32}, DType::BF16) == "bf16");
  CHECK(promoted({DType::I32}, DType::F8E5M2) == "f8_e5m2");
  CHECK(promoted({DType::F32}, DType::I32) ==
        "SP015 `i32` is not a dtype to compute in");
  CHECK(promoted({DType::F32}, DType::Q4_0) ==
        "SP015 `q4_0` is not a dtype to compute in");
}

TEST_CASE("what has no common dtype is refused") {
  CHECK(promoted({DType::F8E4M3FN, DType::F8E5M2}) ==
        "SP015 `f8_e5m2` and `f8_e4m3fn` have no common dtype");
  CHECK(promoted({DType::Q4_0, DType::F32}) ==
        "SP015 `q4_0` and other dtypes have none in common");
}

using testing::spec;

TEST_CASE("the original's collective product turns a weight's spec round") {
  const auto output = [](int rank, const char* left, const char* right) {
    const auto result =
        original_collective_output(rank, spec(left), spec(right), {"tp"});
    return result ? spec_text(*result) : "none";
  };
  CHECK(output(2, "", "fsdp, tp") == "P(tp, fsdp)");
  CHECK(output(2, "", "fsdp, tp, sp") == "P(tp, fsdp)");
  CHECK(output(2, "", "fsdp") == "none");
  CHECK(output(0, "", "fsdp") == "P(tp)");
  CHECK(output(1, "", "fsdp") == "P(tp)");
  CHECK(output(4, "", "fsdp") == "P(None, None, None, tp)");
  CHECK_FALSE(original_collective_output(2, std::nullopt, spec("a, b"), {}));
  CHECK_FALSE(original_collective_output(2, spec("a, b"), std::nullopt, {}));
}

}  // namespace

}  // namespace shardplan

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

// A layer of two inputs and two outputs with these arguments.
std::string layer(const std::string& kwargs, const std::string& more = "") {
  return R"({"kwargs": {"in_features": 2, "out_features": 2)" + kwargs +
         R"(}, "x_shape": [1, 2], "x": [[1, 2]], "kernel": [[1, 2], [3, 4]],
            "bias": [10, 20])" +
         more + "}";
}

std::string answer(const std::string& y, const std::string& dtype,
                   const std::string& direction = "null") {
  return R"({"expected": {"y": )" + y + R"(, "y_dtype": ")" + dtype +
         R"(", "tp_merged": 1, "direction": )" + direction + "}}";
}

std::string run_layer(const std::string& inputs, const std::string& expected) {
  return outcome("ParallelLinear", inputs.c_str(), expected.c_str());
}

TEST_CASE("the scale comes before the bias") {
  CHECK(run_layer(layer(""), answer("[[17, 30]]", "float32")) == "passed");
  CHECK(run_layer(layer(R"(, "scale": 0.5)"),
                  answer("[[13.5, 25]]", "float32")) == "passed");
  CHECK(run_layer(layer(R"(, "scale": "fan_out")"),
                  answer("[[14.949747, 27.071068]]", "float32")) == "passed");
  CHECK(run_layer(layer(R"(, "scale": "fan_out")"),
                  answer("[[14.94976, 27.071068]]", "float32")) != "passed");
}

TEST_CASE("another kernel may be given, and the bias stays") {
  CHECK(run_layer(layer("", R"(, "w": "ones")"),
                  answer("[[13, 23]]", "float32")) == "passed");
  CHECK(run_layer(layer("", R"(, "w": [[0, 1], [1, 0]])"),
                  answer("[[12, 21]]", "float32")) == "passed");
}

TEST_CASE("integers are computed in float32, and a dtype may be asked for") {
  CHECK(run_layer(layer(R"(, "dtype": "bfloat16")", R"(, "x_dtype": "int32")"),
                  answer("[[17, 30]]", "bfloat16")) == "passed");
  CHECK(
      run_layer(layer(R"(, "param_dtype": "int8")", R"(, "x_dtype": "int32")"),
                answer("[[17, 30]]", "float32")) == "passed");
  CHECK(
      run_layer(layer(R"(, "dtype": "int32")"),
                R"({"error": {"type": "ValueError", "message": "inexact"}})") ==
      "passed");
}

TEST_CASE("row and column parallel layers compute the same") {
  CHECK(run_layer(layer("", R"(, "class": "RowParallelLinear")"),
                  answer("[[17, 30]]", "float32", "\"row\"")) == "passed");
}

TEST_CASE("what the original cannot construct or call is refused") {
  const char* type = R"({"error": {"type": "TypeError", "message": "m"}})";
  const char* value = R"({"error": {"type": "ValueError", "message": "m"}})";
  CHECK(run_layer(layer(R"(, "scale": "bogus")"), type) == "passed");
  const std::string merged =
      R"({"x_shape": [1, 2], "x": [[1, 2]], "kwargs": {"in_features": 2,
          "out_features": )";
  CHECK(run_layer(merged + "[2, 1]}}", type) == "passed");
  CHECK(run_layer(merged + R"([2], "use_bias": false}})", value) == "passed");
  CHECK(run_layer(merged + R"([2, 1], "use_bias": false, "scale": "fan_out"}})",
                  type) == "passed");
}

}  // namespace

}  // namespace shardplan::conformance
