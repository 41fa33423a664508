// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <limits>
#include <set>
#include <string>

#include <doctest/doctest.h>

#include "tests/support/op_samples.h"

namespace shardplan {
namespace {

using testing::inferred;
using testing::kArithmetics;
using testing::numbers;
using testing::run;

TEST_CASE("a query sees keys up to its own position") {
  for (const Arithmetic arithmetic : kArithmetics) {
    const double masked = arithmetic == Arithmetic::Field
                              ? 0
                              : -std::numeric_limits<double>::infinity();
    for (const Shape& shape :
         {Shape{2, 4, 4}, Shape{3, 7}, Shape{5, 2}, Shape{1, 1, 6},
          Shape{2, 0, 3}, Shape{2, 3, 0}}) {
      for (const int64_t window : {0, 1, 2, 100}) {
        const Tensor scores = numbers(arithmetic, shape, 1);
        Attributes attributes;
        attributes["window"] = static_cast<double>(window);
        const std::vector<double> before = values_of(scores);
        const std::vector<double> after =
            values_of(run("causal_mask", {scores}, attributes, arithmetic));
        const int64_t queries = shape[shape.size() - 2];
        const int64_t keys = shape.back();
        for (size_t i = 0; i < before.size(); ++i) {
          const auto at = static_cast<int64_t>(i);
          const int64_t key = at % keys;
          const int64_t position = at / keys % queries + keys - queries;
          const bool seen =
              key <= position && (window == 0 || key > position - window);
          CHECK(after[i] == (seen ? before[i] : masked));
        }
        CHECK(values_of(scores) == before);
      }
    }
  }
}

TEST_CASE("in chunks a query sees keys of its own chunk, up to its own") {
  const double masked = -std::numeric_limits<double>::infinity();
  for (const double chunk : {1.0, 2.0, 3.0, 100.0}) {
    const Tensor scores = numbers(Arithmetic::F64, {2, 7, 7}, 1);
    const std::vector<double> before = values_of(scores);
    const std::vector<double> after = values_of(
        run("causal_mask", {scores}, {{"chunk", chunk}}, Arithmetic::F64));
    for (size_t i = 0; i < before.size(); ++i) {
      const auto size = static_cast<size_t>(chunk);
      const size_t key = i % 7;
      const size_t query = i / 7 % 7;
      const bool seen = key <= query && key / size == query / size;
      CHECK(after[i] == (seen ? before[i] : masked));
    }
  }
}

TEST_CASE("without a window a query sees all earlier keys") {
  const Tensor scores = numbers(Arithmetic::F64, {2, 4, 6}, 1);
  CHECK(bitwise_equal(
      run("causal_mask", {scores}, {}, Arithmetic::F64),
      run("causal_mask", {scores}, {{"window", 0.0}}, Arithmetic::F64)));
}

TEST_CASE("what is not a matrix of scores is SP015") {
  CHECK(inferred("causal_mask", {{4}}, {}) ==
        "SP015 scores [4] have no queries and keys");
  CHECK(inferred("causal_mask", {{4, 4}}, {{"window", -1.0}}) ==
        "SP015 a window of -1 keys over scores [4, 4] hides every key");
  CHECK(inferred("causal_mask", {{4, 4}}, {{"chunk", -2.0}}) ==
        "SP015 `chunk` is -2 keys");
  CHECK(inferred("causal_mask", {{4, 4}}, {{"window", 1.5}}) ==
        "SP015 `window` is not an integer");
}

// Heads in which the first of every pair is 1 and the second 0 are turned to
// cosines and sines: the angles of [positions, rotary / 2].
std::vector<double> angles(int64_t positions, int64_t rotary,
                           Attributes attributes) {
  std::vector<double> ones;
  for (int64_t i = 0; i < positions * rotary; ++i) {
    ones.push_back(i % rotary < rotary / 2 ? 1 : 0);
  }
  attributes["dim"] = 0.0;
  const Tensor x = make_tensor(Element::F64, {positions, rotary}, ones);
  const std::vector<double> turned =
      values_of(run("rope", {x}, attributes, Arithmetic::F64));
  std::vector<double> result;
  for (size_t i = 0; i < turned.size(); ++i) {
    const auto pairs = static_cast<size_t>(rotary) / 2;
    if (i % (2 * pairs) >= pairs) continue;
    result.push_back(std::atan2(turned[i + pairs], turned[i]));
  }
  return result;
}

TEST_CASE("rope turns numbers half a head apart by their position") {
  const double one[] = {1, 2, 3, 4};
  const Tensor x = make_tensor(Element::F64, {1, 4}, one);
  const std::vector<double> turned = values_of(
      run("rope", {x}, {{"dim", 0.0}, {"offset", 3.0}}, Arithmetic::F64));
  // Frequencies 1 and 10000^(-1/2).
  const double wanted[] = {
      1 * std::cos(3.0) - 3 * std::sin(3.0),
      2 * std::cos(0.03) - 4 * std::sin(0.03),
      3 * std::cos(3.0) + 1 * std::sin(3.0),
      4 * std::cos(0.03) + 2 * std::sin(0.03),
  };
  for (size_t i = 0; i < 4; ++i) {
    CHECK(turned[i] == doctest::Approx(wanted[i]).epsilon(1e-14));
  }
}

TEST_CASE("the first position turns nothing") {
  const Tensor x = numbers(Arithmetic::F32, {2, 1, 3, 8}, 1);
  CHECK(bitwise_equal(run("rope", {x}, {}, Arithmetic::F32), x));
}

TEST_CASE("rope takes positions from its dimension, for every head alike") {
  for (const Arithmetic arithmetic : kArithmetics) {
    const Tensor x = numbers(arithmetic, {2, 5, 3, 4}, 1);
    const Tensor turned = run("rope", {x}, {}, arithmetic);
    const int order[] = {0, 2, 1, 3};
    CHECK(bitwise_equal(
        permuted(turned, order),
        run("rope", {permuted(x, order)}, {{"dim", 2.0}}, arithmetic)));
    CHECK(bitwise_equal(
        slice(turned, 1, 2, 5),
        run("rope", {slice(x, 1, 2, 5)}, {{"offset", 2.0}}, arithmetic)));
    CHECK_FALSE(bitwise_equal(
        slice(turned, 1, 0, 3),
        run("rope", {slice(x, 1, 0, 3)}, {{"offset", 1.0}}, arithmetic)));
  }
}

TEST_CASE("numbers behind rotary_dim stay") {
  for (const Arithmetic arithmetic : kArithmetics) {
    const Tensor x = numbers(arithmetic, {5, 8}, 1);
    Attributes attributes{{"dim", 0.0}};
    const Tensor leading =
        run("rope", {slice(x, 1, 0, 4)}, attributes, arithmetic);
    attributes["rotary_dim"] = 4.0;
    const Tensor turned = run("rope", {x}, attributes, arithmetic);
    CHECK(bitwise_equal(slice(turned, 1, 0, 4), leading));
    CHECK(bitwise_equal(slice(turned, 1, 4, 8), slice(x, 1, 4, 8)));
    attributes["rotary_dim"] = 0.0;
    CHECK(bitwise_equal(run("rope", {x}, attributes, arithmetic), x));
  }
}

TEST_CASE("scaling makes frequencies lower as transformers does") {
  Attributes attributes{{"theta", 100.0}, {"factor", 8.0}};
  const auto at_one = [&](int64_t rotary) {
    std::vector<double> all = angles(2, rotary, attributes);
    all.erase(all.begin(), all.begin() + rotary / 2);
    return all;
  };
  const auto near = [](const std::vector<double>& got,
                       const std::vector<double>& wanted) {
    REQUIRE(got.size() == wanted.size());
    for (size_t i = 0; i < got.size(); ++i) {
      CHECK(got[i] == doctest::Approx(wanted[i]).epsilon(1e-12));
    }
  };
  near(at_one(8), {1, 0.31622776601683794, 0.1, 0.03162277660168379});
  attributes["scaling"] = std::string("linear");
  near(at_one(8), {0.125, 0.03952847075210474, 0.0125, 0.003952847075210474});
  // Wavelengths of 6.28, 19.9, 62.8 and 199 against 32 / 4 and 32 / 1.
  attributes["scaling"] = std::string("llama3");
  attributes["original_positions"] = 32.0;
  near(at_one(8), {1, 0.09583998588296266, 0.0125, 0.003952847075210474});
  attributes["low_freq_factor"] = 0.1;
  attributes["high_freq_factor"] = 0.4;
  CHECK(at_one(8)[1] == doctest::Approx(0.31622776601683794));
}

TEST_CASE("frequencies that are given count instead of theta") {
  for (const Arithmetic arithmetic : kArithmetics) {
    if (arithmetic == Arithmetic::Field) continue;
    const Tensor x = numbers(arithmetic, {5, 8}, 1);
    const std::vector<double> plain = {1, 0.1, 0.01, 0.001};
    const Tensor turned = run("rope", {x}, {{"dim", 0.0}}, arithmetic);
    const Tensor same =
        run("rope", {x}, {{"dim", 0.0}, {"frequencies", plain}}, arithmetic);
    const std::vector<double> a = values_of(turned);
    const std::vector<double> b = values_of(same);
    for (size_t i = 0; i < a.size(); ++i) {
      CHECK(a[i] == doctest::Approx(b[i]).epsilon(1e-5));
    }
    // Fewer turn a part of a head.
    const std::vector<double> two = {1, 0.1};
    const Tensor part =
        run("rope", {x}, {{"dim", 0.0}, {"frequencies", two}}, arithmetic);
    CHECK(bitwise_equal(slice(part, 1, 4, 8), slice(x, 1, 4, 8)));
    CHECK_FALSE(bitwise_equal(slice(part, 1, 0, 4), slice(x, 1, 0, 4)));
  }
}

TEST_CASE("an amplitude makes longer what is turned, and nothing else") {
  const Tensor x = numbers(Arithmetic::F64, {5, 8}, 1);
  Attributes attributes{{"dim", 0.0}, {"rotary_dim", 4.0}};
  const std::vector<double> once =
      values_of(run("rope", {x}, attributes, Arithmetic::F64));
  attributes["amplitude"] = 1.5;
  const std::vector<double> longer =
      values_of(run("rope", {x}, attributes, Arithmetic::F64));
  for (size_t i = 0; i < once.size(); ++i) {
    const double by = i % 8 < 4 ? 1.5 : 1;
    CHECK(longer[i] == doctest::Approx(by * once[i]).epsilon(1e-14));
  }
}

TEST_CASE("interleaved pairs are neighbours") {
  // [a0 b0 a1 b1 ..] is turned as [a0 a1 .. b0 b1 ..].
  for (const Arithmetic arithmetic : kArithmetics) {
    const Tensor x = numbers(arithmetic, {3, 5, 2, 4}, 1);
    const int order[] = {0, 1, 2, 4, 3};
    const auto unzipped = [&](const Tensor& pairs) {
      const Tensor cut = reshaped(pairs, {3, 5, 2, 2, 2});
      return reshaped(permuted(cut, order), {3, 5, 2, 4});
    };
    CHECK(bitwise_equal(
        unzipped(run("rope", {x}, {{"interleaved", 1.0}}, arithmetic)),
        run("rope", {unzipped(x)}, {}, arithmetic)));
  }
}

TEST_CASE("in the field every position and pair is turned in its own way") {
  const double ones[] = {1, 1, 0, 0, 1, 1, 0, 0};
  const Tensor x = make_tensor(Element::F64, {2, 4}, ones);
  const std::vector<double> turned =
      values_of(run("rope", {x}, {{"dim", 0.0}}, Arithmetic::Field));
  const std::set<double> all(turned.begin(), turned.end());
  CHECK(all.size() == turned.size());
}

TEST_CASE("a rope that cannot be is SP015") {
  CHECK(inferred("rope", {{2, 4, 6}}, {}) == "[2, 4, 6]");
  CHECK(inferred("rope", {{2, 6}}, {}) ==
        "SP015 dimension 1 of [2, 6] cannot be both positions and a head");
  CHECK(inferred("rope", {{2, 4, 6}}, {{"dim", 3.0}}) ==
        "SP015 [2, 4, 6] has no dimension 3");
  CHECK(inferred("rope", {{2, 4, 5}}, {}) ==
        "SP015 cannot rotate 5 values of a head of [2, 4, 5]");
  CHECK(inferred("rope", {{2, 4, 6}}, {{"rotary_dim", 8.0}}) ==
        "SP015 cannot rotate 8 values of a head of [2, 4, 6]");
  CHECK(inferred("rope", {{2, 4, 6}}, {{"rotary_dim", 2.5}}) ==
        "SP015 `rotary_dim` is not an integer");
  CHECK(inferred("rope", {{2, 4, 6}}, {{"offset", -1.0}}) ==
        "SP015 `offset` is -1");
  CHECK(inferred("rope", {{2, 4, 6}}, {{"scaling", std::string("yarn")}}) ==
        "SP015 unknown scaling `yarn`");
  const std::vector<double> three = {1, 2, 3};
  CHECK(inferred("rope", {{2, 4, 6}}, {{"frequencies", three}}) == "[2, 4, 6]");
  CHECK(inferred("rope", {{2, 4, 4}}, {{"frequencies", three}}) ==
        "SP015 cannot rotate 6 values of a head of [2, 4, 4]");
  CHECK(inferred("rope", {{2, 4, 6}},
                 {{"frequencies", three}, {"rotary_dim", 4.0}}) ==
        "SP015 3 frequencies for 4 rotated values");
  CHECK(inferred("rope", {{2, 4, 6}},
                 {{"frequencies", three}, {"theta", 100.0}}) ==
        "SP015 `frequencies` cannot be combined with `theta` or `scaling`");
  CHECK(
      inferred("rope", {{2, 4, 6}}, {{"frequencies", std::vector<double>{}}}) ==
      "SP015 0 frequencies for 6 rotated values");
  CHECK(inferred(
            "rope", {{2, 4, 2}},
            {{"frequencies",
              std::vector<double>{std::numeric_limits<double>::infinity()}}}) ==
        "SP015 a frequency is not finite");
  CHECK(inferred("rope", {{2, 4, 2}},
                 {{"amplitude", std::numeric_limits<double>::infinity()}}) ==
        "SP015 `amplitude` is not finite");
  CHECK(inferred("rope", {{2, 4, 6}}, {{"theta", 0.0}}) ==
        "SP015 `theta` and `factor` must be above 0");
  CHECK(inferred("rope", {{2, 4, 6}}, {{"scaling", std::string("llama3")}}) ==
        "SP015 `llama3` needs `original_positions` above 0, and "
        "`high_freq_factor` above `low_freq_factor`");
}

}  // namespace

}  // namespace shardplan
