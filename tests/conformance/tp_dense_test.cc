// SPDX-License-Identifier: Apache-2.0
#include <string>

#include <doctest/doctest.h>

#include "tests/conformance/cases.h"

namespace shardplan::conformance {
namespace {

// Two devices with one input and two features each, a bias on both.
std::string scatter(const char* kwargs, const char* first, const char* second) {
  const auto held = [](const char* scope, int kernel, int bias) {
    const std::string k = std::to_string(kernel);
    const std::string b = std::to_string(bias);
    return "\"layer/" + std::string(scope) +
           "/sharded/kernel\": {\"value\": [[[" + k + ", " + k +
           "]]], \"names\": [\"tp\", null, null]}, \"layer/" + scope +
           "/sharded/bias\": {\"value\": [[" + b + ", " + b +
           "]], \"names\": [\"tp\", null]}";
  };
  return std::string(R"({"tp_size": 2, "tp_mode": "scatter", "kwargs": )") +
         kwargs + R"(, "dense_features_per_call": 2,
             "x_per_device_shape": [1, 1, 1], "x[d]": [[[[1]]], [[[10]]]],
             "params[d]": [{)" +
         held(first, 2, 100) + ", " + held(second, 3, 0) + "}, {" +
         held(first, 5, 1000) + ", " + held(second, 7, 0) + "}]}";
}

TEST_CASE("TPDense adds all biases in mode scatter, or none to each other") {
  CHECK(outcome("TPDense", scatter("{}", "module", "x").c_str(),
                R"({"expected": {"y[d]": [[[[1152]]], [[[1152]]]]}})") ==
        "passed");
  CHECK(
      outcome("TPDense",
              scatter(R"({"skip_communication": true})", "module", "x").c_str(),
              R"({"expected": {"y[d]": [[[[102, 102]]],
                                          [[[1050, 1050]]]]}})") == "passed");
  CHECK(outcome(
            "TPDense",
            scatter(R"({"dense_name": "mine", "use_bias": false})", "mine", "x")
                .c_str(),
            R"({"expected": {"y[d]": [[[[52]]], [[[52]]]]}})") == "passed");
}

TEST_CASE("TPAsyncDense adds one bias, and its name is its own") {
  const auto inputs =
      scatter(R"({"dense_name": "mine"})", "shard_0", "shard_1");
  CHECK(outcome("TPAsyncDense", inputs.c_str(),
                R"({"expected": {"y[d]": [[[[1053, 1053]]],
                                          [[[172, 172]]]]}})") == "passed");
  CHECK(outcome("TPAsyncDense", inputs.c_str(),
                R"({"expected": {"y[d]": [[[[1053, 1053]]],
                                          [[[172, 173]]]]}})") != "passed");
}

TEST_CASE("refusals are told apart") {
  const char* bogus = R"({"tp_size": 2, "tp_mode": "bogus", "kwargs": {},
      "dense_features_per_call": 2, "x_per_device_shape": [1, 1]})";
  const char* mode = R"({"error": {"type": "ValueError", "message":
      "Unknown Tensor Parallel mode: bogus"}})";
  const char* odd = R"({"tp_size": 2, "tp_mode": "scatter", "kwargs": {},
      "dense_features_per_call": 5, "x_per_device_shape": [1, 1]})";
  const char* indivisible = R"({"error": {"type": "ValueError", "message":
      "dimension size 5 must be divisible by shard_count 2"}})";
  CHECK(outcome("TPDense", bogus, mode) == "passed");
  CHECK(outcome("TPDense", bogus, indivisible) != "passed");
  CHECK(outcome("TPDense", odd, indivisible) == "passed");
  CHECK(outcome("TPDense", odd, mode) != "passed");
}

TEST_CASE("a wrapper masks all devices but one, or gives all the same") {
  const auto inputs = [](const std::string& kwargs) {
    return R"({"n": 2, "kwargs": )" + kwargs + R"(, "x": [[1]], "params[d]": [
      {"w/sharded/kernel": {"value": [[[2]]], "names": ["tp", null, null]},
       "w/sharded/bias": {"value": [[3]], "names": ["tp", null]}},
      {"w/sharded/kernel": {"value": [[[4]]], "names": ["tp", null, null]},
       "w/sharded/bias": {"value": [[5]], "names": ["tp", null]}}]})";
  };
  const char* wrapper = "ModelParallelismWrapper";
  CHECK(outcome(wrapper, inputs("{}").c_str(),
                R"({"expected": {"y_apply[d]": [[[5]], [[9]]]}})") == "passed");
  CHECK(outcome(wrapper, inputs(R"({"mask_except_model_idx": 1})").c_str(),
                R"({"expected": {"y_apply[d]": [[[0]], [[9]]]}})") == "passed");
  CHECK(outcome(wrapper, inputs(R"({"split_rngs": false})").c_str(),
                R"({"expected": {"y_apply[d]": [[[5]], [[5]]]}})") == "passed");
}

}  // namespace
}  // namespace shardplan::conformance
