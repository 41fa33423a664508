// SPDX-License-Identifier: Apache-2.0
// Products of packed operands: the loops around a kernel that multiplies a
// micro-panel of A by one of B (Van Zee and van de Geijn, "BLIS: A Framework
// for Rapidly Instantiating BLAS Functionality", 2015).
//
// They differ from BLIS's own in what they pack how often. Of all products
// together, B (the operand of fewer panels: activations) is packed first, for a
// round of the contraction; then blocks of A (weights) are packed on the thread
// that uses them, each while it fits the second-level cache, and multiplied by
// all of B of every product that reads it. So each element is packed once, and
// a product of few rows does not wait for a weight's packed copy to come back
// from memory. The contraction is cut as BLIS cuts it, and so every element of
// C is the same sum in the same order, bit by bit.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "graph/gemm.h"
#include "graph/tensor.h"

namespace shardplan {

// C = A B of two micro-panels, or C += A B.
template <typename T>
struct MicroTile {
  int64_t rows = 0;  // of C: all of the kernel's, but at an edge
  int64_t columns = 0;
  int64_t depth = 0;
  const T* a = nullptr;       // [depth, kernel's rows], aligned to 64 bytes
  const T* b = nullptr;       // [depth, kernel's columns]
  const T* next_a = nullptr;  // the panel that comes next, to be fetched
  Matrix<T> c;
  bool adds = false;
};

template <typename T>
struct PackedKernel {
  int64_t rows = 0;
  int64_t columns = 0;
  // What is contracted at once; the last part may be longer, up to most_depth.
  int64_t depth = 0;
  int64_t most_depth = 0;
  int64_t block = 0;         // elements of A that fit the second-level cache
  bool writes_rows = false;  // C is best stored by rows; else by columns
  std::function<void(const MicroTile<T>&)> run;
};

struct ProductSize {
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;  // all above 0
};

// See gemm() for what holds of the products. T is float or double.
template <typename T>
void multiply_packed(const PackedKernel<T>& kernel, const ProductSize& size,
                     std::span<const MatrixProduct<T>> products,
                     Arithmetic arithmetic, int threads);

}  // namespace shardplan
