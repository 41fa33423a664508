// SPDX-License-Identifier: Apache-2.0
#include "graph/elementwise.h"

#include <bit>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include <doctest/doctest.h>

#include "tests/support/generators.h"
#include "tests/support/property.h"

namespace shardplan {
namespace {

Walk joined(const Shape& shape, const Strides& strides) {
  return joined_dims(shape, std::span(&strides, 1));
}

TEST_CASE("dimensions that lie one in the other are joined") {
  CHECK(joined({2, 3, 4}, {12, 4, 1}).sizes == Shape{24});
  CHECK(joined({2, 3, 4}, {24, 4, 1}).sizes == Shape{2, 12});
  CHECK(joined({2, 3, 4}, {12, 1, 3}).sizes == Shape{2, 3, 4});
  CHECK(joined({2, 1, 4}, {4, 99, 1}).sizes == Shape{8});
  CHECK(joined({3, 4}, {0, 0}).sizes == Shape{12});
  CHECK(joined({}, {}).sizes == Shape{1});
  CHECK(joined({3, 0, int64_t{1} << 62}, {1, 1, 1}).sizes == Shape{0});
  // Two tensors: only where both lie so.
  const Strides strides[] = {{4, 1}, {1, 3}};
  CHECK(joined_dims({3, 4}, strides).sizes == Shape{3, 4});
}

TEST_CASE("a group of dimensions has one stride, or none") {
  const Shape shape = {2, 3, 4, 5};
  const Strides strides = {60, 20, 1, 4};
  CHECK(joined_stride(shape, strides, 0, 2) == 20);
  CHECK(joined_stride(shape, strides, 2, 3) == 1);
  CHECK(joined_stride(shape, strides, 2, 4) == std::nullopt);
  CHECK(joined_stride(shape, strides, 1, 1) == 0);
}

TEST_CASE("rows visit every element once, in row-major order") {
  CHECK(holds([] {
    const Shape shape = testing::draw_shape();
    // One tensor is row-major; of the other every stride is its dimension's.
    std::array<Strides, 2> strides;
    int64_t elements = 1;
    for (size_t i = shape.size(); i-- > 0;) {
      strides[0].insert(strides[0].begin(), elements);
      strides[1].insert(strides[1].begin(), draw_in<int64_t>(0, 9));
      elements *= shape[i];
    }
    int64_t next = 0;
    for_each_row<2>(shape, strides,
                    [&](int64_t count, const std::array<int64_t, 2>& offsets,
                        const std::array<int64_t, 2>& steps) {
                      for (int64_t i = 0; i < count; ++i, ++next) {
                        ENSURE(offsets[0] + i * steps[0] == next);
                        int64_t other = 0;
                        int64_t rest = next;
                        for (size_t d = shape.size(); d-- > 0;) {
                          other += rest % shape[d] * strides[1][d];
                          rest /= shape[d];
                        }
                        ENSURE(offsets[1] + i * steps[1] == other);
                      }
                    });
    ENSURE(next == elements);
  }));
}

TEST_CASE("rows on several threads are the same elements, each once") {
  struct Case {
    Shape shape;
    Strides strides;
  };
  // One row; rows of a transposed tensor; few large rows.
  for (const Case& c : {Case{{400, 300}, {300, 1}}, Case{{400, 300}, {1, 400}},
                        Case{{3, 2, 20'000}, {40'000, 20'000, 1}}}) {
    const int64_t elements = *element_count(c.shape);
    Strides plain(c.shape.size(), 1);
    for (size_t d = c.shape.size() - 1; d-- > 0;) {
      plain[d] = plain[d + 1] * c.shape[d + 1];
    }
    std::vector<int64_t> found(static_cast<size_t>(elements), -1);
    for_each_row<2>(
        c.shape, {plain, c.strides}, 4, 1,
        [&](int64_t count, const std::array<int64_t, 2>& offsets,
            const std::array<int64_t, 2>& steps) {
          for (int64_t i = 0; i < count; ++i) {
            auto& place = found[static_cast<size_t>(offsets[0] + i * steps[0])];
            place = place == -1 ? offsets[1] + i * steps[1] : -2;
          }
        });
    std::vector<int64_t> expected(static_cast<size_t>(elements));
    for_each_row<2>(
        c.shape, {plain, c.strides},
        [&](int64_t count, const std::array<int64_t, 2>& offsets,
            const std::array<int64_t, 2>& steps) {
          for (int64_t i = 0; i < count; ++i) {
            expected[static_cast<size_t>(offsets[0] + i * steps[0])] =
                offsets[1] + i * steps[1];
          }
        });
    CHECK(found == expected);
  }
}

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
  CHECK(holds([] {
    const auto number = std::bit_cast<float>(draw_any<uint32_t>());
    const auto storage = draw_of({Storage::BF16, Storage::F16});
    const float kept = rounded(number, storage);
    ENSURE(std::isnan(number) || same(rounded(kept, storage), kept));
    if (std::isfinite(kept)) {
      ENSURE(std::abs(double{kept} - double{number}) <=
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

int64_t remainder_of(int64_t x) {
  const int64_t rest = x % field::kPrime;
  return rest < 0 ? rest + field::kPrime : rest;
}

double any_residue() {
  return static_cast<double>(draw_in<int64_t>(0, field::kPrime));
}

TEST_CASE("field: residues are those of the integers") {
  CHECK(holds([] {
    const auto x = draw_in<int64_t>(-(int64_t{1} << 53), int64_t{1} << 53);
    ENSURE(field::residue(static_cast<double>(x)) ==
           static_cast<double>(remainder_of(x)));
  }));
  for (const int64_t multiple : {-8589959167LL, -1LL, 0LL, 1LL, 8589959167LL}) {
    for (const int64_t near : {-1, 0, 1}) {
      const int64_t x = multiple * field::kPrime + near;
      CAPTURE(x);
      CHECK(field::residue(static_cast<double>(x)) ==
            static_cast<double>(remainder_of(x)));
    }
  }
  CHECK(field::residue(0x1p1000) == field::power(2, 1000));
}

TEST_CASE("field: zero has one sign") {
  const auto p = static_cast<double>(field::kPrime);
  for (const double x : {0.0, -0.0, p, -p, -p * 0x1p60}) {
    CAPTURE(x);
    CHECK_FALSE(std::signbit(field::residue(x)));
    CHECK(field::residue(x) == 0);
  }
}

TEST_CASE("field: a block of the largest products is exact") {
  const auto largest = static_cast<double>(field::kPrime - 1);
  double sum = 0;
  for (int64_t i = 0; i < field::kBlock; ++i) sum += largest * largest;
  // (-1)^2, 8192 times.
  CHECK(field::residue(sum) == static_cast<double>(field::kBlock));
}

TEST_CASE("field: it is a field") {
  CHECK(holds([] {
    const double a = any_residue();
    const double b = any_residue();
    const double c = any_residue();
    ENSURE(field::multiply(a, field::add(b, c)) ==
           field::add(field::multiply(a, b), field::multiply(a, c)));
    ENSURE(field::multiply(a, field::inverse(a)) == (a == 0 ? 0 : 1));
    ENSURE(field::power(a, 3) == field::multiply(a, field::multiply(a, a)));
    ENSURE(field::power(a, -2) == field::inverse(field::multiply(a, a)));
  }));
  CHECK(field::power(0, 0) == 1);
  CHECK(field::power(0, -1) == 0);
  CHECK(field::power(1, std::numeric_limits<int64_t>::min()) == 1);
}

// In the field, a sum used to stand for a maximum, so that a psum in the place
// of a pmax was found right.
TEST_CASE("field: a maximum has parts as a sum has, and is none") {
  const auto maximum_of_all = [](const std::vector<double>& numbers) {
    double sum = 0;
    for (const double x : numbers) {
      sum = field::add(sum, field::maximum_term(x));
    }
    return field::maximum_of(sum);
  };
  CHECK(holds([&] {
    const double a = any_residue();
    const double b = any_residue();
    const double c = any_residue();
    const double most = field::maximum(a, b);
    ENSURE(most == field::maximum(b, a));
    ENSURE(field::maximum(most, c) == field::maximum(a, field::maximum(b, c)));
    ENSURE(field::maximum(most, c) == maximum_of_all({a, b, c}));
    ENSURE(maximum_of_all({a}) == a);
    ENSURE(field::maximum(field::maximum_of(0), a) == a);
    ENSURE(field::maximum_of(field::maximum_term(a)) == a);
    ENSURE(field::maximum_term(field::maximum_of(a)) == a);
  }));
  // What could be mistaken for it agrees as often as polynomials of degree 5
  // do.
  int sums = 0;
  int minima = 0;
  int means = 0;
  int equal = 0;
  const double half = field::inverse(2);
  for (double a = 0; a < 2000; ++a) {
    const double b = field::residue(a * 524'287 + 99);
    const double most = field::maximum(a, b);
    sums += most == field::add(a, b);
    minima += most == field::residue(-field::maximum(field::residue(-a),
                                                     field::residue(-b)));
    means += most == field::multiply(field::add(a, b), half);
    equal += most == a || most == b;
  }
  CHECK(sums == 0);
  CHECK(minima == 0);
  CHECK(means == 0);
  CHECK(equal == 0);
}

TEST_CASE("field: constants are fractions over powers of two") {
  CHECK(field::constant(3) == 3);
  CHECK(field::constant(-1) == static_cast<double>(field::kPrime - 1));
  CHECK(field::multiply(field::constant(0.125), 8) == 1);
  CHECK(field::multiply(field::constant(-2.75), 4) == field::residue(-11));
  CHECK(field::constant(0) == 0);
  CHECK(field::constant(std::numeric_limits<double>::infinity()) == 0);
  CHECK(holds([] {
    const auto x = static_cast<double>(draw_any<int32_t>());
    const auto y = static_cast<double>(draw_any<int16_t>()) / 1024;
    ENSURE(field::constant(x * y) ==
           field::multiply(field::constant(x), field::constant(y)));
    ENSURE(field::constant(x + y) ==
           field::add(field::constant(x), field::constant(y)));
  }));
}

}  // namespace

}  // namespace shardplan
