// SPDX-License-Identifier: Apache-2.0
#include "tests/conformance/runner/tp_dense.h"

#include <algorithm>
#include <string>

#include <doctest/doctest.h>

#include "tests/conformance/cases.h"
#include "tests/support/built_graph.h"

namespace shardplan {
namespace {

TEST_CASE("a mode counts only where there are several devices") {
  Diagnostics diags;
  CHECK(tensor_parallel_mode("gather", 2, diags) == TensorParallelMode::Gather);
  CHECK(tensor_parallel_mode("scatter", 3, diags) ==
        TensorParallelMode::Scatter);
  CHECK(tensor_parallel_mode("none", 3, diags) == TensorParallelMode::None);
  CHECK(tensor_parallel_mode("scatter", 1, diags) == TensorParallelMode::None);
  CHECK(tensor_parallel_mode("bogus", 1, diags) == TensorParallelMode::None);
  CHECK(diags.all().empty());
  CHECK_FALSE(tensor_parallel_mode("bogus", 2, diags));
  CHECK(testing::messages(diags) ==
        "SP015 unknown tensor parallel mode `bogus`");
}

// Pieces of one row and `width` columns; piece i of device d holds 100 d + 10 i
// plus the column.
std::vector<std::vector<Tensor>> pieces(int n, int width) {
  std::vector<std::vector<Tensor>> all;
  for (int device = 0; device < n; ++device) {
    all.emplace_back();
    for (int i = 0; i < n; ++i) {
      std::vector<double> numbers;
      for (int j = 0; j < width; ++j) {
        numbers.push_back(100 * device + 10 * i + j);
      }
      all.back().push_back(make_tensor(Element::F64, {1, width}, numbers));
    }
  }
  return all;
}

TEST_CASE("pieces lie where their inputs and results are") {
  // Rows are the devices of the input, columns those of the result.
  CHECK(values_of(dense_kernel(AsyncLayout::Gather, pieces(3, 1))) ==
        std::vector<double>{0, 110, 220, 20, 100, 210, 10, 120, 200});
  CHECK(values_of(dense_kernel(AsyncLayout::Scatter, pieces(3, 1))) ==
        std::vector<double>{20, 10, 0, 100, 120, 110, 210, 200, 220});
  CHECK(values_of(dense_kernel(AsyncLayout::SplitScatter, pieces(2, 3))) ==
        std::vector<double>{10, 11, 12, 0, 1, 2, 100, 101, 102, 110, 111, 112});
  // Of three devices the halves part: piece 0 of device 0 goes up to device 2
  // and down to device 1.
  CHECK(values_of(dense_kernel(AsyncLayout::SplitScatter, pieces(3, 2))) ==
        std::vector<double>{20, 21, 10, 1, 0, 11, 100, 111, 120, 121, 110, 101,
                            210, 201, 200, 211, 220, 221});
}

TEST_CASE("every piece is in the kernel once") {
  for (const AsyncLayout layout :
       {AsyncLayout::Gather, AsyncLayout::Scatter, AsyncLayout::SplitScatter}) {
    for (int n = 1; n <= 5; ++n) {
      auto numbers = values_of(dense_kernel(layout, pieces(n, 3)));
      std::sort(numbers.begin(), numbers.end());
      std::vector<double> expected;
      for (const auto& held : pieces(n, 3)) {
        for (const Tensor& piece : held) {
          for (const double number : values_of(piece)) {
            expected.push_back(number);
          }
        }
      }
      CHECK(numbers == expected);
    }
  }
}

TEST_CASE("a bias travels with the first piece") {
  const std::vector<Tensor> biases = {
      make_tensor(Element::F64, {2}, std::vector<double>{0, 1}),
      make_tensor(Element::F64, {2}, std::vector<double>{10, 11}),
      make_tensor(Element::F64, {2}, std::vector<double>{20, 21})};
  CHECK(values_of(dense_bias(AsyncLayout::Gather, biases)) ==
        std::vector<double>{0, 1, 10, 11, 20, 21});
  CHECK(values_of(dense_bias(AsyncLayout::Scatter, biases)) ==
        std::vector<double>{10, 11, 20, 21, 0, 1});
  CHECK(values_of(dense_bias(AsyncLayout::SplitScatter, biases)) ==
        std::vector<double>{10, 21, 20, 1, 0, 11});
}

}  // namespace

}  // namespace shardplan

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
