// SPDX-License-Identifier: Apache-2.0
#include "graph/stored.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <vector>

#include <doctest/doctest.h>

namespace shardplan {
namespace {

// Bits of numbers behind `skip` bytes of storage aligned for doubles.
template <typename Bits>
StoredTensor stored(DType dtype, const std::vector<Bits>& bits,
                    const Shape& shape, size_t skip = 0) {
  const auto bytes = std::make_shared<std::vector<double>>(bits.size() + 2);
  auto* data = reinterpret_cast<std::byte*>(bytes->data()) + skip;
  if (!bits.empty()) std::memcpy(data, bits.data(), bits.size() * sizeof(Bits));
  return {dtype, shape, data, bytes};
}

template <typename Bits>
StoredTensor list(DType dtype, const std::vector<Bits>& bits, size_t skip = 0) {
  return stored(dtype, bits, {static_cast<int64_t>(bits.size())}, skip);
}

// What a binary float of this many fraction bits means, by definition.
double meaning(uint16_t bits, int fraction_bits, int bias) {
  const int exponent_bits = 15 - fraction_bits;
  const int fraction = bits & ((1 << fraction_bits) - 1);
  const int exponent = (bits >> fraction_bits) & ((1 << exponent_bits) - 1);
  const double sign = (bits & 0x8000) != 0 ? -1 : 1;
  if (exponent == (1 << exponent_bits) - 1) {
    return fraction == 0 ? sign * std::numeric_limits<double>::infinity()
                         : std::numeric_limits<double>::quiet_NaN();
  }
  if (exponent == 0) {
    return sign * std::ldexp(fraction, 1 - bias - fraction_bits);
  }
  return sign * std::ldexp(fraction + (1 << fraction_bits),
                           exponent - bias - fraction_bits);
}

// Wrong numbers of all 65536.
template <typename T>
int wrong_numbers(DType dtype, int fraction_bits, int bias) {
  std::vector<uint16_t> all(65536);
  for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<uint16_t>(i);
  const Tensor loaded =
      load(list(dtype, all, 1),
           sizeof(T) == sizeof(float) ? Element::F32 : Element::F64);
  int wrong = 0;
  for (size_t i = 0; i < all.size(); ++i) {
    const auto wanted = static_cast<T>(meaning(all[i], fraction_bits, bias));
    const T got = loaded.data<T>()[i];
    const bool same =
        std::isnan(wanted)
            ? std::isnan(got)
            : got == wanted && std::signbit(got) == std::signbit(wanted);
    if (!same) ++wrong;
  }
  return wrong;
}

TEST_CASE("every number of 16 bits is loaded exactly") {
  CHECK(wrong_numbers<float>(DType::F16, 10, 15) == 0);
  CHECK(wrong_numbers<double>(DType::F16, 10, 15) == 0);
  CHECK(wrong_numbers<float>(DType::BF16, 7, 127) == 0);
  CHECK(wrong_numbers<double>(DType::BF16, 7, 127) == 0);
}

TEST_CASE("a file's float32 is a view where it is aligned") {
  const std::vector<float> numbers = {1.5F, -2, 0x1p-149F, 3e38F, 5, 6};
  const StoredTensor aligned = stored(DType::F32, numbers, {2, 3}, 4);
  const Tensor view = load(aligned, Element::F32);
  CHECK(static_cast<const void*>(view.data<float>()) == aligned.data);
  CHECK(view.shape == Shape{2, 3});
  CHECK(view.strides == std::vector<int64_t>{3, 1});
  CHECK(values_of(view) == std::vector<double>(numbers.begin(), numbers.end()));

  for (size_t skip = 1; skip < 4; ++skip) {
    const StoredTensor crooked = stored(DType::F32, numbers, {2, 3}, skip);
    const Tensor copied = load(crooked, Element::F32);
    CHECK(static_cast<const void*>(copied.data<float>()) != crooked.data);
    CHECK(bitwise_equal(copied, view));
  }
  const Tensor doubles = load(aligned, Element::F64);
  CHECK(doubles.element == Element::F64);
  CHECK(values_of(doubles) == values_of(view));
}

TEST_CASE("a view keeps the file") {
  const std::vector<float> numbers = {1, 2};
  std::weak_ptr<const void> file;
  Tensor view;
  {
    const StoredTensor tensor = list(DType::F32, numbers);
    file = tensor.owner;
    view = load(tensor, Element::F32);
  }
  CHECK_FALSE(file.expired());
  view = {};
  CHECK(file.expired());
}

TEST_CASE("doubles are rounded to nearest as float32") {
  const std::vector<double> numbers = {1 + 0x1p-24, 1 + 3 * 0x1p-24, 0.1,
                                       1e300};
  const StoredTensor tensor = list(DType::F64, numbers, 1);
  CHECK(values_of(load(tensor, Element::F64)) == numbers);
  const Tensor floats = load(tensor, Element::F32);
  CHECK(values_of(floats) ==
        std::vector<double>{1, 1 + 0x1p-22, 0.1F,
                            std::numeric_limits<double>::infinity()});
}

TEST_CASE("scalars and tensors without elements") {
  const std::vector<uint16_t> one = {0x3f80};
  const Tensor scalar = load(stored(DType::BF16, one, {}), Element::F32);
  CHECK(scalar.shape.empty());
  CHECK(values_of(scalar) == std::vector<double>{1});
  const Tensor empty =
      load(stored(DType::F32, std::vector<float>(), {0, 4}), Element::F64);
  CHECK(empty.shape == Shape{0, 4});
  CHECK(empty.elements() == 0);
}

TEST_CASE("integers are no numbers to compute with") {
  for (const DType dtype : {DType::F64, DType::F32, DType::F16, DType::BF16}) {
    CHECK(is_computable(dtype));
  }
  for (const DType dtype :
       {DType::I64, DType::Bool, DType::F8E4M3, DType::C64, DType::Q4_0}) {
    CHECK_FALSE(is_computable(dtype));
  }
}

}  // namespace
}  // namespace shardplan
