// SPDX-License-Identifier: Apache-2.0
// Tensor: numbers in host memory, with a shape and strides.
//
// A tensor is a view of storage that it shares: a shard of a parameter is a
// view of the dense parameter wherever its elements lie at constant strides.
// Strides count elements. Copying a Tensor copies the view, not the numbers.
// REQUIRES, everywhere: both tensors of an operation have one element type.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "core/manifest.h"
#include "core/types.h"

namespace shardplan {

enum class Element : uint8_t { F32, F64 };

// How numbers are computed with. Field values (graph/elementwise.h) are
// doubles.
enum class Arithmetic : uint8_t { F32, F64, Field };
inline Element element_of(Arithmetic arithmetic) {
  return arithmetic == Arithmetic::F32 ? Element::F32 : Element::F64;
}

struct Tensor {
  Element element = Element::F32;
  Shape shape;
  std::vector<int64_t> strides;  // elements; one per dimension
  int64_t offset = 0;            // elements from the start of the storage
  std::shared_ptr<void> storage;

  int64_t elements() const;
  // The first element. REQUIRES: T is float or double, as `element` says.
  template <typename T>
  T* data() const {
    return static_cast<T*>(storage.get()) + offset;
  }
};

// Row-major, all zero. REQUIRES: the elements fit memory.
Tensor make_tensor(Element element, const Shape& shape);
// Row-major, with any numbers. REQUIRES: they are written before they are read.
Tensor make_unfilled(Element element, const Shape& shape);
// Row-major, with these numbers in row-major order.
Tensor make_tensor(Element element, const Shape& shape,
                   std::span<const double> values);
// Row-major, over numbers that are there already.
Tensor tensor_over(Element element, const Shape& shape,
                   std::shared_ptr<void> storage);
bool is_row_major(const Tensor& tensor);

// Views.
Tensor slice(const Tensor& tensor, int dim, int64_t begin, int64_t end);
Tensor permuted(const Tensor& tensor, std::span<const int> order);
// Of size 1 or of this shape in every trailing dimension; strides are 0 where
// it repeats (NumPy's rules). REQUIRES: the shapes are compatible.
Tensor broadcast_to(const Tensor& tensor, const Shape& shape);
// A view where strides allow it, else a copy.
Tensor reshaped(const Tensor& tensor, const Shape& shape);

// Copies. REQUIRES for two tensors: equal shapes, and no overlap but of a
// tensor with itself.
Tensor contiguous(const Tensor& tensor);  // itself where it is row-major
Tensor copy(const Tensor& tensor);
void copy_into(const Tensor& target, const Tensor& source);
// target = arriving + target, in this order of operands.
void add_into(const Tensor& target, const Tensor& arriving,
              Arithmetic arithmetic);
// target = max(arriving, target); a NaN stays.
void max_into(const Tensor& target, const Tensor& arriving);
// Itself where it has that type; else rounded to nearest.
Tensor converted(const Tensor& tensor, Element element, int threads = 1);

// Row-major.
std::vector<double> values_of(const Tensor& tensor);
bool bitwise_equal(const Tensor& a, const Tensor& b);

// Bytes of tensors that nobody has let go of, in the whole process; what is
// mapped is not counted, nor what is kept for the next (graph/buffers.h).
struct TensorMemory {
  int64_t held = 0;
  int64_t peak = 0;  // the most since the last restart
};
TensorMemory tensor_memory();
void restart_peak();  // from what is held now

// Numbers of a checkpoint as a tensor to compute with.

// Whether numbers of that type can be computed with: F64, F32, F16, BF16.
bool is_computable(DType dtype);

// A copy in float32 or double, every number exact but for F64 as float32 (round
// to nearest). An F32 tensor that is aligned is not a copy but a view of the
// file. REQUIRES: is_computable, and there are numbers.
Tensor load(const StoredTensor& stored, Element element);

}  // namespace shardplan
