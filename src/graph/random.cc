// SPDX-License-Identifier: Apache-2.0
// Draws bits, uniform and normal numbers, and the values of initialisers.
#include "graph/random.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <span>
#include <variant>

#include "base/checked.h"
#include "base/parallel.h"
#include "base/words.h"

namespace shardplan {
namespace {

// Applies Threefry-2x32 with 20 rounds to one counter or, with `Counters`, to
// several; x0 and x1 are the counter's two halves.
template <typename Word>
void threefry(RandomKey key, Word& x0, Word& x1) {
  constexpr uint32_t kRotations[2][4] = {{13, 15, 26, 6}, {17, 29, 16, 24}};
  constexpr uint32_t kParity = 0x1BD11BDA;
  const uint32_t keys[3] = {key[0], key[1], key[0] ^ key[1] ^ kParity};
  x0 += keys[0];
  x1 += keys[1];
  for (uint32_t group = 1; group <= 5; ++group) {
    for (const uint32_t rotation : kRotations[(group - 1) % 2]) {
      x0 += x1;
      x1 = ((x1 << rotation) | (x1 >> (32 - rotation))) ^ x0;
    }
    x0 += keys[group % 3];
    x1 += keys[(group + 1) % 3] + group;
  }
}

// A vector of counters, which GCC and Clang process at once.
constexpr int64_t kCounters = 8;
using Counters __attribute__((vector_size(kCounters * sizeof(uint32_t)))) =
    uint32_t;

// Draws the bits of counters first .. first + bits.size() - 1.
void draw_bits(RandomKey key, uint64_t first, std::span<uint32_t> bits) {
  constexpr Counters kSteps = {0, 1, 2, 3, 4, 5, 6, 7};
  size_t i = 0;
  // The counters of eight lanes share their upper half.
  for (; i + kCounters <= bits.size(); i += kCounters) {
    const uint64_t counter = first + i;
    const auto low = static_cast<uint32_t>(counter);
    if (low > std::numeric_limits<uint32_t>::max() - kCounters) break;
    Counters x0 = Counters{} + static_cast<uint32_t>(counter >> 32);
    Counters x1 = kSteps + low;
    threefry(key, x0, x1);
    const Counters both = x0 ^ x1;
    std::memcpy(bits.data() + i, &both, sizeof(both));
  }
  for (; i < bits.size(); ++i) {
    const uint64_t counter = first + i;
    auto x0 = static_cast<uint32_t>(counter >> 32);
    auto x1 = static_cast<uint32_t>(counter);
    threefry(key, x0, x1);
    bits[i] = x0 ^ x1;
  }
}

// Returns `count` numbers, of which draw(begin, part) writes those from `begin`
// on. Each depends only on its index, so parts and threads change nothing.
template <typename T, typename Draw>
std::vector<T> drawn(int64_t count, int threads, const Draw& draw) {
  constexpr int64_t kPiece = 1 << 16;
  std::vector<T> all(to_size(count));
  parallel_for(ceil_div(count, kPiece), threads, [&](int64_t i) {
    const size_t begin = to_size(i * kPiece);
    draw(begin, std::span(all).subspan(
                    begin, std::min<size_t>(kPiece, all.size() - begin)));
  });
  return all;
}

// Returns a b + c rounded once, like the FMA that XLA's compiler makes of it.
// The product is exact in a double; so is the sum, except in cases too rare to
// matter.
float multiply_add(float a, float b, float c) {
  return static_cast<float>(static_cast<double>(a) * b + c);
}

// Evaluates a polynomial; coefficients run from the highest power down.
float polynomial(std::span<const float> coefficients, float x) {
  float sum = coefficients.front();
  for (const float next : coefficients.subspan(1)) {
    sum = multiply_add(sum, x, next);
  }
  return sum;
}

// Returns erf as XLA does in float32: a rational function of x^2, as in Eigen.
float erf(float x) {
  constexpr float kNumerator[] = {2.2905065861e-4F, 3.4082910107e-3F,
                                  5.0955695062e-2F, 1.8520832240e-1F,
                                  1.1283791435F};
  constexpr float kDenominator[] = {-1.1791602954e-7F,
                                    2.3547966471e-5F,
                                    1.0179625278e-3F,
                                    1.4070470171e-2F,
                                    1.1098505178e-1F,
                                    4.9746925110e-1F,
                                    1.0F};
  constexpr float kOne = 3.832506856900711F;  // beyond, erf is 1
  x = std::clamp(x, -kOne, kOne);
  const float square = x * x;
  return x * polynomial(kNumerator, square) / polynomial(kDenominator, square);
}

// Returns the inverse of erf (Giles, "Approximating the erfinv function", GPU
// Computing Gems 2, 2011, table of single precision; XLA uses the same one).
float erf_inv(float x) {
  constexpr float kCentre[] = {
      2.81022636e-08F,  3.43273939e-07F, -3.5233877e-06F,
      -4.39150654e-06F, 0.00021858087F,  -0.00125372503F,
      -0.00417768164F,  0.246640727F,    1.50140941F};
  constexpr float kTails[] = {-0.000200214257F, 0.000100950558F, 0.00134934322F,
                              -0.00367342844F,  0.00573950773F,  -0.0076224613F,
                              0.00943887047F,   1.00167406F,     2.83297682F};
  if (std::abs(x) == 1) {
    return std::copysign(std::numeric_limits<float>::infinity(), x);
  }
  // Uses double precision, so that the result is the same with every libm.
  const float w = -static_cast<float>(std::log1p(-static_cast<double>(x * x)));
  return x * (w < 5 ? polynomial(kCentre, w - 2.5F)
                    : polynomial(kTails, std::sqrt(w) - 3));
}

constexpr float kSqrt2 = 1.41421356F;

// Returns change(x) for numbers x of a uniform distribution.
template <typename Change>
std::vector<float> changed_uniform(RandomKey key, int64_t count, float low,
                                   float high, int threads, Change change) {
  const float width = high - low;
  return drawn<float>(count, threads, [&](size_t begin, std::span<float> own) {
    std::array<uint32_t, 1024> bits{};
    for (size_t done = 0; done < own.size(); done += bits.size()) {
      const auto now =
          own.subspan(done, std::min(bits.size(), own.size() - done));
      draw_bits(key, begin + done, std::span(bits).first(now.size()));
      std::transform(bits.begin(), bits.begin() + std::ssize(now), now.begin(),
                     [&](uint32_t x) {
                       // 23 bits become the fraction of a number in [1, 2).
                       const auto one_to_two =
                           std::bit_cast<float>((x >> 9) | 0x3F800000U);
                       return change(std::max(
                           low, multiply_add(one_to_two - 1, width, low)));
                     });
    }
  });
}

struct Constant {
  float value;
};
struct GivenStddev {};
struct Scaling {
  double scale;
  FanMode mode;
  Distribution distribution;
};

struct NamedInitialiser {
  std::string_view name;
  std::variant<Constant, GivenStddev, Scaling> how;
};

std::span<const NamedInitialiser> initialisers() {
  using enum FanMode;
  using enum Distribution;
  static constexpr NamedInitialiser kAll[] = {
      {"zeros", Constant{0}},
      {"ones", Constant{1}},
      {"normal", GivenStddev{}},
      {"lecun_normal", Scaling{1, In, TruncatedNormal}},
      {"lecun_uniform", Scaling{1, In, Uniform}},
      {"glorot_normal", Scaling{1, Average, TruncatedNormal}},
      {"glorot_uniform", Scaling{1, Average, Uniform}},
      {"he_normal", Scaling{2, In, TruncatedNormal}},
      {"he_uniform", Scaling{2, In, Uniform}},
  };
  return kAll;
}

// Returns the number of inputs or outputs, or their average. REQUIRES: at least
// two dimensions and one element.
double fan_of(const Shape& shape, FanMode mode) {
  const auto in = static_cast<double>(shape[shape.size() - 2]);
  const auto out = static_cast<double>(shape.back());
  const double field = static_cast<double>(*element_count(shape)) / in / out;
  switch (mode) {
    case FanMode::In:
      return in * field;
    case FanMode::Out:
      return out * field;
    case FanMode::Average:
      break;
  }
  return (in * field + out * field) / 2;
}

std::vector<float> scaled(std::vector<float> numbers, float scale) {
  for (float& x : numbers) x *= scale;
  return numbers;
}

}  // namespace

RandomKey random_key(int64_t seed) { return {0, static_cast<uint32_t>(seed)}; }

RandomKey fold_in(RandomKey key, uint32_t data) {
  RandomKey both = {0, data};
  threefry(key, both[0], both[1]);
  return both;
}

std::vector<uint32_t> random_bits(RandomKey key, int64_t count, int threads) {
  return drawn<uint32_t>(count, threads,
                         [&](size_t begin, std::span<uint32_t> bits) {
                           draw_bits(key, begin, bits);
                         });
}

std::vector<float> random_uniform(RandomKey key, int64_t count, float low,
                                  float high, int threads) {
  return changed_uniform(key, count, low, high, threads,
                         [](float x) { return x; });
}

std::vector<float> random_normal(RandomKey key, int64_t count, int threads) {
  return changed_uniform(key, count, std::nextafter(-1.0F, 0.0F), 1, threads,
                         [](float x) { return kSqrt2 * erf_inv(x); });
}

std::vector<float> random_truncated_normal(RandomKey key, int64_t count,
                                           float low, float high, int threads) {
  // XLA turns the division by a constant into a product.
  constexpr float kHalfSqrt2 = 1 / kSqrt2;
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const float first = std::nextafter(low, kInfinity);
  const float last = std::nextafter(high, -kInfinity);
  return changed_uniform(key, count, erf(low * kHalfSqrt2),
                         erf(high * kHalfSqrt2), threads, [&](float x) {
                           // Clips in the order of jnp.clip, which matters if
                           // no number is between the two.
                           return std::min(std::max(kSqrt2 * erf_inv(x), first),
                                           last);
                         });
}

std::vector<std::string> initialiser_names() {
  return all_names(initialisers());
}

std::optional<std::vector<float>> variance_scaling(RandomKey key,
                                                   const Shape& shape,
                                                   double scale, FanMode mode,
                                                   Distribution distribution,
                                                   int threads) {
  if (shape.size() < 2) return std::nullopt;
  const std::optional<int64_t> count = element_count(shape);
  SHARDPLAN_CHECK(count.has_value());
  if (*count == 0) return std::vector<float>();
  // Like JAX, uses float32 from here on.
  const auto variance = static_cast<float>(scale / fan_of(shape, mode));
  switch (distribution) {
    case Distribution::TruncatedNormal: {
      // The standard deviation of a normal distribution truncated at -2 and 2.
      constexpr auto kTruncated = static_cast<float>(.87962566103423978);
      return scaled(random_truncated_normal(key, *count, -2, 2, threads),
                    std::sqrt(variance) / kTruncated);
    }
    case Distribution::Normal:
      return scaled(random_normal(key, *count, threads), std::sqrt(variance));
    case Distribution::Uniform:
      break;
  }
  return scaled(random_uniform(key, *count, -1, 1, threads),
                std::sqrt(3 * variance));
}

std::optional<std::vector<float>> initialise(const Initialiser& initialiser,
                                             RandomKey key, const Shape& shape,
                                             int threads) {
  const auto* named = find_named(initialisers(), initialiser.name);
  SHARDPLAN_CHECK(named != nullptr);
  const std::optional<int64_t> count = element_count(shape);
  SHARDPLAN_CHECK(count.has_value());

  std::optional<std::vector<float>> numbers;
  if (const auto* constant = std::get_if<Constant>(&named->how)) {
    numbers.emplace(to_size(*count), constant->value);
  } else if (const auto* scaling = std::get_if<Scaling>(&named->how)) {
    numbers = variance_scaling(key, shape, scaling->scale, scaling->mode,
                               scaling->distribution, threads);
  } else {
    numbers = scaled(random_normal(key, *count, threads),
                     static_cast<float>(initialiser.stddev));
  }
  if (!numbers || initialiser.scale == 1) return numbers;
  return scaled(*std::move(numbers), static_cast<float>(initialiser.scale));
}

std::optional<std::vector<float>> initialise_shards(
    const Initialiser& initialiser, RandomKey key, const Shape& shard_shape,
    const PerShard& how, int threads) {
  std::vector<float> all;
  std::optional<std::vector<float>> shard;
  for (int index = 0; index < how.count; ++index) {
    if (how.split_rngs || !shard) {
      const RandomKey own =
          how.split_rngs ? fold_in(key, static_cast<uint32_t>(index)) : key;
      shard = initialise(initialiser, own, shard_shape, threads);
      if (!shard) return std::nullopt;
    }
    if (how.mask_except && *how.mask_except != index) {
      all.resize(all.size() + shard->size());
    } else {
      all.insert(all.end(), shard->begin(), shard->end());
    }
  }
  return all;
}

}  // namespace shardplan
