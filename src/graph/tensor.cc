// SPDX-License-Identifier: Apache-2.0
// Makes tensors and views of them, and converts their numbers.
#include "graph/tensor.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <new>
#include <numeric>
#include <type_traits>
#include <utility>

#include "base/checked.h"
#include "graph/buffers.h"
#include "graph/elementwise.h"

namespace shardplan {
namespace {

Strides row_major_strides(const Shape& shape) {
  Strides strides(shape.size());
  int64_t stride = 1;
  for (size_t i = shape.size(); i-- > 0;) {
    strides[i] = stride;
    stride *= shape[i];
  }
  return strides;
}

Tensor over_buffer(Element element, const Shape& shape,
                   std::shared_ptr<void> (*make)(int64_t bytes)) {
  Tensor tensor = tensor_over(element, shape, nullptr);
  const int64_t count = std::max<int64_t>(1, tensor.elements());
  const auto bytes = checked_mul(count, element == Element::F32 ? 4 : 8);
  if (!bytes) throw std::bad_alloc();
  tensor.storage = make(*bytes);
  return tensor;
}

// Neighbours of a row: the first number and the distance between them.
template <typename T>
struct Row {
  T* first;
  int64_t step;

  T& operator[](int64_t i) const { return first[i * step]; }
};

// Calls visit(count, a, b) for rows of two tensors of one shape, in the order
// of the memory of the first.
template <typename T, typename Visit>
void for_rows(const Tensor& a, const Tensor& b, const Visit& visit) {
  SHARDPLAN_CHECK(a.shape == b.shape);
  std::vector<int> order(a.shape.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, std::greater(), [&](int dim) {
    return std::abs(nth(a.strides, dim));
  });
  const Tensor first = permuted(a, order);
  for_each_row<2>(first.shape, {first.strides, permuted(b, order).strides},
                  [&](int64_t count, const std::array<int64_t, 2>& offsets,
                      const std::array<int64_t, 2>& steps) {
                    visit(count, Row<T>{a.data<T>() + offsets[0], steps[0]},
                          Row<T>{b.data<T>() + offsets[1], steps[1]});
                  });
}

// Sets a = change(a, b) for every pair of elements.
template <typename T, typename Change>
void change_each(const Tensor& a, const Tensor& b, Change change) {
  for_rows<T>(a, b, [&](int64_t count, const Row<T>& to, const Row<T>& by) {
    if (to.step == 1 && by.step == 1) {
      for (int64_t i = 0; i < count; ++i) {
        to.first[i] = change(to.first[i], by.first[i]);
      }
      return;
    }
    for (int64_t i = 0; i < count; ++i) to[i] = change(to[i], by[i]);
  });
}

template <typename T>
bool equal_bits(const Tensor& a, const Tensor& b) {
  using Bits = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;
  bool equal = true;
  for_rows<T>(a, b, [&](int64_t count, const Row<T>& x, const Row<T>& y) {
    if (!equal) return;
    if (x.step == 1 && y.step == 1) {
      const auto bytes = static_cast<size_t>(count) * sizeof(T);
      equal = std::memcmp(x.first, y.first, bytes) == 0;
      return;
    }
    for (int64_t i = 0; equal && i < count; ++i) {
      equal = std::bit_cast<Bits>(x[i]) == std::bit_cast<Bits>(y[i]);
    }
  });
  return equal;
}

// Returns the strides of `shape` over the elements of `tensor`, or nullopt if
// there are none: every run of adjacent dimensions is split into new ones.
std::optional<Strides> view_strides(const Tensor& tensor, const Shape& shape) {
  Strides strides = row_major_strides(shape);
  if (tensor.elements() <= 1) return strides;
  Walk runs = joined_dims(tensor.shape, {&tensor.strides, 1});
  int64_t left = runs.sizes.back();  // of the current run
  int64_t stride = runs.strides[0].back();
  for (size_t i = shape.size(); i-- > 0;) {
    if (left == 1 && shape[i] != 1) {
      runs.sizes.pop_back();
      runs.strides[0].pop_back();
      left = runs.sizes.back();
      stride = runs.strides[0].back();
    }
    if (left % shape[i] != 0) return std::nullopt;
    strides[i] = stride;
    stride *= shape[i];
    left /= shape[i];
  }
  return strides;
}

// Numbers are read with the byte order of the file.
static_assert(std::endian::native == std::endian::little);

float from_bf16(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16U);
}

// IEEE 754 binary16: 1 bit of sign, 5 of exponent (bias 15), 10 of fraction.
float from_f16(uint16_t bits) {
  constexpr uint32_t kRebias = (127U - 15U) << 23U;
  const uint32_t sign = (bits & 0x8000U) << 16U;
  const uint32_t magnitude = (bits & 0x7fffU) << 13U;
  if ((bits & 0x7c00U) == 0x7c00U) {  // infinite or NaN
    return std::bit_cast<float>(sign | 0x7f800000U | magnitude);
  }
  if ((bits & 0x7c00U) != 0)
    return std::bit_cast<float>(sign | (magnitude + kRebias));
  // Zero or subnormal: multiples of 2^-24.
  const float value = static_cast<float>(bits & 0x03ffU) * 0x1p-24F;
  return sign != 0 ? -value : value;
}

// Converts numbers that are stored as `Stored`.
template <typename Stored, auto Decode = std::identity(), typename T>
void decode(const std::byte* data, std::span<T> numbers) {
  for (T& number : numbers) {
    Stored stored;
    std::memcpy(&stored, data, sizeof stored);
    number = static_cast<T>(Decode(stored));
    data += sizeof stored;
  }
}

template <typename T>
void decode_all(const StoredTensor& from, std::span<T> numbers) {
  switch (from.dtype) {
    case DType::F64:
      return decode<double>(from.data, numbers);
    case DType::F32:
      return decode<float>(from.data, numbers);
    case DType::F16:
      return decode<uint16_t, from_f16>(from.data, numbers);
    case DType::BF16:
      return decode<uint16_t, from_bf16>(from.data, numbers);
    default:
      SHARDPLAN_CHECK(is_computable(from.dtype));
  }
}

}  // namespace

int64_t Tensor::elements() const {
  const std::optional<int64_t> count = element_count(shape);
  SHARDPLAN_CHECK(count.has_value());
  return *count;
}

Tensor make_tensor(Element element, const Shape& shape) {
  return over_buffer(element, shape, zeroed_buffer);
}

Tensor make_unfilled(Element element, const Shape& shape) {
  return over_buffer(element, shape, unfilled_buffer);
}

Tensor make_tensor(Element element, const Shape& shape,
                   std::span<const double> values) {
  Tensor tensor = make_unfilled(element, shape);
  SHARDPLAN_CHECK(to_size(tensor.elements()) == values.size());
  for_element_type(element, [&]<typename T>(std::type_identity<T>) {
    std::transform(values.begin(), values.end(), tensor.data<T>(),
                   [](double x) { return static_cast<T>(x); });
  });
  return tensor;
}

Tensor tensor_over(Element element, const Shape& shape,
                   std::shared_ptr<void> storage) {
  return {element, shape, row_major_strides(shape), 0, std::move(storage)};
}

bool is_row_major(const Tensor& tensor) {
  if (tensor.elements() == 0) return true;
  const Strides strides = row_major_strides(tensor.shape);
  for (size_t i = 0; i < strides.size(); ++i) {
    if (tensor.shape[i] != 1 && tensor.strides[i] != strides[i]) return false;
  }
  return true;
}

Tensor slice(const Tensor& tensor, int dim, int64_t begin, int64_t end) {
  const size_t i = to_size(dim);
  SHARDPLAN_CHECK(i < tensor.shape.size() && 0 <= begin && begin <= end &&
                  end <= tensor.shape[i]);
  Tensor view = tensor;
  view.shape[i] = end - begin;
  // An empty slice keeps its offset: another might be past the storage.
  if (begin < end) view.offset += begin * tensor.strides[i];
  return view;
}

Tensor permuted(const Tensor& tensor, std::span<const int> order) {
  SHARDPLAN_CHECK(order.size() == tensor.shape.size());
  Tensor view = tensor;
  for (size_t i = 0; i < order.size(); ++i) {
    view.shape[i] = nth(tensor.shape, order[i]);
    view.strides[i] = nth(tensor.strides, order[i]);
  }
  return view;
}

Tensor broadcast_to(const Tensor& tensor, const Shape& shape) {
  SHARDPLAN_CHECK(tensor.shape.size() <= shape.size());
  Tensor view = tensor;
  view.shape = shape;
  view.strides.assign(shape.size(), 0);
  const size_t added = shape.size() - tensor.shape.size();
  for (size_t i = 0; i < tensor.shape.size(); ++i) {
    const int64_t size = tensor.shape[i];
    SHARDPLAN_CHECK(size == 1 || size == shape[added + i]);
    if (size == shape[added + i]) view.strides[added + i] = tensor.strides[i];
  }
  return view;
}

Tensor reshaped(const Tensor& tensor, const Shape& shape) {
  SHARDPLAN_CHECK(element_count(shape) == tensor.elements());
  std::optional<Strides> strides = view_strides(tensor, shape);
  Tensor view = strides ? tensor : copy(tensor);
  view.strides = strides ? *std::move(strides) : row_major_strides(shape);
  view.shape = shape;
  return view;
}

Tensor contiguous(const Tensor& tensor) {
  return is_row_major(tensor) ? tensor : copy(tensor);
}

Tensor copy(const Tensor& tensor) {
  Tensor result = make_unfilled(tensor.element, tensor.shape);
  copy_into(result, tensor);
  return result;
}

void copy_into(const Tensor& target, const Tensor& source) {
  SHARDPLAN_CHECK(target.element == source.element);
  for_element_type(target.element, [&]<typename T>(std::type_identity<T>) {
    for_rows<T>(target, source, [](int64_t count, auto to, auto from) {
      if (to.step == 1 && from.step == 1) {
        std::copy_n(from.first, count, to.first);
        return;
      }
      for (int64_t i = 0; i < count; ++i) to[i] = from[i];
    });
  });
}

void add_into(const Tensor& target, const Tensor& arriving,
              Arithmetic arithmetic) {
  SHARDPLAN_CHECK(target.element == element_of(arithmetic) &&
                  arriving.element == element_of(arithmetic));
  for_ring(arithmetic, [&]<typename Ring>(Ring) {
    change_each<typename Ring::Number>(
        target, arriving, [](auto t, auto a) { return Ring::add(a, t); });
  });
}

void max_into(const Tensor& target, const Tensor& arriving) {
  SHARDPLAN_CHECK(target.element == arriving.element);
  for_element_type(target.element, [&]<typename T>(std::type_identity<T>) {
    change_each<T>(target, arriving,
                   [](T t, T a) { return RealRing<T>::maximum(a, t); });
  });
}

Tensor converted(const Tensor& tensor, Element element, int threads) {
  if (tensor.element == element) return tensor;
  Tensor result = make_unfilled(element, tensor.shape);
  if (element == Element::F64) {
    map_unary<float, double>(tensor, result, threads,
                             [](float x) { return static_cast<double>(x); });
  } else {
    map_unary<double, float>(tensor, result, threads,
                             [](double x) { return static_cast<float>(x); });
  }
  return result;
}

std::vector<double> values_of(const Tensor& tensor) {
  const Tensor dense = contiguous(converted(tensor, Element::F64));
  const double* first = dense.data<double>();
  return {first, first + dense.elements()};
}

bool bitwise_equal(const Tensor& a, const Tensor& b) {
  if (a.element != b.element || a.shape != b.shape) return false;
  return for_element_type(a.element, [&]<typename T>(std::type_identity<T>) {
    return equal_bits<T>(a, b);
  });
}

bool is_computable(DType dtype) {
  return dtype == DType::F64 || dtype == DType::F32 || dtype == DType::F16 ||
         dtype == DType::BF16;
}

Tensor load(const StoredTensor& stored, Element element) {
  SHARDPLAN_CHECK(is_computable(stored.dtype) && stored.data != nullptr);
  const auto address = reinterpret_cast<uintptr_t>(stored.data);
  if (stored.dtype == DType::F32 && element == Element::F32 &&
      address % alignof(float) == 0) {
    // Tensors share writable storage, but no code writes a parameter.
    return tensor_over(element, stored.shape,
                       {std::const_pointer_cast<void>(stored.owner),
                        const_cast<std::byte*>(stored.data)});
  }
  Tensor tensor = make_unfilled(element, stored.shape);
  for_element_type(element, [&]<typename T>(std::type_identity<T>) {
    decode_all(stored, std::span(tensor.data<T>(), to_size(tensor.elements())));
  });
  return tensor;
}

}  // namespace shardplan
