// SPDX-License-Identifier: Apache-2.0
#include "tests/conformance/runner/ring.h"

#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "tests/conformance/cases.h"
#include "tests/support/messages.h"

namespace shardplan {
namespace {

using testing::messages;
using Texts = std::vector<std::string>;

std::string plus(const std::string& arriving, const std::string& own) {
  return "(" + arriving + "+" + own + ")";
}

std::string name(int device, int element) {
  return "d" + std::to_string(device) + "k" + std::to_string(element);
}

// xs[device][k] is "dXkY".
std::vector<Texts> lists(int devices) {
  std::vector<Texts> xs(static_cast<size_t>(devices));
  for (int d = 0; d < devices; ++d) {
    for (int k = 0; k < devices; ++k) {
      xs[static_cast<size_t>(d)].push_back(name(d, k));
    }
  }
  return xs;
}

TEST_CASE("a gathered list goes round from the device itself") {
  CHECK(async_gather(3, Shift::Up) ==
        SourceLists{{0, 2, 1}, {1, 0, 2}, {2, 1, 0}});
  for (int n = 1; n < 10; ++n) {
    for (const Shift shift : {Shift::Up, Shift::Down}) {
      CAPTURE(n);
      const SourceLists ring = async_gather(n, shift);
      CHECK(async_gather_bidirectional(n, shift) == ring);
      for (int d = 0; d < n; ++d) {
        for (int i = 0; i < n; ++i) {
          const int source = shift == Shift::Up ? d - i : d + i;
          CHECK(ring[static_cast<size_t>(d)][static_cast<size_t>(i)] ==
                (source + n) % n);
        }
      }
    }
  }
}

TEST_CASE("a split list has first halves as up, then second halves as down") {
  Diagnostics diags;
  for (int n = 1; n < 6; ++n) {
    const auto split = async_gather_split(n, 4, diags);
    REQUIRE(split.has_value());
    const SourceLists up = async_gather(n, Shift::Up);
    const SourceLists down = async_gather(n, Shift::Down);
    for (size_t d = 0; d < up.size(); ++d) {
      std::vector<ShardHalf> expected;
      for (const int source : up[d]) expected.push_back({source, 0});
      for (const int source : down[d]) expected.push_back({source, 1});
      CHECK((*split)[d] == expected);
    }
  }
  CHECK_FALSE(async_gather_split(2, 3, diags).has_value());
  CHECK(messages(diags) ==
        "SP010 a shard of 3 features cannot be split in two equal halves");
}

TEST_CASE("sums are associated to the left, from the next device on") {
  Diagnostics diags;
  CHECK(
      *async_scatter(lists(3), Shift::Up, plus, diags) ==
      Texts{"((d1k0+d2k1)+d0k2)", "((d2k0+d0k1)+d1k2)", "((d0k0+d1k1)+d2k2)"});
  CHECK(
      *async_scatter(lists(3), Shift::Down, plus, diags) ==
      Texts{"((d2k0+d1k1)+d0k2)", "((d0k0+d2k1)+d1k2)", "((d1k0+d0k1)+d2k2)"});
  CHECK(*async_scatter(lists(1), Shift::Down, plus, diags) == Texts{"d0k0"});
  for (int n = 2; n < 9; ++n) {
    const auto sums = async_scatter(lists(n), Shift::Up, plus, diags);
    for (int d = 0; d < n; ++d) {
      std::string expected = name((d + 1) % n, 0);
      for (int k = 1; k < n; ++k) {
        expected = plus(expected, name((d + 1 + k) % n, k));
      }
      CHECK((*sums)[static_cast<size_t>(d)] == expected);
    }
  }
}

TEST_CASE("of a split scatter the smaller half goes up, the rest down") {
  Diagnostics diags;
  const int n = 3;
  std::vector<std::vector<Texts>> xs;
  for (const Texts& list : lists(n)) {
    auto& device = xs.emplace_back();
    for (const std::string& element : list) {
      device.push_back({element + "a", element + "b", element + "c"});
    }
  }
  const auto sums = async_scatter_split(xs, plus, diags);
  CHECK((*sums)[0] == Texts{"((d1k0a+d2k1a)+d0k2a)", "((d2k0b+d1k1b)+d0k2b)",
                            "((d2k0c+d1k1c)+d0k2c)"});
  CHECK((*sums)[2] == Texts{"((d0k0a+d1k1a)+d2k2a)", "((d1k0b+d0k1b)+d2k2b)",
                            "((d1k0c+d0k1c)+d2k2c)"});
  CHECK(diags.all().empty());
}

TEST_CASE("lists of another length are refused") {
  Diagnostics diags;
  auto xs = lists(2);
  xs[1].pop_back();
  CHECK_FALSE(async_scatter(xs, Shift::Up, plus, diags).has_value());
  const std::vector<std::vector<Texts>> split = {{}, {}, {}};
  CHECK_FALSE(async_scatter_split(split, plus, diags).has_value());
  CHECK(messages(diags) ==
        "SP010 a list of 1 shard cannot be scattered over an axis of size 2\n"
        "SP010 a list of 0 shards cannot be scattered over an axis of size 3");
}

TEST_CASE("slices over a mesh are equally long, and the tail is dropped") {
  CHECK(split_array_over_mesh(7, 3) ==
        std::vector<Slice>{{0, 2}, {2, 4}, {4, 6}});
  CHECK(split_array_over_mesh(7, 1) == std::vector<Slice>{{0, 7}});
  CHECK(split_array_over_mesh(1, 2) == std::vector<Slice>{{0, 0}, {0, 0}});
}

}  // namespace

}  // namespace shardplan

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
