// SPDX-License-Identifier: Apache-2.0
// Matrix products, by BLIS; the only file that knows it.
//
// BLIS's kernels are chosen here by CPU feature and by size, since Debian's
// 0.9.0 takes Haswell's for every processor whose name it does not know. Large
// products are cut into tiles of fixed size, so results are the same for any
// number of threads.
#pragma once

#include <cstdint>

#include "graph/tensor.h"

namespace shardplan {

// A matrix anywhere in memory; strides count elements.
template <typename T>
struct Matrix {
  T* data = nullptr;
  int64_t row_stride = 0;
  int64_t column_stride = 0;
};

// C = A B, of m x k by k x n; where k is 0, C is zero. In `Field`, residues
// in and out, exactly.
void gemm(int64_t m, int64_t n, int64_t k, Matrix<const float> a,
          Matrix<const float> b, Matrix<float> c, int threads = 1);
void gemm(int64_t m, int64_t n, int64_t k, Matrix<const double> a,
          Matrix<const double> b, Matrix<double> c, Arithmetic arithmetic,
          int threads = 1);

// Which kernels large products run on: "skx", "haswell", "generic".
const char* gemm_kernels();

}  // namespace shardplan
