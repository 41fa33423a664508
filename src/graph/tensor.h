// SPDX-License-Identifier: Apache-2.0
// Tensor: numbers in host memory, with a shape and strides.
//
// A tensor is a view of storage that it shares: a shard of a parameter is a
// view of the dense parameter wherever its elements have constant strides.
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

// How numbers are computed: in float, in double, or as residues of a finite
// field, stored as doubles (graph/elementwise.h).
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
  // Returns the first element. REQUIRES: T is float or double, matching
  // `element`.
  template <typename T>
  T* data() const {
    return static_cast<T*>(storage.get()) + offset;
  }
};

// Returns a row-major tensor of zeros. Like make_unfilled, throws
// std::bad_alloc if memory runs out. REQUIRES: the number of elements fits 63
// bits.
Tensor make_tensor(Element element, const Shape& shape);
// Returns a row-major tensor with undefined values. REQUIRES: each is written
// before it is read.
Tensor make_unfilled(Element element, const Shape& shape);
// Returns a row-major tensor with these values, given in row-major order.
Tensor make_tensor(Element element, const Shape& shape,
                   std::span<const double> values);
// Returns a row-major tensor over storage that already holds its values.
Tensor tensor_over(Element element, const Shape& shape,
                   std::shared_ptr<void> storage);
bool is_row_major(const Tensor& tensor);

// Views.
Tensor slice(const Tensor& tensor, int dim, int64_t begin, int64_t end);
Tensor permuted(const Tensor& tensor, std::span<const int> order);
// Returns a view of `shape` that repeats the tensor with stride 0 (NumPy's
// rules). REQUIRES: every trailing dimension of the tensor has size 1 or that
// of `shape`.
Tensor broadcast_to(const Tensor& tensor, const Shape& shape);
// Returns a view if strides allow it, else a copy.
Tensor reshaped(const Tensor& tensor, const Shape& shape);

// Copies. REQUIRES for two tensors: equal shapes, and no overlap unless they
// are the same tensor.
Tensor contiguous(const Tensor& tensor);  // the tensor itself if row-major
Tensor copy(const Tensor& tensor);
void copy_into(const Tensor& target, const Tensor& source);
// Sets target = arriving + target, with the operands in this order.
void add_into(const Tensor& target, const Tensor& arriving,
              Arithmetic arithmetic);
// Sets target = max(arriving, target); a NaN in either remains.
void max_into(const Tensor& target, const Tensor& arriving);
// Returns the tensor itself if it has that type, else a copy rounded to
// nearest.
Tensor converted(const Tensor& tensor, Element element, int threads = 1);

// Returns the values in row-major order.
std::vector<double> values_of(const Tensor& tensor);
bool bitwise_equal(const Tensor& a, const Tensor& b);

// Numbers of a checkpoint as tensors to compute with.

// Returns whether numbers of that type can be computed with: F64, F32, F16,
// BF16.
bool is_computable(DType dtype);

// Returns a copy in float32 or double. Every number is exact except F64 as
// float32, which is rounded to nearest. An aligned F32 tensor that is loaded as
// float32 is a view of the file rather than a copy. REQUIRES: is_computable,
// and the tensor has numbers.
Tensor load(const StoredTensor& stored, Element element);

}  // namespace shardplan
