// SPDX-License-Identifier: Apache-2.0
// Packed gemm: products of packed operands, computed by loops around a kernel
// that multiplies a micro-panel of A by one of B (Van Zee and van de Geijn,
// "BLIS: A Framework for Rapidly Instantiating BLAS Functionality", 2015).
//
// The loops differ from BLIS's own in what they pack and how often. B (the
// operand of fewer panels: activations) is packed first, for all products
// together and for one round of the contraction. Then blocks of A (weights),
// each small enough for the second-level cache, are packed on the thread that
// uses them and multiplied by all of B of every product that reads them. So
// each element is packed once, and a product of few rows does not wait for a
// weight's packed copy to come back from memory. The contraction is split as
// BLIS splits it, so every element of C is the same sum in the same order, bit
// for bit.
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
  int64_t rows = 0;  // of C; fewer than the kernel's at an edge
  int64_t columns = 0;
  int64_t depth = 0;
  const T* a = nullptr;       // [depth, kernel's rows], aligned to 64 bytes
  const T* b = nullptr;       // [depth, kernel's columns]
  const T* next_a = nullptr;  // the next panel, to be prefetched
  Matrix<T> c;
  bool adds = false;
};

template <typename T>
struct PackedKernel {
  int64_t rows = 0;
  int64_t columns = 0;
  // The depth contracted at once; the last part may be deeper, up to
  // most_depth.
  int64_t depth = 0;
  int64_t most_depth = 0;
  int64_t block = 0;         // elements of A that fit the second-level cache
  bool writes_rows = false;  // C is best stored by rows; else by columns
  std::function<void(const MicroTile<T>&)> run;
};

struct ProductSize {
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;  // all three are above 0
};

// Computes the products, with the guarantees of gemm(). T is float or double.
template <typename T>
void multiply_packed(const PackedKernel<T>& kernel, const ProductSize& size,
                     std::span<const MatrixProduct<T>> products,
                     Arithmetic arithmetic, int threads);

}  // namespace shardplan
