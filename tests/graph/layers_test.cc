// SPDX-License-Identifier: Apache-2.0
#include "graph/layers.h"

#include <algorithm>
#include <string>

#include <doctest/doctest.h>

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
