// SPDX-License-Identifier: Apache-2.0
#include "graph/elementwise.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>

#include "base/parallel.h"

namespace shardplan {

Walk joined_dims(const Shape& shape, std::span<const Strides> strides) {
  Walk walk;
  walk.strides.resize(strides.size());
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) {
    walk.sizes = {0};
    walk.strides.assign(strides.size(), {0});
    return walk;
  }
  for (size_t dim = 0; dim < shape.size(); ++dim) {
    if (shape[dim] == 1) continue;
    bool joins = !walk.sizes.empty();
    for (size_t t = 0; t < strides.size() && joins; ++t) {
      joins = walk.strides[t].back() == strides[t][dim] * shape[dim];
    }
    if (joins) {
      walk.sizes.back() *= shape[dim];
      for (size_t t = 0; t < strides.size(); ++t) {
        walk.strides[t].back() = strides[t][dim];
      }
      continue;
    }
    walk.sizes.push_back(shape[dim]);
    for (size_t t = 0; t < strides.size(); ++t) {
      walk.strides[t].push_back(strides[t][dim]);
    }
  }
  if (walk.sizes.empty()) {
    walk.sizes.push_back(1);
    for (Strides& of_tensor : walk.strides) of_tensor.push_back(0);
  }
  return walk;
}

std::optional<int64_t> joined_stride(const Shape& shape, const Strides& strides,
                                     size_t begin, size_t end) {
  const auto at = [](size_t i) { return static_cast<std::ptrdiff_t>(i); };
  const Strides part(strides.begin() + at(begin), strides.begin() + at(end));
  const Walk walk =
      joined_dims(Shape(shape.begin() + at(begin), shape.begin() + at(end)),
                  std::span(&part, 1));
  if (walk.sizes.size() > 1) return std::nullopt;
  return walk.strides[0][0];
}

// Rounding uses no branches or tables, so that compilers vectorise its loops.

namespace {

struct Format {
  Storage storage;
  std::string_view name;
  int64_t bytes;
  double unit_roundoff;
  double underflow_unit;
};

// IEEE 754-2019, table 3.5; bfloat16 is the upper half of a binary32.
constexpr std::array<Format, 3> kFormats = {
    Format{Storage::F32, "f32", 4, 0x1p-24, 0x1p-150},
    Format{Storage::BF16, "bf16", 2, 0x1p-8, 0x1p-134},
    Format{Storage::F16, "f16", 2, 0x1p-11, 0x1p-25}};

const Format& format_of(Storage storage) {
  return kFormats[static_cast<size_t>(storage)];
}

constexpr uint32_t kSign = 0x80000000U;
constexpr uint32_t kInfinityBits = 0x7f800000U;
constexpr uint32_t kQuiet = 0x00400000U;

// Rounds to the bits of a magnitude above the lowest `dropped`; a carry may
// reach the exponent, up to infinity.
template <uint32_t dropped>
uint32_t to_nearest(uint32_t magnitude) {
  const uint32_t odd = magnitude >> dropped & 1U;
  const uint32_t half = (1U << (dropped - 1U)) - 1U;
  return (magnitude + half + odd) & ~((1U << dropped) - 1U);
}

// Quiets a NaN and keeps the upper bits of its payload; callers keep its sign.
template <uint32_t dropped>
uint32_t quiet_nan(uint32_t magnitude) {
  return (magnitude | kQuiet) & ~((1U << dropped) - 1U);
}

struct ToBf16 {
  static float round(float number) {
    const auto bits = std::bit_cast<uint32_t>(number);
    const uint32_t magnitude = bits & ~kSign;
    const uint32_t result = magnitude > kInfinityBits
                                ? quiet_nan<16>(magnitude)
                                : to_nearest<16>(magnitude);
    return std::bit_cast<float>(result | (bits & kSign));
  }
};

struct ToF16 {
  static float round(float number) {
    constexpr uint32_t kLeastNormal = 0x38800000U;  // 2^-14
    constexpr uint32_t kGreatest = 0x477fe000U;     // 65504
    const auto bits = std::bit_cast<uint32_t>(number);
    const uint32_t magnitude = bits & ~kSign;
    const uint32_t normal = to_nearest<13>(magnitude);
    const uint32_t in_range = normal > kGreatest ? kInfinityBits : normal;
    // Neighbours of 1/2 in float32 are 2^-24 apart, like the subnormals, so the
    // addition rounds and the subtraction is exact.
    const float shifted = std::bit_cast<float>(magnitude) + 0.5F;
    const auto subnormal = std::bit_cast<uint32_t>(shifted - 0.5F);
    const uint32_t number_bits =
        magnitude < kLeastNormal ? subnormal : in_range;
    const uint32_t result =
        magnitude > kInfinityBits ? quiet_nan<13>(magnitude) : number_bits;
    return std::bit_cast<float>(result | (bits & kSign));
  }
};

template <typename Rule>
void round_row(float* numbers, int64_t count, int64_t step) {
  if (step == 1) {
    for (int64_t i = 0; i < count; ++i) numbers[i] = Rule::round(numbers[i]);
  } else {
    for (int64_t i = 0; i < count; ++i) {
      numbers[i * step] = Rule::round(numbers[i * step]);
    }
  }
}

// Rounding this many numbers takes longer than starting a thread.
constexpr int64_t kRoundedAtOnce = int64_t{1} << 18U;

template <typename Rule>
void round_all(const Tensor& tensor, int threads) {
  auto* const data = tensor.data<float>();
  const int64_t elements = tensor.elements();
  if (!is_row_major(tensor)) {
    for_each_row<1>(tensor.shape, {tensor.strides},
                    [&](int64_t count, const std::array<int64_t, 1>& offsets,
                        const std::array<int64_t, 1>& steps) {
                      round_row<Rule>(data + offsets[0], count, steps[0]);
                    });
    return;
  }
  const int64_t pieces = (elements + kRoundedAtOnce - 1) / kRoundedAtOnce;
  parallel_for(pieces, threads, [&](int64_t piece) {
    const int64_t begin = piece * kRoundedAtOnce;
    round_row<Rule>(data + begin, std::min(kRoundedAtOnce, elements - begin), 1);
  });
}

}  // namespace

std::optional<Storage> find_storage(std::string_view name) {
  for (const Format& format : kFormats) {
    if (format.name == name) return format.storage;
  }
  return std::nullopt;
}

std::string_view storage_name(Storage storage) {
  return format_of(storage).name;
}

int64_t storage_bytes(Storage storage) { return format_of(storage).bytes; }

double unit_roundoff(Storage storage) {
  return format_of(storage).unit_roundoff;
}

double underflow_unit(Storage storage) {
  return format_of(storage).underflow_unit;
}

float rounded(float number, Storage storage) {
  if (storage == Storage::BF16) return ToBf16::round(number);
  return storage == Storage::F16 ? ToF16::round(number) : number;
}

void round_to(const Tensor& tensor, Storage storage, int threads) {
  if (storage == Storage::BF16) round_all<ToBf16>(tensor, threads);
  if (storage == Storage::F16) round_all<ToF16>(tensor, threads);
}

}  // namespace shardplan

namespace shardplan::field {
namespace {

double unsigned_power(double a, uint64_t exponent) {
  double result = 1;
  for (double square = a; exponent != 0; exponent >>= 1) {
    if ((exponent & 1) != 0) result = multiply(result, square);
    square = multiply(square, square);
  }
  return result;
}

// x^5 is a permutation, since 5 does not divide p - 1. Its inverse is x^kRoot,
// where kRoot is the inverse of 5 modulo p - 1.
constexpr uint64_t kRoot = 419'429;
static_assert((kPrime - 1) % 5 != 0);
static_assert(5 * kRoot % (kPrime - 1) == 1);
// Without the shift, the surrogate of a maximum would be odd and hence equal to
// that of a minimum.
constexpr double kShift = 27'182;

}  // namespace

double maximum_term(double x) { return unsigned_power(add(x, kShift), 5); }

double maximum_of(double sum_of_terms) {
  return residue(unsigned_power(sum_of_terms, kRoot) - kShift);
}

double power(double a, int64_t exponent) {
  if (exponent >= 0) return unsigned_power(a, static_cast<uint64_t>(exponent));
  return unsigned_power(inverse(a), -static_cast<uint64_t>(exponent));
}

// Fermat: a^(p-1) = 1 unless p divides a.
double inverse(double a) {
  return unsigned_power(a, static_cast<uint64_t>(kPrime - 2));
}

double constant(double x) {
  if (!std::isfinite(x)) return 0;
  int exponent = 0;
  const double mantissa = std::frexp(x, &exponent);
  // The product of the 53 bits of mantissa, as an integer, and the remaining
  // power of two.
  return multiply(residue(std::ldexp(mantissa, 53)), power(2, exponent - 53));
}

}  // namespace shardplan::field
