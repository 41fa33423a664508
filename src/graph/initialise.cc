// SPDX-License-Identifier: Apache-2.0
#include "graph/initialise.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <variant>

#include "base/check.h"
#include "base/checked.h"

namespace shardplan {
namespace {

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

struct Fans {
  double in;
  double out;
};

// REQUIRES: two dimensions at least, and some element.
Fans fans_of(const Shape& shape) {
  const auto in = static_cast<double>(shape[shape.size() - 2]);
  const auto out = static_cast<double>(shape[shape.size() - 1]);
  const auto all = static_cast<double>(*element_count(shape));
  const double field = all / in / out;
  return {in * field, out * field};
}

double denominator(const Fans& fans, FanMode mode) {
  switch (mode) {
    case FanMode::In:
      return fans.in;
    case FanMode::Out:
      return fans.out;
    case FanMode::Average:
      break;
  }
  return (fans.in + fans.out) / 2;
}

std::vector<float> scaled(std::vector<float> numbers, float scale) {
  for (float& x : numbers) x *= scale;
  return numbers;
}

}  // namespace

std::vector<std::string> initialiser_names() {
  std::vector<std::string> names;
  for (const NamedInitialiser& each : initialisers()) {
    names.emplace_back(each.name);
  }
  return names;
}

std::optional<std::vector<float>> variance_scaling(Key key, const Shape& shape,
                                                   double scale, FanMode mode,
                                                   Distribution distribution) {
  if (shape.size() < 2) return std::nullopt;
  const std::optional<int64_t> count = element_count(shape);
  SHARDPLAN_CHECK(count.has_value());
  if (*count == 0) return std::vector<float>();
  // As in JAX, float32 from here on.
  const auto variance =
      static_cast<float>(scale / denominator(fans_of(shape), mode));
  switch (distribution) {
    case Distribution::TruncatedNormal: {
      // The standard deviation of a normal distribution cut at -2 and 2.
      constexpr auto kTruncated = static_cast<float>(.87962566103423978);
      return scaled(random_truncated_normal(key, *count, -2, 2),
                    std::sqrt(variance) / kTruncated);
    }
    case Distribution::Normal:
      return scaled(random_normal(key, *count), std::sqrt(variance));
    case Distribution::Uniform:
      break;
  }
  return scaled(random_uniform(key, *count, -1), std::sqrt(3 * variance));
}

std::optional<std::vector<float>> initialise(const Initialiser& initialiser,
                                             Key key, const Shape& shape) {
  const auto all = initialisers();
  const auto named =
      std::find_if(all.begin(), all.end(), [&](const NamedInitialiser& each) {
        return each.name == initialiser.name;
      });
  SHARDPLAN_CHECK(named != all.end());
  const std::optional<int64_t> count = element_count(shape);
  SHARDPLAN_CHECK(count.has_value());

  std::optional<std::vector<float>> numbers;
  if (const auto* constant = std::get_if<Constant>(&named->how)) {
    numbers.emplace(static_cast<size_t>(*count), constant->value);
  } else if (const auto* scaling = std::get_if<Scaling>(&named->how)) {
    numbers = variance_scaling(key, shape, scaling->scale, scaling->mode,
                               scaling->distribution);
  } else {
    numbers = scaled(random_normal(key, *count),
                     static_cast<float>(initialiser.stddev));
  }
  if (!numbers || initialiser.scale == 1) return numbers;
  return scaled(*std::move(numbers), static_cast<float>(initialiser.scale));
}

std::optional<std::vector<float>> initialise_shards(
    const Initialiser& initialiser, Key key, const Shape& shard_shape,
    const PerShard& how) {
  std::vector<float> all;
  std::optional<std::vector<float>> shard;
  for (int index = 0; index < how.count; ++index) {
    if (how.split_rngs || !shard) {
      const Key own =
          how.split_rngs ? fold_in(key, static_cast<uint32_t>(index)) : key;
      shard = initialise(initialiser, own, shard_shape);
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
