// SPDX-License-Identifier: Apache-2.0
#include <string>

#include <doctest/doctest.h>

#include "tests/conformance/cases.h"

namespace shardplan::conformance {
namespace {

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

std::string run(const std::string& inputs, const std::string& expected) {
  return outcome("ParallelLinear", inputs.c_str(), expected.c_str());
}

TEST_CASE("the scale comes before the bias") {
  CHECK(run(layer(""), answer("[[17, 30]]", "float32")) == "passed");
  CHECK(run(layer(R"(, "scale": 0.5)"), answer("[[13.5, 25]]", "float32")) ==
        "passed");
  CHECK(run(layer(R"(, "scale": "fan_out")"),
            answer("[[14.949747, 27.071068]]", "float32")) == "passed");
  CHECK(run(layer(R"(, "scale": "fan_out")"),
            answer("[[14.94976, 27.071068]]", "float32")) != "passed");
}

TEST_CASE("another kernel may be given, and the bias stays") {
  CHECK(run(layer("", R"(, "w": "ones")"), answer("[[13, 23]]", "float32")) ==
        "passed");
  CHECK(run(layer("", R"(, "w": [[0, 1], [1, 0]])"),
            answer("[[12, 21]]", "float32")) == "passed");
}

TEST_CASE("integers are computed in float32, and a dtype may be asked for") {
  CHECK(run(layer(R"(, "dtype": "bfloat16")", R"(, "x_dtype": "int32")"),
            answer("[[17, 30]]", "bfloat16")) == "passed");
  CHECK(run(layer(R"(, "param_dtype": "int8")", R"(, "x_dtype": "int32")"),
            answer("[[17, 30]]", "float32")) == "passed");
  CHECK(run(layer(R"(, "dtype": "int32")"),
            R"({"error": {"type": "ValueError", "message": "inexact"}})") ==
        "passed");
}

TEST_CASE("row and column parallel layers compute the same") {
  CHECK(run(layer("", R"(, "class": "RowParallelLinear")"),
            answer("[[17, 30]]", "float32", "\"row\"")) == "passed");
}

TEST_CASE("what the original cannot construct or call is refused") {
  const char* type = R"({"error": {"type": "TypeError", "message": "m"}})";
  const char* value = R"({"error": {"type": "ValueError", "message": "m"}})";
  CHECK(run(layer(R"(, "scale": "bogus")"), type) == "passed");
  const std::string merged =
      R"({"x_shape": [1, 2], "x": [[1, 2]], "kwargs": {"in_features": 2,
          "out_features": )";
  CHECK(run(merged + "[2, 1]}}", type) == "passed");
  CHECK(run(merged + R"([2], "use_bias": false}})", value) == "passed");
  CHECK(run(merged + R"([2, 1], "use_bias": false, "scale": "fan_out"}})",
            type) == "passed");
}

}  // namespace
}  // namespace shardplan::conformance
