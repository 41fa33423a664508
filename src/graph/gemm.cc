// SPDX-License-Identifier: Apache-2.0
// Chooses BLIS's kernels, and runs them in BLIS's loops or ours.
#include "graph/gemm.h"

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include <blis.h>

#include "base/checked.h"
#include "base/parallel.h"
#include "base/words.h"
#include "graph/elementwise.h"
#include "graph/packed_gemm.h"

namespace shardplan {
namespace {

// BLIS contexts, which hold its kernels and block sizes. Only the static
// library has the functions that initialise them.
struct Contexts {
  std::vector<Kernels> usable{Kernels::Generic};
  cntx_t generic;
  cntx_t haswell;
  cntx_t skx;
};

std::unique_ptr<Contexts> make_contexts() {
  // If one of these is set, BLIS aborts the program for a value that it does
  // not know, or writes to stderr.
  unsetenv("BLIS_ARCH_TYPE");
  unsetenv("BLIS_ARCH_DEBUG");
  bli_init();
  auto contexts = std::make_unique<Contexts>();
#if defined(__aarch64__)
  // Debian's library has no other kernels for ARM; every ARMv8 processor runs
  // these.
  bli_cntx_init_cortexa57(&contexts->generic);
#else
  bli_cntx_init_generic(&contexts->generic);
#endif
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    bli_cntx_init_haswell(&contexts->haswell);
    contexts->usable.push_back(Kernels::Haswell);
    if (__builtin_cpu_supports("avx512f") &&
        __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512vl")) {
      bli_cntx_init_skx(&contexts->skx);
      contexts->usable.push_back(Kernels::Skx);
    }
  }
#endif
  return contexts;
}

Contexts& contexts() {
  static const std::unique_ptr<Contexts> kContexts = make_contexts();
  return *kContexts;
}

cntx_t* context_of(Kernels kernels) {
  Contexts& all = contexts();
  SHARDPLAN_CHECK(contains(all.usable, kernels));
  switch (kernels) {
    case Kernels::Skx:
      return &all.skx;
    case Kernels::Haswell:
      return &all.haswell;
    default:
      return &all.generic;
  }
}

// One product, or a tile of one.
template <typename T>
struct Product {
  int64_t m;
  int64_t n;
  int64_t k;
  Matrix<const T> a;
  Matrix<const T> b;
  Matrix<T> c;
};

template <typename T>
Matrix<T> part(Matrix<T> matrix, int64_t row, int64_t column) {
  matrix.data += row * matrix.row_stride + column * matrix.column_stride;
  return matrix;
}

// Returns whether B is stored by columns, like the weight of a linear layer.
template <typename T>
bool is_transposed(const MatrixProduct<T>& product) {
  return std::abs(product.b.row_stride) < std::abs(product.b.column_stride);
}

// Chooses kernels; the best ones come last in the list. Skx has none for small
// products: it packs both operands, which pays from about 100 rows and columns
// on. Measured on a Xeon with AVX-512, one thread: 8 x 1376 x 4096 runs 2.8
// times as fast on Haswell's kernels, 512 x 1376 x 4096 1.6 times as fast on
// Skx's. Packing pays earlier if B is transposed, because Haswell's kernels
// compute such small products as dot products. On a Zen 4, packing runs doubles
// 1.1 times as fast for 32 x 1408 x 2048, 1.2 to 1.3 times where two to four
// products share B, and 1.3 to 1.5 times for 64 rows. It runs float32 0.9 times
// as fast for 64 rows and 1.1 to 1.2 times where B is shared; a simulated model
// of 1.1 billion parameters needs 0.9x of the time.
template <typename T>
Kernels choose(int64_t m, int64_t n, int64_t k, bool transposed) {
  const Kernels best = contexts().usable.back();
  const bool doubles = sizeof(T) == sizeof(double);
  const bool large = m >= 96 && n >= 96 && k >= 32;
  const bool packs =
      transposed && m >= (doubles ? 32 : 64) && n >= 64 && k >= 256;
  return best == Kernels::Skx && !large && !packs ? Kernels::Haswell : best;
}

// Computes C = A B + beta C, on the calling thread.
template <typename T>
void multiply(const Product<T>& p, T beta, cntx_t* context) {
  // A runtime of our own, so that BLIS's environment variables have no effect.
  rntm_t runtime;
  bli_rntm_init(&runtime);
  bli_rntm_set_num_threads(1, &runtime);
  T one = 1;
  // BLIS 0.9 writes to no operand, but does not declare them const.
  T* a = const_cast<T*>(p.a.data);
  T* b = const_cast<T*>(p.b.data);
  const auto call = [&](auto* gemm_of_type) {
    gemm_of_type(BLIS_NO_TRANSPOSE, BLIS_NO_TRANSPOSE, p.m, p.n, p.k, &one, a,
                 p.a.row_stride, p.a.column_stride, b, p.b.row_stride,
                 p.b.column_stride, &beta, p.c.data, p.c.row_stride,
                 p.c.column_stride, context, &runtime);
  };
  if constexpr (sizeof(T) == 4) {
    call(bli_sgemm_ex);
  } else {
    call(bli_dgemm_ex);
  }
}

// Calls change(c_ij) for every element, in the order of the matrix's memory.
template <typename T, typename Change>
void scale_each(const Product<T>& p, Change change) {
  const bool by_rows = p.c.column_stride <= p.c.row_stride;
  const int64_t outer = by_rows ? p.m : p.n;
  const int64_t inner = by_rows ? p.n : p.m;
  const int64_t outer_stride = by_rows ? p.c.row_stride : p.c.column_stride;
  const int64_t stride = by_rows ? p.c.column_stride : p.c.row_stride;
  for (int64_t i = 0; i < outer; ++i) {
    T* row = p.c.data + i * outer_stride;
    for (int64_t j = 0; j < inner; ++j) change(row[j * stride]);
  }
}

// Multiplies modulo p. The remainder that one block of the contraction leaves
// is below p, and the next block has room for it: kBlock (p-1)^2 + p < 2^53.
void multiply_in_field(const Product<double>& p, cntx_t* context) {
  for (int64_t done = 0; done < p.k; done += field::kBlock) {
    const int64_t depth = std::min(field::kBlock, p.k - done);
    multiply<double>(
        {p.m, p.n, depth, part(p.a, 0, done), part(p.b, done, 0), p.c},
        done == 0 ? 0 : 1, context);
    scale_each(p, [](double& x) { x = field::residue(x); });
  }
}

template <typename T>
void multiply_tile(const Product<T>& tile, Arithmetic arithmetic,
                   cntx_t* context) {
  if constexpr (std::is_same_v<T, double>) {
    if (arithmetic == Arithmetic::Field) {
      return multiply_in_field(tile, context);
    }
  }
  multiply(tile, T{0}, context);
}

// Tiles of one dimension, of nearly one size. They consist of whole micro-tiles
// and are large enough that packing an operand once per tile costs little.
struct Tiles {
  int64_t size;  // of every tile but the last
  int64_t count;
};
Tiles tiles_of(int64_t total) {
  constexpr int64_t kLargest = 1024;
  constexpr int64_t kUnit = 96;  // a multiple of every kernel's micro-tile
  const int64_t pieces = ceil_div(total, kLargest);
  const int64_t size = ceil_div(ceil_div(total, pieces), kUnit) * kUnit;
  return {size, ceil_div(total, size)};
}

template <typename T>
constexpr num_t kBlisType = sizeof(T) == 4 ? BLIS_FLOAT : BLIS_DOUBLE;

// Returns the kernel that BLIS runs on blocks that it has packed, or nullopt if
// BLIS would not pack, or not as we do.
template <typename T>
std::optional<PackedKernel<T>> packed_kernel(int64_t m, int64_t n, int64_t k,
                                             cntx_t* context) {
  constexpr num_t kType = kBlisType<T>;
  if (bli_cntx_l3_sup_thresh_is_met(kType, m, n, k, context)) {
    return std::nullopt;
  }
  const auto size = [&](bszid_t id) {
    return bli_cntx_get_blksz_def_dt(kType, id, context);
  };
  const auto padded = [&](bszid_t id) {
    return bli_cntx_get_blksz_max_dt(kType, id, context);
  };
  if (padded(BLIS_MR) != size(BLIS_MR) || padded(BLIS_NR) != size(BLIS_NR)) {
    return std::nullopt;
  }
  using Run = void (*)(dim_t, dim_t, dim_t, T*, T*, T*, T*, T*, inc_t, inc_t,
                       auxinfo_t*, cntx_t*);
  const auto run = reinterpret_cast<Run>(
      bli_cntx_get_l3_nat_ukr_dt(kType, BLIS_GEMM_UKR, context));
  PackedKernel<T> kernel;
  kernel.rows = size(BLIS_MR);
  kernel.columns = size(BLIS_NR);
  kernel.depth = size(BLIS_KC);
  kernel.most_depth = padded(BLIS_KC);
  kernel.block = size(BLIS_MC) * kernel.depth;
  kernel.writes_rows =
      bli_cntx_l3_nat_ukr_prefers_rows_dt(kType, BLIS_GEMM_UKR, context);
  kernel.run = [run, context](const MicroTile<T>& tile) {
    // Kernels write to no operand, but do not declare them const.
    T* const a = const_cast<T*>(tile.a);
    T* const b = const_cast<T*>(tile.b);
    T one = 1;
    T beta = tile.adds ? T{1} : T{0};
    auxinfo_t next{};
    bli_auxinfo_set_next_a(const_cast<T*>(tile.next_a), &next);
    bli_auxinfo_set_next_b(b, &next);
    run(tile.rows, tile.columns, tile.depth, &one, a, b, &beta, tile.c.data,
        tile.c.row_stride, tile.c.column_stride, &next, context);
  };
  return kernel;
}

// Multiplies tile by tile of C; a tile's result is the same on any thread.
template <typename T>
void by_tiles(int64_t m, int64_t n, int64_t k,
              std::span<const MatrixProduct<T>> products, Arithmetic arithmetic,
              int threads, cntx_t* context) {
  const Tiles down = tiles_of(m);
  const Tiles across = tiles_of(n);
  const int64_t tiles = down.count * across.count;
  parallel_for(static_cast<int64_t>(products.size()) * tiles, threads,
               [&](int64_t i) {
                 const MatrixProduct<T>& whole = nth(products, i / tiles);
                 const int64_t row = i % tiles / across.count * down.size;
                 const int64_t column = i % across.count * across.size;
                 multiply_tile(
                     Product<T>{std::min(down.size, m - row),
                                std::min(across.size, n - column), k,
                                part(whole.a, row, 0), part(whole.b, 0, column),
                                part(whole.c, row, column)},
                     arithmetic, context);
               });
}

}  // namespace

template <typename T>
void gemm(int64_t m, int64_t n, int64_t k,
          std::span<const MatrixProduct<T>> products, Arithmetic arithmetic,
          int threads, Kernels kernels) {
  SHARDPLAN_CHECK((arithmetic == Arithmetic::F32) == (sizeof(T) == 4));
  if (m == 0 || n == 0 || products.empty()) return;
  if (k == 0) {
    for (const MatrixProduct<T>& each : products) {
      scale_each(Product<T>{m, n, k, each.a, each.b, each.c},
                 [](T& x) { x = 0; });
    }
    return;
  }
  const auto run = [&](std::span<const MatrixProduct<T>> group) {
    if (group.empty()) return;
    cntx_t* context =
        context_of(kernels == Kernels::BySize
                       ? choose<T>(m, n, k, is_transposed(group.front()))
                       : kernels);
    if (const auto kernel = packed_kernel<T>(m, n, k, context)) {
      multiply_packed(*kernel, {m, n, k}, group, arithmetic, threads);
    } else {
      by_tiles(m, n, k, group, arithmetic, threads, context);
    }
  };
  // Neither a product's result nor its kernels may depend on the other
  // products.
  const auto is_other = [&](const MatrixProduct<T>& each) {
    return is_transposed(each) != is_transposed(products.front());
  };
  if (std::none_of(products.begin(), products.end(), is_other)) {
    run(products);
    return;
  }
  std::vector<MatrixProduct<T>> sorted(products.begin(), products.end());
  const auto other =
      std::stable_partition(sorted.begin(), sorted.end(), is_transposed<T>);
  run({sorted.begin(), other});
  run({other, sorted.end()});
}

template <typename T>
void gemm_by_blis(int64_t m, int64_t n, int64_t k,
                  const MatrixProduct<T>& product, Arithmetic arithmetic,
                  Kernels kernels) {
  by_tiles(m, n, k, std::span(&product, 1), arithmetic, 1, context_of(kernels));
}

template void gemm(int64_t, int64_t, int64_t,
                   std::span<const MatrixProduct<float>>, Arithmetic, int,
                   Kernels);
template void gemm(int64_t, int64_t, int64_t,
                   std::span<const MatrixProduct<double>>, Arithmetic, int,
                   Kernels);
template void gemm_by_blis(int64_t, int64_t, int64_t,
                           const MatrixProduct<float>&, Arithmetic, Kernels);
template void gemm_by_blis(int64_t, int64_t, int64_t,
                           const MatrixProduct<double>&, Arithmetic, Kernels);

std::span<const Kernels> usable_kernels() { return contexts().usable; }

const char* gemm_kernels() {
  switch (contexts().usable.back()) {
    case Kernels::Skx:
      return "skx";
    case Kernels::Haswell:
      return "haswell";
    default:
      return "generic";
  }
}

}  // namespace shardplan
