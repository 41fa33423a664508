// SPDX-License-Identifier: Apache-2.0
#include "graph/tensor.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <numeric>
#include <type_traits>
#include <utility>

#include "base/checked.h"
#include "base/parallel.h"
#include "graph/buffers.h"
#include "graph/elementwise.h"

namespace shardplan {
namespace {

size_t bytes_of(Element element) { return element == Element::F32 ? 4 : 8; }

std::vector<int64_t> row_major_strides(const Shape& shape) {
  std::vector<int64_t> strides(shape.size());
  int64_t stride = 1;
  for (size_t i = shape.size(); i-- > 0;) {
    strides[i] = stride;
    stride *= shape[i];
  }
  return strides;
}

// One dimension of a walk over two tensors of one shape.
struct Loop {
  int64_t size = 1;
  std::array<int64_t, 2> strides{};
};

// Returns the loops, outermost first. Dimensions that are adjacent in the
// memory of both tensors are joined, so that whole rows, or the whole tensors,
// are one inner loop.
std::vector<Loop> loops_over(const Tensor& a, const Tensor& b) {
  std::vector<Loop> dims;
  for (size_t i = 0; i < a.shape.size(); ++i) {
    if (a.shape[i] == 1) continue;
    dims.push_back({a.shape[i], {a.strides[i], b.strides[i]}});
  }
  // Walk along the memory of the first tensor.
  std::stable_sort(dims.begin(), dims.end(), [](const Loop& x, const Loop& y) {
    return std::abs(x.strides[0]) > std::abs(y.strides[0]);
  });
  std::vector<Loop> loops;
  for (const Loop& dim : dims) {
    if (!loops.empty() &&
        loops.back().strides[0] == dim.size * dim.strides[0] &&
        loops.back().strides[1] == dim.size * dim.strides[1]) {
      loops.back() = {loops.back().size * dim.size, dim.strides};
    } else {
      loops.push_back(dim);
    }
  }
  return loops;
}

// A row of the walk: `size` elements of each, with their strides.
template <typename A, typename B>
struct Rows {
  A* a;
  B* b;
  Loop inner;
};

// Calls `row` for every inner loop of the two tensors.
template <typename A, typename B, typename Row>
void walk(const Tensor& a, const Tensor& b, Row row) {
  SHARDPLAN_CHECK(a.shape == b.shape);
  if (a.elements() == 0) return;
  std::vector<Loop> outer = loops_over(a, b);
  Rows<A, B> at{a.data<A>(), b.data<B>(), {}};
  if (!outer.empty()) {
    at.inner = outer.back();
    outer.pop_back();
  }
  std::vector<int64_t> index(outer.size());
  while (true) {
    row(at);
    size_t dim = outer.size();
    while (dim > 0) {
      const Loop& loop = outer[--dim];
      at.a += loop.strides[0];
      at.b += loop.strides[1];
      if (++index[dim] < loop.size) break;
      at.a -= loop.size * loop.strides[0];
      at.b -= loop.size * loop.strides[1];
      index[dim] = 0;
      if (dim == 0) return;
    }
    if (outer.empty()) return;
  }
}

// Sets a = change(a, b) for every pair of elements.
template <typename A, typename B, typename Change>
void change_each(const Tensor& a, const Tensor& b, Change change) {
  walk<A, B>(a, b, [&](const Rows<A, B>& rows) {
    const auto [sa, sb] = rows.inner.strides;
    if (sa == 1 && sb == 1) {
      for (int64_t i = 0; i < rows.inner.size; ++i) {
        rows.a[i] = change(rows.a[i], rows.b[i]);
      }
      return;
    }
    for (int64_t i = 0; i < rows.inner.size; ++i) {
      rows.a[i * sa] = change(rows.a[i * sa], rows.b[i * sb]);
    }
  });
}

template <typename A, typename B>
void convert_each(const Tensor& target, const Tensor& source) {
  change_each<A, B>(target, source, [](A, B x) { return static_cast<A>(x); });
}

template <typename T>
void copy_each(const Tensor& target, const Tensor& source) {
  walk<T, T>(target, source, [](const Rows<T, T>& rows) {
    const auto [to, from] = rows.inner.strides;
    if (to == 1 && from == 1) {
      std::copy_n(rows.b, rows.inner.size, rows.a);
      return;
    }
    for (int64_t i = 0; i < rows.inner.size; ++i) {
      rows.a[i * to] = rows.b[i * from];
    }
  });
}

template <typename T>
bool equal_bits(const Tensor& a, const Tensor& b) {
  using Bits = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;
  bool equal = true;
  walk<T, T>(a, b, [&](const Rows<T, T>& rows) {
    const auto [sa, sb] = rows.inner.strides;
    if (!equal) return;
    if (sa == 1 && sb == 1) {
      const auto bytes = static_cast<size_t>(rows.inner.size) * sizeof(T);
      equal = std::memcmp(rows.a, rows.b, bytes) == 0;
      return;
    }
    for (int64_t i = 0; equal && i < rows.inner.size; ++i) {
      Bits x = 0;
      Bits y = 0;
      std::memcpy(&x, rows.a + i * sa, sizeof(T));
      std::memcpy(&y, rows.b + i * sb, sizeof(T));
      equal = x == y;
    }
  });
  return equal;
}

// NaNs propagate, as in JAX.
template <typename T>
T larger(T target, T arriving) {
  return arriving > target || arriving != arriving ? arriving : target;
}

// Returns the strides of `shape` over the elements of `tensor`, or nullopt if
// there are none: every run of adjacent dimensions is split into new ones.
std::optional<std::vector<int64_t>> view_strides(const Tensor& tensor,
                                                 const Shape& shape) {
  const std::vector<int64_t> whole = row_major_strides(shape);
  if (tensor.elements() == 0) return whole;
  std::vector<Loop> runs;  // of the tensor, innermost last; only strides[0]
  for (size_t i = 0; i < tensor.shape.size(); ++i) {
    const int64_t size = tensor.shape[i];
    const int64_t stride = tensor.strides[i];
    if (size == 1) continue;
    if (!runs.empty() && runs.back().strides[0] == size * stride) {
      runs.back() = {runs.back().size * size, {stride, 0}};
    } else {
      runs.push_back({size, {stride, 0}});
    }
  }
  std::vector<int64_t> strides(shape.size());
  int64_t left = runs.empty() ? 1 : runs.back().size;  // of the current run
  int64_t stride = runs.empty() ? 1 : runs.back().strides[0];
  for (size_t i = shape.size(); i-- > 0;) {
    if (left == 1 && shape[i] != 1) {
      runs.pop_back();
      left = runs.back().size;
      stride = runs.back().strides[0];
    }
    if (left % shape[i] != 0) return std::nullopt;
    strides[i] = stride;
    stride *= shape[i];
    left /= shape[i];
  }
  return strides;
}

// Calls work for slices that together cover two tensors of one shape, on
// several threads if they are large.
template <typename Work>
void each_slice(const Tensor& a, const Tensor& b, int threads,
                const Work& work) {
  constexpr int64_t kWorthThreads = int64_t{1} << 16U;  // elements
  constexpr int64_t kPieces = 32;
  if (threads <= 1 || a.elements() < kWorthThreads) {
    work(a, b);
    return;
  }
  const auto largest = std::max_element(a.shape.begin(), a.shape.end());
  const auto dim = static_cast<int>(largest - a.shape.begin());
  const int64_t pieces = std::min(kPieces, *largest);
  parallel_for(pieces, threads, [&](int64_t i) {
    const int64_t begin = *largest * i / pieces;
    const int64_t end = *largest * (i + 1) / pieces;
    work(slice(a, dim, begin, end), slice(b, dim, begin, end));
  });
}

}  // namespace

int64_t Tensor::elements() const {
  const std::optional<int64_t> count = element_count(shape);
  SHARDPLAN_CHECK(count.has_value());
  return *count;
}

namespace {

Tensor over_buffer(Element element, const Shape& shape,
                   std::shared_ptr<void> (*make)(int64_t bytes)) {
  Tensor tensor{element, shape, row_major_strides(shape), 0, nullptr};
  const int64_t count = std::max<int64_t>(1, tensor.elements());
  const std::optional<int64_t> bytes =
      checked_mul(count, static_cast<int64_t>(bytes_of(element)));
  if (!bytes) throw std::bad_alloc();
  tensor.storage = make(*bytes);
  return tensor;
}

}  // namespace

Tensor make_tensor(Element element, const Shape& shape) {
  return over_buffer(element, shape, zeroed_buffer);
}

Tensor make_unfilled(Element element, const Shape& shape) {
  return over_buffer(element, shape, unfilled_buffer);
}

Tensor make_tensor(Element element, const Shape& shape,
                   std::span<const double> values) {
  Tensor tensor = make_unfilled(element, shape);
  SHARDPLAN_CHECK(static_cast<size_t>(tensor.elements()) == values.size());
  if (element == Element::F64) {
    std::copy(values.begin(), values.end(), tensor.data<double>());
  } else {
    std::transform(values.begin(), values.end(), tensor.data<float>(),
                   [](double x) { return static_cast<float>(x); });
  }
  return tensor;
}

Tensor tensor_over(Element element, const Shape& shape,
                   std::shared_ptr<void> storage) {
  return {element, shape, row_major_strides(shape), 0, std::move(storage)};
}

bool is_row_major(const Tensor& tensor) {
  if (tensor.elements() == 0) return true;
  const std::vector<int64_t> strides = row_major_strides(tensor.shape);
  for (size_t i = 0; i < strides.size(); ++i) {
    if (tensor.shape[i] != 1 && tensor.strides[i] != strides[i]) return false;
  }
  return true;
}

Tensor slice(const Tensor& tensor, int dim, int64_t begin, int64_t end) {
  const auto i = static_cast<size_t>(dim);
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
    view.shape[i] = tensor.shape[static_cast<size_t>(order[i])];
    view.strides[i] = tensor.strides[static_cast<size_t>(order[i])];
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
  std::optional<std::vector<int64_t>> strides = view_strides(tensor, shape);
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
  if (target.element == Element::F32) {
    copy_each<float>(target, source);
  } else {
    copy_each<double>(target, source);
  }
}

void add_into(const Tensor& target, const Tensor& arriving,
              Arithmetic arithmetic) {
  SHARDPLAN_CHECK(target.element == element_of(arithmetic) &&
                  arriving.element == element_of(arithmetic));
  switch (arithmetic) {
    case Arithmetic::F32:
      change_each<float, float>(target, arriving,
                                [](float t, float a) { return a + t; });
      return;
    case Arithmetic::F64:
      change_each<double, double>(target, arriving,
                                  [](double t, double a) { return a + t; });
      return;
    case Arithmetic::Field:
      change_each<double, double>(target, arriving, [](double t, double a) {
        return field::add(a, t);
      });
      return;
  }
}

void max_into(const Tensor& target, const Tensor& arriving) {
  SHARDPLAN_CHECK(target.element == arriving.element);
  if (target.element == Element::F32) {
    change_each<float, float>(target, arriving, larger<float>);
  } else {
    change_each<double, double>(target, arriving, larger<double>);
  }
}

Tensor converted(const Tensor& tensor, Element element, int threads) {
  if (tensor.element == element) return tensor;
  Tensor result = make_unfilled(element, tensor.shape);
  each_slice(result, tensor, threads,
             [&](const Tensor& to, const Tensor& from) {
               if (element == Element::F64) {
                 convert_each<double, float>(to, from);
               } else {
                 convert_each<float, double>(to, from);
               }
             });
  return result;
}

std::vector<double> values_of(const Tensor& tensor) {
  const Tensor dense = contiguous(converted(tensor, Element::F64));
  const double* first = dense.data<double>();
  return {first, first + dense.elements()};
}

bool bitwise_equal(const Tensor& a, const Tensor& b) {
  if (a.element != b.element || a.shape != b.shape) return false;
  return a.element == Element::F32 ? equal_bits<float>(a, b)
                                   : equal_bits<double>(a, b);
}

TensorMemory tensor_memory() {
  const BufferMemory memory = buffer_memory();
  return {memory.held, memory.peak};
}

void restart_peak() { restart_buffer_peak(); }

namespace {

// Numbers are read with the byte order of the file.
static_assert(std::endian::native == std::endian::little);

template <typename Bits>
Bits read_bits(const std::byte* data) {
  Bits bits;
  std::memcpy(&bits, data, sizeof bits);
  return bits;
}

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

template <typename To, typename Convert>
void convert(const std::byte* data, int64_t count, size_t stride, To* target,
             Convert convert_one) {
  for (int64_t i = 0; i < count; ++i) {
    target[i] = static_cast<To>(convert_one(data));
    data += stride;
  }
}

template <typename To>
void convert_all(const StoredTensor& stored, int64_t count, To* target) {
  const std::byte* data = stored.data;
  switch (stored.dtype) {
    case DType::F64:
      convert(data, count, sizeof(double), target, read_bits<double>);
      return;
    case DType::F32:
      convert(data, count, sizeof(float), target, read_bits<float>);
      return;
    case DType::F16:
      convert(data, count, sizeof(uint16_t), target, [](const std::byte* at) {
        return from_f16(read_bits<uint16_t>(at));
      });
      return;
    case DType::BF16:
      convert(data, count, sizeof(uint16_t), target, [](const std::byte* at) {
        return from_bf16(read_bits<uint16_t>(at));
      });
      return;
    default:
      SHARDPLAN_CHECK(is_computable(stored.dtype));
  }
}

bool is_aligned(const std::byte* data, size_t alignment) {
  return reinterpret_cast<uintptr_t>(data) % alignment == 0;
}

}  // namespace

bool is_computable(DType dtype) {
  return dtype == DType::F64 || dtype == DType::F32 || dtype == DType::F16 ||
         dtype == DType::BF16;
}

Tensor load(const StoredTensor& stored, Element element) {
  SHARDPLAN_CHECK(is_computable(stored.dtype) && stored.data != nullptr);
  if (stored.dtype == DType::F32 && element == Element::F32 &&
      is_aligned(stored.data, alignof(float))) {
    // Tensors share writable storage, but no code writes a parameter.
    return tensor_over(element, stored.shape,
                       {std::const_pointer_cast<void>(stored.owner),
                        const_cast<std::byte*>(stored.data)});
  }
  Tensor tensor = make_unfilled(element, stored.shape);
  const int64_t count = tensor.elements();
  if (element == Element::F32) {
    convert_all(stored, count, tensor.data<float>());
  } else {
    convert_all(stored, count, tensor.data<double>());
  }
  return tensor;
}

}  // namespace shardplan
