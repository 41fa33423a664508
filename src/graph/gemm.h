// SPDX-License-Identifier: Apache-2.0
// Gemm: matrix products, computed by BLIS. No other file uses BLIS.
//
// BLIS's kernels are chosen here by CPU feature and by size, because Debian's
// 0.9.0 uses Haswell's for every processor whose name it does not know. Every
// element of a product is summed in one order, whatever tile it is in, so
// results are the same for any number of threads. BLIS's environment variables
// (BLIS_ARCH_TYPE, BLIS_NUM_THREADS, BLIS_PACK_A, ...) have no effect.
//
// BLIS itself computes small products. For large ones it would pack both
// operands on every call, so they run on its kernels in loops of ours: see
// graph/packed_gemm.h.
#pragma once

#include <cstdint>
#include <span>

#include "graph/tensor.h"

namespace shardplan {

// A matrix anywhere in memory. Strides count elements; those of an operand may
// be 0 (broadcast).
template <typename T>
struct Matrix {
  T* data = nullptr;
  int64_t row_stride = 0;
  int64_t column_stride = 0;
};

// Kernels of BLIS. BySize selects the fastest that the processor can run: Skx
// (AVX-512) for large products, Haswell (AVX2 and FMA) for small ones, Generic
// (any processor) if it can run neither.
enum class Kernels : uint8_t { BySize, Generic, Haswell, Skx };
std::span<const Kernels> usable_kernels();

// C = A B, of m x k by k x n; if k is 0, C is zero. In `Field`, operands and
// results are residues, and C is exact. REQUIRES: C overlaps neither A nor B.
template <typename T>
struct MatrixProduct {
  Matrix<const T> a;
  Matrix<const T> b;
  Matrix<T> c;
};

// Computes products of one shape. Each result is bit for bit the same as if it
// were computed alone, except that NaNs may differ; a matrix that several
// products read is packed once. REQUIRES: no C overlaps anything else; T is
// float for F32, else double.
template <typename T>
void gemm(int64_t m, int64_t n, int64_t k,
          std::span<const MatrixProduct<T>> products, Arithmetic arithmetic,
          int threads = 1, Kernels kernels = Kernels::BySize);

// For tests: computes the same product by BLIS's own loops around its kernels.
template <typename T>
void gemm_by_blis(int64_t m, int64_t n, int64_t k,
                  const MatrixProduct<T>& product, Arithmetic arithmetic,
                  Kernels kernels);

// Returns the kernels that large products run on: "skx", "haswell", "generic".
const char* gemm_kernels();

}  // namespace shardplan
