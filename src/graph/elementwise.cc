// SPDX-License-Identifier: Apache-2.0
// Joins the dimensions of loops, rounds to storage formats, and has the powers
// of the field.
#include "graph/elementwise.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>

#include "base/checked.h"
#include "base/parallel.h"
#include "base/words.h"

namespace shardplan {
namespace {

struct Format {
  std::string_view name;
  int64_t bytes;
  double unit_roundoff;
  double underflow_unit;
};

// Per Storage: IEEE 754-2019, table 3.5; bfloat16 is the upper half of a
// binary32.
constexpr std::array<Format, 3> kFormats = {Format{"f32", 4, 0x1p-24, 0x1p-150},
                                            Format{"bf16", 2, 0x1p-8, 0x1p-134},
                                            Format{"f16", 2, 0x1p-11, 0x1p-25}};

const Format& format_of(Storage storage) { return nth(kFormats, storage); }

// Rounding uses no branches or tables, so that compilers vectorise its loops.

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

float to_bf16(float number) {
  const auto bits = std::bit_cast<uint32_t>(number);
  const uint32_t magnitude = bits & ~kSign;
  const uint32_t result = magnitude > kInfinityBits ? quiet_nan<16>(magnitude)
                                                    : to_nearest<16>(magnitude);
  return std::bit_cast<float>(result | (bits & kSign));
}

float to_f16(float number) {
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
  const uint32_t number_bits = magnitude < kLeastNormal ? subnormal : in_range;
  const uint32_t result =
      magnitude > kInfinityBits ? quiet_nan<13>(magnitude) : number_bits;
  return std::bit_cast<float>(result | (bits & kSign));
}

template <float (*Round)(float)>
void round_row(float* numbers, int64_t count, int64_t step) {
  if (step == 1) {
    for (int64_t i = 0; i < count; ++i) numbers[i] = Round(numbers[i]);
  } else {
    for (int64_t i = 0; i < count; ++i) {
      numbers[i * step] = Round(numbers[i * step]);
    }
  }
}

// Rounding this many numbers takes longer than starting a thread.
constexpr int64_t kRoundedAtOnce = int64_t{1} << 18U;

template <float (*Round)(float)>
void round_all(const Tensor& tensor, int threads) {
  auto* const data = tensor.data<float>();
  const int64_t elements = tensor.elements();
  if (!is_row_major(tensor)) {
    for_each_row<1>(tensor.shape, {tensor.strides},
                    [&](int64_t count, const std::array<int64_t, 1>& offsets,
                        const std::array<int64_t, 1>& steps) {
                      round_row<Round>(data + offsets[0], count, steps[0]);
                    });
    return;
  }
  parallel_for(ceil_div(elements, kRoundedAtOnce), threads, [&](int64_t piece) {
    const int64_t begin = piece * kRoundedAtOnce;
    round_row<Round>(data + begin, std::min(kRoundedAtOnce, elements - begin),
                     1);
  });
}

double unsigned_power(double a, uint64_t exponent) {
  double result = 1;
  for (double square = a; exponent != 0; exponent >>= 1) {
    if ((exponent & 1) != 0) result = field::multiply(result, square);
    square = field::multiply(square, square);
  }
  return result;
}

// x^5 is a permutation, since 5 does not divide p - 1. Its inverse is x^kRoot,
// where kRoot is the inverse of 5 modulo p - 1.
constexpr uint64_t kRoot = 419'429;
static_assert((field::kPrime - 1) % 5 != 0);
static_assert(5 * kRoot % (field::kPrime - 1) == 1);
// Without the shift, the surrogate of a maximum would be odd and hence equal to
// that of a minimum.
constexpr double kShift = 27'182;

}  // namespace

Walk joined_dims(const Shape& shape, std::span<const Strides> strides) {
  if (contains(shape, 0)) {
    return {{0}, std::vector(strides.size(), Strides{0})};
  }
  Walk walk;
  walk.strides.resize(strides.size());
  for (size_t dim = 0; dim < shape.size(); ++dim) {
    if (shape[dim] == 1) continue;
    bool joins = !walk.sizes.empty();
    for (size_t t = 0; t < strides.size() && joins; ++t) {
      joins = walk.strides[t].back() == strides[t][dim] * shape[dim];
    }
    if (joins) {
      walk.sizes.back() *= shape[dim];
    } else {
      walk.sizes.push_back(shape[dim]);
    }
    for (size_t t = 0; t < strides.size(); ++t) {
      walk.strides[t].resize(walk.sizes.size());
      walk.strides[t].back() = strides[t][dim];
    }
  }
  if (walk.sizes.empty()) return {{1}, std::vector(strides.size(), Strides{0})};
  return walk;
}

std::optional<int64_t> joined_stride(const Shape& shape, const Strides& strides,
                                     size_t begin, size_t end) {
  const Strides part(strides.data() + begin, strides.data() + end);
  const Walk walk =
      joined_dims({shape.data() + begin, shape.data() + end}, {&part, 1});
  if (walk.sizes.size() > 1) return std::nullopt;
  return walk.strides[0][0];
}

std::optional<Storage> find_storage(std::string_view name) {
  for (const Storage each : {Storage::F32, Storage::BF16, Storage::F16}) {
    if (storage_name(each) == name) return each;
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
  if (storage == Storage::BF16) return to_bf16(number);
  return storage == Storage::F16 ? to_f16(number) : number;
}

void round_to(const Tensor& tensor, Storage storage, int threads) {
  if (storage == Storage::BF16) round_all<to_bf16>(tensor, threads);
  if (storage == Storage::F16) round_all<to_f16>(tensor, threads);
}

}  // namespace shardplan

namespace shardplan::field {

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
