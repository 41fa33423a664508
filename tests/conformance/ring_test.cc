// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "tests/conformance/cases.h"

namespace shardplan::conformance {
namespace {

TEST_CASE("gathered lists are compared source by source") {
  CHECK(outcome("async_gather", R"({"n": 3, "shift_up": false})",
                R"({"expected": [[0, 1, 2], [1, 2, 0], [2, 0, 1]]})") ==
        "passed");
  CHECK(outcome("async_gather_bidirectional", R"({"n": 2, "shift_up": true})",
                R"({"expected": [[0, 1], [0, 1]]})") != "passed");
  CHECK(outcome("async_gather_split", R"({"n": 2, "feature_dim": 2})",
                R"({"expected": [[["d0e0"], ["d1e0"], ["d0e1"], ["d1e1"]],
                                 [["d1e0"], ["d0e0"], ["d1e1"], ["d0e1"]]]})") ==
        "passed");
}

TEST_CASE("sums are symbols with brackets, or numbers of a precision") {
  const char* scatter = "async_scatter";
  CHECK(outcome(scatter, R"({"n": 2, "shift_up": true})",
                R"~({"expected": ["(d1k0+d0k1)", "(d0k0+d1k1)"]})~") ==
        "passed");
  CHECK(outcome(scatter, R"({"n": 2, "shift_up": true})",
                R"~({"expected": ["(d0k1+d1k0)", "(d0k0+d1k1)"]})~") !=
        "passed");
  const char* numbers =
      R"({"n": 2, "dtype": "float32",
          "xs[d][k]": [[[1.0], [16777216.0]], [[1.0], [2.0]]]})";
  CHECK(outcome(scatter, numbers, R"({"expected": [[16777216.0], [3.0]]})") ==
        "passed");
  std::string wide = numbers;
  wide.replace(wide.find("32"), 2, "64");
  CHECK(outcome(scatter, wide.c_str(),
                R"({"expected": [[16777217.0], [3.0]]})") == "passed");
  CHECK(outcome("async_scatter_split", R"({"n": 1, "feature_dim": 2})",
                R"({"expected": [["d0k0e0", "d0k0e1"]]})") == "passed");
}

TEST_CASE("lists of another length and odd halves are refused alike") {
  const char* length = R"({"error": {"type": "AssertionError", "message":
      "Number of shards needs to match axis size, but got 3 with tp axis size 2."
      }})";
  const char* inputs = R"({"n": 2, "len_xs": 3})";
  CHECK(outcome("async_scatter", inputs, length) == "passed");
  CHECK(outcome("async_scatter_split", inputs, length) == "passed");
  const char* odd = R"({"error": {"type": "ValueError", "message":
      "array split does not result in an equal division"}})";
  CHECK(outcome("async_gather_split", R"({"n": 2, "feature_dim": 5})", odd) ==
        "passed");
  CHECK(outcome("async_scatter", inputs, odd) != "passed");
}

TEST_CASE("an array is split along any dimension that it has") {
  const char* split = "split_array_over_mesh";
  CHECK(outcome(split, R"({"n": 2, "shape": [2, 3], "split_axis": -1})",
                R"({"expected": [[[0], [3]], [[1], [4]]]})") == "passed");
  CHECK(outcome(split, R"({"n": 2, "shape": [2, 3], "split_axis": 2})",
                R"({"error": {"type": "IndexError", "message":
                    "tuple index out of range"}})") == "passed");
}

}  // namespace
}  // namespace shardplan::conformance
