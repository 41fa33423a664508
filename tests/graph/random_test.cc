// SPDX-License-Identifier: Apache-2.0
// What JAX itself answers is in tests/vectors/jax_random.json.
#include "graph/random.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include <doctest/doctest.h>

#include "base/checked.h"
#include "tests/support/property.h"

namespace shardplan {
namespace {

RandomKey any_key() { return {draw_any<uint32_t>(), draw_any<uint32_t>()}; }

double mean_of(const std::vector<float>& numbers) {
  return std::accumulate(numbers.begin(), numbers.end(), 0.0) /
         static_cast<double>(numbers.size());
}

// Random123 for a key and a counter of zeros, and 20 rounds.
TEST_CASE("random: the cipher gives its authors' known answer") {
  CHECK(fold_in({0, 0}, 0) == RandomKey{0x6b200159, 0x99ba4efe});
  CHECK(random_bits({0, 0}, 1) ==
        std::vector<uint32_t>{0x6b200159U ^ 0x99ba4efeU});
}

TEST_CASE("random: a seed is its low 32 bits, as in JAX by default") {
  CHECK(random_key(0) == RandomKey{0, 0});
  CHECK(random_key(-1) == RandomKey{0, 0xFFFFFFFF});
  CHECK(random_key((int64_t{1} << 32) + 5) == RandomKey{0, 5});
}

TEST_CASE("random: numbers do not depend on how many are drawn") {
  CHECK(holds([] {
    const RandomKey key = any_key();
    const auto few = draw_in<int64_t>(0, 50);
    const auto more = few + draw_in<int64_t>(0, 50);
    const auto is_head = [](const auto& head, const auto& all) {
      return head.size() <= all.size() &&
             std::equal(head.begin(), head.end(), all.begin());
    };
    ENSURE(is_head(random_bits(key, few), random_bits(key, more)));
    ENSURE(is_head(random_normal(key, few), random_normal(key, more)));
  }));
}

TEST_CASE("random: numbers computed side by side are those computed alone") {
  CHECK(holds([] {
    const RandomKey key = any_key();
    const auto count = draw_in<int64_t>(0, 100);
    const std::vector<uint32_t> bits = random_bits(key, count);
    for (size_t i = 0; i < bits.size(); ++i) {
      const RandomKey alone = fold_in(key, static_cast<uint32_t>(i));
      ENSURE(bits[i] == (alone[0] ^ alone[1]));
    }
  }));
}

TEST_CASE("random: numbers are the same for any number of threads") {
  constexpr int64_t kCount = 200'003;  // several pieces, and some of a lane
  const RandomKey key = random_key(7);
  CHECK(random_bits(key, kCount, 3) == random_bits(key, kCount));
  CHECK(random_uniform(key, kCount, -1, 2, 3) ==
        random_uniform(key, kCount, -1, 2));
  CHECK(random_normal(key, kCount, 3) == random_normal(key, kCount));
  CHECK(random_truncated_normal(key, kCount, -2, 2, 3) ==
        random_truncated_normal(key, kCount, -2, 2));
  // Of the last piece, too, each is that of its place.
  const RandomKey last = fold_in(key, kCount - 1);
  CHECK(random_bits(key, kCount, 2).back() == (last[0] ^ last[1]));
}

TEST_CASE("random: uniform numbers stay in their range and fill it") {
  CHECK(holds([] {
    const auto low = static_cast<float>(draw_in(-100, 100)) / 8;
    const float high = low + static_cast<float>(draw_in(1, 100)) / 8;
    const std::vector<float> numbers =
        random_uniform(any_key(), 1000, low, high);
    const auto [least, most] =
        std::minmax_element(numbers.begin(), numbers.end());
    ENSURE(*least >= low);
    ENSURE(*most <= high);
    ENSURE(*most - *least > 0.9F * (high - low));
  }));
}

TEST_CASE("random: normal numbers have the moments of the distribution") {
  std::vector<float> numbers = random_normal(random_key(1), 100'000);
  CHECK(std::abs(mean_of(numbers)) < 0.02);
  for (float& x : numbers) x *= x;
  CHECK(std::abs(mean_of(numbers) - 1) < 0.02);
  CHECK(std::all_of(numbers.begin(), numbers.end(),
                    [](float x) { return std::isfinite(x); }));
  // Beyond 3.1 the tails' polynomial is used.
  CHECK(*std::max_element(numbers.begin(), numbers.end()) > 3.5F * 3.5F);
}

TEST_CASE("random: truncated numbers lie strictly between their bounds") {
  struct Row {
    float low;
    float high;
  };
  for (const Row& row :
       std::vector<Row>{{-2, 2}, {-0.5F, 0.25F}, {1, 3}, {-9, 9}, {5, 6}}) {
    CAPTURE(row.low);
    const std::vector<float> numbers =
        random_truncated_normal(random_key(3), 5000, row.low, row.high);
    const auto [least, most] =
        std::minmax_element(numbers.begin(), numbers.end());
    CHECK(*least > row.low);
    CHECK(*most < row.high);
  }
}

// What JAX itself answers is in tests/vectors/jax_random.json.

const RandomKey kKey = random_key(42);

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
  CHECK(holds([] {
    const auto count = draw_in(1, 6);
    const auto split_rngs = draw_bool();
    const Shape shape = {draw_in<int64_t>(1, 5), 3};
    const Initialiser initialiser{"lecun_normal", 0.5};
    const auto mask = draw_of({std::optional<int>(), std::optional<int>(0),
                               std::optional<int>(count - 1)});
    const auto all =
        initialise_shards(initialiser, kKey, shape, {count, split_rngs, mask});
    ENSURE(all.has_value());
    ENSURE(all->size() == static_cast<size_t>(count * shape[0] * 3));
    for (int i = 0; i < count; ++i) {
      const RandomKey key =
          split_rngs ? fold_in(kKey, static_cast<uint32_t>(i)) : kKey;
      std::vector<float> expected = *initialise(initialiser, key, shape);
      if (mask && *mask != i) {
        std::fill(expected.begin(), expected.end(), 0.0F);
      }
      ENSURE(part(*all, static_cast<size_t>(i), static_cast<size_t>(count)) ==
             expected);
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
