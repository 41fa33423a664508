// SPDX-License-Identifier: Apache-2.0
// Matrix products, by BLIS; the only file that knows it.
//
// BLIS's kernels are chosen here by CPU feature and by size, since Debian's
// 0.9.0 takes Haswell's for every processor whose name it does not know. An
// element of a product is added up in one order, whatever tile it is in, so
// results are the same for any number of threads. BLIS's environment variables
// (BLIS_ARCH_TYPE, BLIS_NUM_THREADS, BLIS_PACK_A, ...) have no effect.
//
// Small products are left to BLIS. Large ones, for which it would pack both
// operands for every call, run on its kernels in loops of ours: see
// graph/packed_gemm.h.
#pragma once

#include <cstdint>
#include <span>

#include "graph/tensor.h"

namespace shardplan {

// A matrix anywhere in memory; strides count elements. Strides of an operand
// may be 0 (broadcast).
template <typename T>
struct Matrix {
  T* data = nullptr;
  int64_t row_stride = 0;
  int64_t column_stride = 0;
};

// Kernels of BLIS. BySize takes the fastest that the processor can run: Skx
// (AVX-512) for large products, Haswell (AVX2 and FMA) for small ones, Generic
// (any processor) where neither can be.
enum class Kernels : uint8_t { BySize, Generic, Haswell, Skx };
std::span<const Kernels> usable_kernels();

// C = A B, of m x k by k x n; where k is 0, C is zero. In `Field`, residues
// in and out, exactly. REQUIRES: C overlaps neither A nor B.
template <typename T>
struct MatrixProduct {
  Matrix<const T> a;
  Matrix<const T> b;
  Matrix<T> c;
};

// Products of one shape. Each is what it is by itself, bit by bit (but for
// which NaN it is); a matrix that several of them read is brought into the
// kernels' order once. REQUIRES: no C overlaps anything else.
void gemm(int64_t m, int64_t n, int64_t k,
          std::span<const MatrixProduct<float>> products, int threads = 1,
          Kernels kernels = Kernels::BySize);
void gemm(int64_t m, int64_t n, int64_t k,
          std::span<const MatrixProduct<double>> products,
          Arithmetic arithmetic, int threads = 1,
          Kernels kernels = Kernels::BySize);

// One product.
void gemm(int64_t m, int64_t n, int64_t k, Matrix<const float> a,
          Matrix<const float> b, Matrix<float> c, int threads = 1,
          Kernels kernels = Kernels::BySize);
void gemm(int64_t m, int64_t n, int64_t k, Matrix<const double> a,
          Matrix<const double> b, Matrix<double> c, Arithmetic arithmetic,
          int threads = 1, Kernels kernels = Kernels::BySize);

// For tests: the same products by BLIS's own loops around its kernels.
void gemm_by_blis(int64_t m, int64_t n, int64_t k,
                  const MatrixProduct<float>& product, Kernels kernels);
void gemm_by_blis(int64_t m, int64_t n, int64_t k,
                  const MatrixProduct<double>& product, Arithmetic arithmetic,
                  Kernels kernels);

// Which kernels large products run on: "skx", "haswell", "generic".
const char* gemm_kernels();

}  // namespace shardplan
