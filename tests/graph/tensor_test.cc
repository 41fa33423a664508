// SPDX-License-Identifier: Apache-2.0
#include "graph/tensor.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <numeric>
#include <vector>

#include <doctest/doctest.h>

#include "base/checked.h"
#include "graph/buffers.h"
#include "graph/elementwise.h"
#include "tests/support/property.h"

namespace shardplan {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// 0, 1, 2, ... of this shape.
Tensor counted(Element element, const Shape& shape, double first = 0) {
  std::vector<double> values(static_cast<size_t>(*element_count(shape)));
  std::iota(values.begin(), values.end(), first);
  return make_tensor(element, shape, values);
}

Element any_element() { return draw_of({Element::F32, Element::F64}); }

Shape any_shape() {
  Shape shape(draw_in<size_t>(0, 5));
  for (int64_t& size : shape) size = draw_in<int64_t>(0, 5);
  return shape;
}

struct View {
  Tensor whole;
  Tensor part;
};

// A permuted slice of a larger tensor, all -1.
View any_view_of(Element element, const Shape& shape) {
  std::vector<int> order(shape.size());
  std::iota(order.begin(), order.end(), 0);
  for (size_t i = order.size(); i > 1; --i) {
    std::swap(order[i - 1], order[draw_in<size_t>(0, i)]);
  }
  Shape stored(shape.size());
  std::vector<int64_t> before(shape.size());
  for (size_t i = 0; i < shape.size(); ++i) {
    before[i] = draw_in<int64_t>(0, 3);
    const auto after = draw_in<int64_t>(0, 3);
    stored[static_cast<size_t>(order[i])] = before[i] + shape[i] + after;
  }
  std::vector<double> values(static_cast<size_t>(*element_count(stored)), -1);
  const Tensor whole = make_tensor(element, stored, values);
  Tensor part = permuted(whole, order);
  for (size_t i = 0; i < shape.size(); ++i) {
    part = slice(part, static_cast<int>(i), before[i], before[i] + shape[i]);
  }
  return {whole, part};
}

// The elements one by one, in row-major order.
std::vector<double> one_by_one(const Tensor& tensor) {
  std::vector<double> values;
  std::vector<int64_t> index(tensor.shape.size());
  for (int64_t left = tensor.elements(); left > 0; --left) {
    int64_t at = 0;
    for (size_t i = 0; i < index.size(); ++i)
      at += index[i] * tensor.strides[i];
    values.push_back(tensor.element == Element::F32
                         ? static_cast<double>(tensor.data<float>()[at])
                         : tensor.data<double>()[at]);
    for (size_t i = index.size(); i-- > 0;) {
      if (++index[i] < tensor.shape[i]) break;
      index[i] = 0;
    }
  }
  return values;
}

TEST_CASE("tensor: new ones are zero and row-major") {
  const Tensor zeros = make_tensor(Element::F32, {2, 3});
  CHECK(zeros.strides == std::vector<int64_t>{3, 1});
  CHECK(one_by_one(zeros) == std::vector<double>(6, 0));
  CHECK(is_row_major(zeros));
  CHECK(make_tensor(Element::F64, {}).elements() == 1);
  CHECK(values_of(make_tensor(Element::F64, {3, 0})).empty());
  CHECK_THROWS_AS(make_tensor(Element::F64, {2}, std::vector<double>(3)),
                  InternalError);
}

TEST_CASE("tensor: views share the numbers") {
  const Tensor whole = counted(Element::F32, {2, 3, 4});
  const Tensor part = slice(slice(whole, 2, 1, 3), 0, 1, 2);
  CHECK(one_by_one(part) == std::vector<double>{13, 14, 17, 18, 21, 22});
  CHECK_FALSE(is_row_major(part));
  part.data<float>()[0] = 99;
  CHECK(one_by_one(whole)[13] == 99);

  const Tensor turned =
      permuted(counted(Element::F64, {2, 3}), std::vector<int>{1, 0});
  CHECK(turned.shape == Shape{3, 2});
  CHECK(one_by_one(turned) == std::vector<double>{0, 3, 1, 4, 2, 5});
  CHECK(one_by_one(contiguous(turned)) == one_by_one(turned));
  CHECK(contiguous(whole).storage == whole.storage);
  CHECK_THROWS_AS(slice(whole, 0, 1, 3), InternalError);
}

TEST_CASE("tensor: broadcasting repeats as NumPy does") {
  const Tensor row = counted(Element::F64, {1, 3});
  const Tensor all = broadcast_to(row, {2, 2, 3});
  CHECK(all.strides == std::vector<int64_t>{0, 0, 1});
  CHECK(one_by_one(all) ==
        std::vector<double>{0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2});
  CHECK(one_by_one(contiguous(all)) == one_by_one(all));
  const Tensor one = make_tensor(Element::F64, {}, std::vector<double>{7});
  CHECK(one_by_one(broadcast_to(one, {2})) == std::vector<double>{7, 7});
  CHECK_THROWS_AS(broadcast_to(row, {2, 4}), InternalError);
}

TEST_CASE("tensor: a reshape is a view wherever strides allow it") {
  struct Row {
    Tensor from;
    Shape to;
    bool view;
  };
  const Tensor whole = counted(Element::F32, {4, 6});
  const Tensor columns = slice(whole, 1, 0, 4);
  const Tensor turned = permuted(whole, std::vector<int>{1, 0});
  for (const Row& row : std::vector<Row>{
           {whole, {24}, true},
           {whole, {2, 2, 3, 2}, true},
           {whole, {4, 1, 6}, true},
           {columns, {2, 2, 2, 1, 2}, true},
           {columns, {16}, false},
           {columns, {8, 2}, false},
           {turned, {2, 3, 2, 2}, true},
           {turned, {24}, false},
           {broadcast_to(counted(Element::F32, {1}), {2, 3}), {6}, true}}) {
    CAPTURE(shape_text(row.from.shape));
    CAPTURE(shape_text(row.to));
    const Tensor to = reshaped(row.from, row.to);
    CHECK(to.shape == row.to);
    CHECK((to.storage == row.from.storage) == row.view);
    CHECK(one_by_one(to) == one_by_one(row.from));
  }
  CHECK(reshaped(make_tensor(Element::F32, {0, 3}), {7, 0}).shape ==
        Shape{7, 0});
}

TEST_CASE("tensor: any view can be reshaped to any shape of as many") {
  CHECK(holds([] {
    const Shape shape = any_shape();
    const Tensor from = any_view_of(any_element(), shape).part;
    copy_into(from, counted(from.element, shape));
    Shape to;  // some neighbours together, ones in between
    for (const int64_t size : shape) {
      if (!to.empty() && draw_bool()) {
        to.back() *= size;
      } else {
        to.push_back(size);
      }
      if (draw_bool()) to.push_back(1);
    }
    const Tensor there = reshaped(from, to);
    ENSURE(one_by_one(there) == one_by_one(from));
    ENSURE(one_by_one(reshaped(there, shape)) == one_by_one(from));
  }));
}

TEST_CASE("tensor: copies between any views write all and nothing else") {
  CHECK(holds([] {
    const Shape shape = any_shape();
    const Element element = any_element();
    const Tensor source = any_view_of(element, shape).part;
    const View target = any_view_of(element, shape);
    const std::vector<double> numbers = one_by_one(counted(element, shape));
    copy_into(source, counted(element, shape));
    copy_into(target.part, source);
    ENSURE(one_by_one(source) == numbers);
    ENSURE(one_by_one(target.part) == numbers);
    ENSURE(values_of(target.part) == numbers);
    const std::vector<double> all = one_by_one(target.whole);
    ENSURE(std::count(all.begin(), all.end(), -1) ==
           target.whole.elements() - target.part.elements());
    ENSURE(bitwise_equal(source, target.part));
    ENSURE(is_row_major(contiguous(source)));
    ENSURE(bitwise_equal(copy(source), target.part));
  }));
}

TEST_CASE("tensor: one different element anywhere is not bitwise equal") {
  CHECK(holds([] {
    const Shape shape = any_shape();
    ASSUME(element_count(shape) != 0);
    const Element element = any_element();
    const Tensor a = any_view_of(element, shape).part;
    const Tensor b = any_view_of(element, shape).part;
    const auto count = static_cast<size_t>(*element_count(shape));
    std::vector<double> values(count);
    copy_into(a, make_tensor(element, shape, values));
    values[draw_in<size_t>(0, count)] = -0.0;
    copy_into(b, make_tensor(element, shape, values));
    ENSURE(values_of(a) == values_of(b));
    ENSURE(!bitwise_equal(a, b));
    ENSURE(bitwise_equal(a, copy(a)));
  }));
  const Tensor nan = make_tensor(Element::F32, {1}, std::vector<double>{kNan});
  CHECK(bitwise_equal(nan, copy(nan)));
  const Tensor zeros = make_tensor(Element::F32, {2});
  CHECK_FALSE(bitwise_equal(zeros, make_tensor(Element::F64, {2})));
  CHECK_FALSE(bitwise_equal(zeros, make_tensor(Element::F32, {1, 2})));
}

TEST_CASE("tensor: sums and maxima go into any view, in each arithmetic") {
  CHECK(holds([] {
    const auto arithmetic =
        draw_of({Arithmetic::F32, Arithmetic::F64, Arithmetic::Field});
    const Element element = element_of(arithmetic);
    const Shape shape = any_shape();
    const Tensor target = any_view_of(element, shape).part;
    const Tensor arriving = any_view_of(element, shape).part;
    const auto p = static_cast<double>(field::kPrime);
    copy_into(target, counted(element, shape, p - 1000));
    copy_into(arriving, counted(element, shape, p - 500));
    add_into(target, arriving, arithmetic);
    std::vector<double> sums = one_by_one(target);
    for (size_t i = 0; i < sums.size(); ++i) {
      const double sum = 2 * p - 1500 + 2 * static_cast<double>(i);
      ENSURE(sums[i] ==
             (arithmetic == Arithmetic::Field ? field::residue(sum) : sum));
    }
    copy_into(target, counted(element, shape, 10));
    copy_into(arriving, broadcast_to(counted(element, {}, 20), shape));
    max_into(target, arriving);
    std::vector<double> maxima = one_by_one(target);
    for (size_t i = 0; i < maxima.size(); ++i) {
      ENSURE(maxima[i] == std::max(20.0, 10 + static_cast<double>(i)));
    }
  }));
}

TEST_CASE("tensor: a NaN on either side of a maximum stays") {
  const Tensor target =
      make_tensor(Element::F32, {3}, std::vector<double>{kNan, 1, 2});
  max_into(target,
           make_tensor(Element::F32, {3}, std::vector<double>{1, kNan, 3}));
  CHECK(std::isnan(values_of(target)[0]));
  CHECK(std::isnan(values_of(target)[1]));
  CHECK(values_of(target)[2] == 3);
}

TEST_CASE("tensor: conversion rounds to nearest") {
  const std::vector<double> values = {0.1, 1 + 0x1p-25, -3};
  const Tensor wide = make_tensor(Element::F64, {3}, values);
  const Tensor narrow = converted(wide, Element::F32);
  CHECK(values_of(narrow) ==
        std::vector<double>{static_cast<double>(0.1F), 1, -3});
  CHECK(bitwise_equal(narrow, make_tensor(Element::F32, {3}, values)));
  CHECK(values_of(converted(narrow, Element::F64)) == values_of(narrow));
  CHECK(converted(wide, Element::F64).storage == wide.storage);
}

TEST_CASE("tensor: tensors of other shapes or elements are a bug of ours") {
  const Tensor a = make_tensor(Element::F32, {2});
  CHECK_THROWS_AS(copy_into(a, make_tensor(Element::F32, {1})), InternalError);
  CHECK_THROWS_AS(copy_into(a, make_tensor(Element::F64, {2})), InternalError);
  CHECK_THROWS_AS(add_into(a, a, Arithmetic::F64), InternalError);
  CHECK_THROWS_AS(max_into(a, make_tensor(Element::F64, {2})), InternalError);
}

TEST_CASE("tensor: large ones are converted alike by any number of threads") {
  const Tensor wide = make_tensor(Element::F64, {3, 300, 100});
  for (int64_t i = 0; i < wide.elements(); ++i) {
    wide.data<double>()[i] = static_cast<double>(i) / 3;
  }
  const int order[] = {2, 0, 1};
  const Tensor turned = permuted(wide, order);
  for (const int threads : {2, 5}) {
    CHECK(bitwise_equal(converted(wide, Element::F32, threads),
                        converted(wide, Element::F32)));
    CHECK(bitwise_equal(converted(turned, Element::F32, threads),
                        converted(turned, Element::F32)));
  }
}

TEST_CASE("tensor: the bytes that are held are counted") {
  const int64_t before = buffer_memory().held;
  {
    const Tensor a = make_tensor(Element::F64, {100});
    const Tensor view = slice(a, 0, 10, 20);
    CHECK(buffer_memory().held == before + 800);
    restart_buffer_peak();
    make_tensor(Element::F32, {50});
    CHECK(buffer_memory().held == before + 800);
    CHECK(buffer_memory().peak == before + 1000);
  }
  CHECK(buffer_memory().held == before);
}

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
