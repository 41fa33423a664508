// SPDX-License-Identifier: Apache-2.0
#include "graph/rounding.h"

#include <bit>
#include <cmath>
#include <limits>

#include <doctest/doctest.h>
#include <rapidcheck.h>

namespace shardplan {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

// IEEE 754-2019, 3.4: what a pattern of 16 bits stands for.
struct Layout16 {
  Storage storage;
  int fraction_bits;
  int bias;
};
constexpr Layout16 kBf16 = {Storage::BF16, 7, 127};
constexpr Layout16 kF16 = {Storage::F16, 10, 15};

double decoded(const Layout16& layout, uint32_t pattern) {
  const uint32_t fraction = pattern & ((1U << layout.fraction_bits) - 1U);
  const uint32_t exponent_mask = (1U << (15 - layout.fraction_bits)) - 1U;
  const uint32_t exponent = pattern >> layout.fraction_bits & exponent_mask;
  const double sign = pattern >> 15U ? -1.0 : 1.0;
  if (exponent == exponent_mask) {
    return fraction == 0 ? sign * static_cast<double>(kInf)
                         : std::numeric_limits<double>::quiet_NaN();
  }
  const uint32_t hidden = exponent == 0 ? 0 : 1U << layout.fraction_bits;
  const int power = std::max(static_cast<int>(exponent), 1) - layout.bias -
                    layout.fraction_bits;
  return sign * std::ldexp(static_cast<double>(fraction + hidden), power);
}

// The pattern of +infinity: those below are finite and in order.
uint32_t infinite(const Layout16& layout) {
  return 0x7fffU >> layout.fraction_bits << layout.fraction_bits;
}

bool same(float a, float b) {
  return std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b);
}

// How many of the 65,536 patterns do not stay what they are.
int changed(const Layout16& layout) {
  int wrong = 0;
  for (uint32_t pattern = 0; pattern < 0x10000U; ++pattern) {
    const auto number = static_cast<float>(decoded(layout, pattern));
    const float kept = rounded(number, layout.storage);
    wrong += std::isnan(number) ? !std::isnan(kept) : !same(kept, number);
  }
  return wrong;
}

// Of every two neighbours, the number halfway goes to the one with an even
// fraction, those beside it to the nearer one. Beyond the greatest number lies
// what would be next if exponents went on.
int misplaced(const Layout16& layout) {
  int wrong = 0;
  for (uint32_t pattern = 0; pattern < infinite(layout); ++pattern) {
    const double low = decoded(layout, pattern);
    const bool last = pattern + 1 == infinite(layout);
    const double high = last ? 2 * low - decoded(layout, pattern - 1)
                             : decoded(layout, pattern + 1);
    const auto down = static_cast<float>(low);
    const float up = last ? kInf : static_cast<float>(high);
    const auto middle = static_cast<float>((low + high) / 2);
    const float even = pattern % 2 == 0 ? down : up;
    for (const float sign : {1.0F, -1.0F}) {
      const auto goes = [&](float number, float to) {
        return same(rounded(sign * number, layout.storage), sign * to);
      };
      wrong += !goes(middle, even);
      wrong += !goes(std::nextafter(middle, 0.0F), down);
      wrong += !goes(std::nextafter(middle, kInf), up);
    }
  }
  return wrong;
}

TEST_CASE("rounding: every number of 16 bits stays what it is") {
  CHECK(changed(kBf16) == 0);
  CHECK(changed(kF16) == 0);
}

TEST_CASE("rounding: to the nearest of all numbers, ties to even") {
  CHECK(misplaced(kBf16) == 0);
  CHECK(misplaced(kF16) == 0);
}

TEST_CASE("rounding: known numbers") {
  CHECK(rounded(1.00390625F, Storage::BF16) == 1.0F);
  CHECK(rounded(1.01171875F, Storage::BF16) == 1.015625F);
  CHECK(rounded(0.1F, Storage::F16) == 0.0999755859375F);
  CHECK(rounded(65519.0F, Storage::F16) == 65504.0F);
  CHECK(rounded(65520.0F, Storage::F16) == kInf);
  CHECK(rounded(-3.4e38F, Storage::F16) == -kInf);
  CHECK(rounded(3.4e38F, Storage::BF16) == kInf);
  CHECK(rounded(0x1p-24F, Storage::F16) == 0x1p-24F);
  CHECK(same(rounded(-0x1p-25F, Storage::F16), -0.0F));
  CHECK(rounded(0x1.8p-25F, Storage::F16) == 0x1p-24F);
  CHECK(rounded(0.1F, Storage::F32) == 0.1F);
}

TEST_CASE("rounding: a NaN stays one, whatever its payload") {
  for (const uint32_t bits : {0x7f800001U, 0x7fc00000U, 0xff800001U, ~0U}) {
    for (const Storage storage : {Storage::BF16, Storage::F16}) {
      const float kept = rounded(std::bit_cast<float>(bits), storage);
      CHECK(std::isnan(kept));
      CHECK(std::signbit(kept) == (bits >> 31U == 1U));
    }
  }
}

TEST_CASE("rounding: within half a step of any number, and twice is as once") {
  CHECK(rc::check([] {
    const auto number = std::bit_cast<float>(*rc::gen::arbitrary<uint32_t>());
    const auto storage = *rc::gen::element(Storage::BF16, Storage::F16);
    const float kept = rounded(number, storage);
    RC_ASSERT(std::isnan(number) || same(rounded(kept, storage), kept));
    if (std::isfinite(kept)) {
      RC_ASSERT(std::abs(double{kept} - double{number}) <=
                std::max(unit_roundoff(storage) * std::abs(double{number}),
                         underflow_unit(storage)));
    }
  }));
}

TEST_CASE("rounding: the unit roundoff is half the step above 1") {
  for (const Layout16& layout : {kBf16, kF16}) {
    const uint32_t one = static_cast<uint32_t>(layout.bias)
                         << layout.fraction_bits;
    REQUIRE(decoded(layout, one) == 1.0);
    CHECK(unit_roundoff(layout.storage) ==
          (decoded(layout, one + 1) - 1.0) / 2);
    CHECK(underflow_unit(layout.storage) == decoded(layout, 1) / 2);
  }
  CHECK(unit_roundoff(Storage::F32) ==
        std::numeric_limits<float>::epsilon() / 2);
  CHECK(underflow_unit(Storage::F32) ==
        double{std::numeric_limits<float>::denorm_min()} / 2);
}

TEST_CASE("rounding: storage types are found by name") {
  for (const Storage s : {Storage::F32, Storage::BF16, Storage::F16}) {
    CHECK(find_storage(storage_name(s)) == s);
  }
  CHECK(storage_name(Storage::BF16) == "bf16");
  CHECK(storage_bytes(Storage::F32) == 4);
  CHECK(storage_bytes(Storage::BF16) == 2);
  CHECK(storage_bytes(Storage::F16) == 2);
  CHECK_FALSE(find_storage("f64").has_value());
}

Tensor thirds(const Shape& shape) {
  Tensor tensor = make_tensor(Element::F32, shape);
  for (int64_t i = 0; i < tensor.elements(); ++i) {
    tensor.data<float>()[i] = static_cast<float>(i) / 3.0F;
  }
  return tensor;
}

TEST_CASE("rounding: a view rounds what it sees, and nothing else") {
  const Tensor whole = thirds({4, 6});
  const Tensor before = copy(whole);
  round_to(slice(slice(whole, 1, 2, 5), 0, 1, 3), Storage::F16);
  for (int64_t i = 0; i < whole.elements(); ++i) {
    const int64_t row = i / 6;
    const int64_t column = i % 6;
    const bool seen = row >= 1 && row < 3 && column >= 2 && column < 5;
    const float was = before.data<float>()[i];
    CHECK(whole.data<float>()[i] == (seen ? rounded(was, Storage::F16) : was));
  }
}

TEST_CASE("rounding: whole tensors, with any number of threads") {
  const Tensor one = thirds({3, 90'001});
  const Tensor four = copy(one);
  const Tensor across = copy(one);
  round_to(one, Storage::BF16);
  round_to(four, Storage::BF16, 4);
  round_to(permuted(across, std::vector<int>{1, 0}), Storage::BF16);
  CHECK(bitwise_equal(one, four));
  CHECK(bitwise_equal(one, across));
  CHECK(one.data<float>()[265'000] == rounded(265'000 / 3.0F, Storage::BF16));
  const Tensor plain = thirds({5});
  round_to(plain, Storage::F32);
  CHECK(bitwise_equal(plain, thirds({5})));
}

}  // namespace
}  // namespace shardplan
