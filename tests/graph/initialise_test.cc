// SPDX-License-Identifier: Apache-2.0
// What JAX itself answers is in tests/vectors/jax_random.json.
#include "graph/initialise.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include <doctest/doctest.h>
#include <rapidcheck.h>

#include "base/check.h"

namespace shardplan {
namespace {

const Key kKey = random_key(42);

double deviation_of(const std::vector<float>& numbers) {
  double squares = 0;
  for (const float x : numbers) squares += static_cast<double>(x) * x;
  return std::sqrt(squares / static_cast<double>(numbers.size()));
}

std::vector<float> part(const std::vector<float>& all, size_t index,
                        size_t parts) {
  const size_t size = all.size() / parts;
  const auto begin = all.begin() + static_cast<std::ptrdiff_t>(index * size);
  return {begin, begin + static_cast<std::ptrdiff_t>(size)};
}

TEST_CASE("initialise: constants and scales") {
  CHECK(initialise({"zeros"}, kKey, {2, 2}) == std::vector<float>(4, 0));
  CHECK(initialise({"ones", 0.5}, kKey, {3}) == std::vector<float>(3, 0.5));
  CHECK(initialise({"ones"}, kKey, {}) == std::vector<float>(1, 1));
  CHECK(initialise({"ones"}, kKey, {0, 4}) == std::vector<float>());
  CHECK(initialise({"normal", 1, 0.02}, kKey, {100, 100}) ==
        initialise({"normal", 0.02, 1}, kKey, {100, 100}));
}

TEST_CASE("initialise: every name makes numbers of a matrix's shape") {
  const std::vector<std::string> names = initialiser_names();
  CHECK(names.size() == 9);
  for (const std::string& name : names) {
    CAPTURE(name);
    const auto numbers = initialise({name, 2}, kKey, {4, 5});
    REQUIRE(numbers.has_value());
    CHECK(numbers->size() == 20);
  }
  CHECK_THROWS_AS(initialise({"constant"}, kKey, {4, 5}), InternalError);
}

TEST_CASE("initialise: the spread follows the fans, as JAX counts them") {
  struct Row {
    Shape shape;
    FanMode mode;
    double fan;
  };
  for (const Row& row : std::vector<Row>{{{100, 400}, FanMode::In, 100},
                                         {{100, 400}, FanMode::Out, 400},
                                         {{100, 400}, FanMode::Average, 250},
                                         {{9, 10, 200}, FanMode::In, 90},
                                         {{9, 10, 200}, FanMode::Out, 1800}}) {
    CAPTURE(row.fan);
    for (const Distribution distribution :
         {Distribution::TruncatedNormal, Distribution::Normal,
          Distribution::Uniform}) {
      const auto numbers =
          variance_scaling(kKey, row.shape, 3, row.mode, distribution);
      REQUIRE(numbers.has_value());
      CHECK(deviation_of(*numbers) ==
            doctest::Approx(std::sqrt(3 / row.fan)).epsilon(0.02));
    }
  }
}

TEST_CASE("initialise: fans need two dimensions; no elements need none") {
  CHECK(initialise({"lecun_normal"}, kKey, {7}) == std::nullopt);
  CHECK(initialise({"he_uniform"}, kKey, {}) == std::nullopt);
  CHECK(initialise({"lecun_normal"}, kKey, {0, 7}) == std::vector<float>());
  CHECK(initialise_shards({"lecun_normal"}, kKey, {7},
                          {2, true, std::nullopt}) == std::nullopt);
}

TEST_CASE("initialise: shards are drawn from keys of their own, or alike") {
  CHECK(rc::check([] {
    const auto count = *rc::gen::inRange(1, 6);
    const auto split_rngs = *rc::gen::arbitrary<bool>();
    const Shape shape = {*rc::gen::inRange<int64_t>(1, 5), 3};
    const Initialiser initialiser{"lecun_normal", 0.5};
    const auto mask =
        *rc::gen::element(std::optional<int>(), std::optional<int>(0),
                          std::optional<int>(count - 1));
    const auto all =
        initialise_shards(initialiser, kKey, shape, {count, split_rngs, mask});
    RC_ASSERT(all.has_value());
    RC_ASSERT(all->size() == static_cast<size_t>(count * shape[0] * 3));
    for (int i = 0; i < count; ++i) {
      const Key key =
          split_rngs ? fold_in(kKey, static_cast<uint32_t>(i)) : kKey;
      std::vector<float> expected = *initialise(initialiser, key, shape);
      if (mask && *mask != i) {
        std::fill(expected.begin(), expected.end(), 0.0F);
      }
      RC_ASSERT(part(*all, static_cast<size_t>(i),
                     static_cast<size_t>(count)) == expected);
    }
  }));
}

TEST_CASE("initialise: shards that share a key differ in nothing") {
  const auto alike =
      initialise_shards({"normal"}, kKey, {4}, {2, false, std::nullopt});
  CHECK(part(*alike, 0, 2) == part(*alike, 1, 2));
  const auto own =
      initialise_shards({"normal"}, kKey, {4}, {2, true, std::nullopt});
  CHECK(part(*own, 0, 2) != part(*own, 1, 2));
}

}  // namespace
}  // namespace shardplan
