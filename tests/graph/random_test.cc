// SPDX-License-Identifier: Apache-2.0
// What JAX itself answers is in tests/vectors/jax_random.json.
#include "graph/random.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include <doctest/doctest.h>
#include <rapidcheck.h>

namespace shardplan {
namespace {

Key any_key() {
  return {*rc::gen::arbitrary<uint32_t>(), *rc::gen::arbitrary<uint32_t>()};
}

double mean_of(const std::vector<float>& numbers) {
  return std::accumulate(numbers.begin(), numbers.end(), 0.0) /
         static_cast<double>(numbers.size());
}

// Random123 for a key and a counter of zeros, and 20 rounds.
TEST_CASE("random: the cipher gives its authors' known answer") {
  CHECK(split({0, 0}, 1) == std::vector<Key>{{0x6b200159, 0x99ba4efe}});
  CHECK(random_bits({0, 0}, 1) ==
        std::vector<uint32_t>{0x6b200159U ^ 0x99ba4efeU});
}

TEST_CASE("random: a seed is its low 32 bits, as in JAX by default") {
  CHECK(random_key(0) == Key{0, 0});
  CHECK(random_key(-1) == Key{0, 0xFFFFFFFF});
  CHECK(random_key((int64_t{1} << 32) + 5) == Key{0, 5});
}

TEST_CASE("random: numbers do not depend on how many are drawn") {
  CHECK(rc::check([] {
    const Key key = any_key();
    const auto few = *rc::gen::inRange<int64_t>(0, 50);
    const auto more = few + *rc::gen::inRange<int64_t>(0, 50);
    const auto is_head = [](const auto& head, const auto& all) {
      return head.size() <= all.size() &&
             std::equal(head.begin(), head.end(), all.begin());
    };
    RC_ASSERT(is_head(random_bits(key, few), random_bits(key, more)));
    RC_ASSERT(is_head(random_normal(key, few), random_normal(key, more)));
    RC_ASSERT(is_head(split(key, static_cast<int>(few)),
                      split(key, static_cast<int>(more))));
    RC_ASSERT(fold_in(key, 7) == split(key, 8)[7]);
  }));
}

TEST_CASE("random: uniform numbers stay in their range and fill it") {
  CHECK(rc::check([] {
    const auto low = static_cast<float>(*rc::gen::inRange(-100, 100)) / 8;
    const float high = low + static_cast<float>(*rc::gen::inRange(1, 100)) / 8;
    const std::vector<float> numbers =
        random_uniform(any_key(), 1000, low, high);
    const auto [least, most] =
        std::minmax_element(numbers.begin(), numbers.end());
    RC_ASSERT(*least >= low);
    RC_ASSERT(*most <= high);
    RC_ASSERT(*most - *least > 0.9F * (high - low));
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

}  // namespace
}  // namespace shardplan
