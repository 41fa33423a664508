// SPDX-License-Identifier: Apache-2.0
// Packs operands into micro-panels, and runs a kernel over them.
#include "graph/packed_gemm.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <map>
#include <memory>
#include <tuple>
#include <utility>
#include <vector>

#include "base/checked.h"
#include "base/parallel.h"
#include "graph/buffers.h"
#include "graph/elementwise.h"

namespace shardplan {
namespace {

// Four floats or two doubles: registers that every processor has.
template <typename T>
struct Lanes;
template <>
struct Lanes<float> {
  using Type __attribute__((vector_size(16))) = float;
};
template <>
struct Lanes<double> {
  using Type __attribute__((vector_size(16))) = double;
};

// Transposes a square of such registers:
// to[j * to_stride + i] becomes from[i * from_stride + j].
void transpose_square(const float* from, int64_t from_stride, float* to,
                      int64_t to_stride) {
  using Four = Lanes<float>::Type;
  Four rows[4];
  for (int64_t i = 0; i < 4; ++i) {
    std::memcpy(&rows[i], from + i * from_stride, sizeof(Four));
  }
  const Four a = __builtin_shufflevector(rows[0], rows[1], 0, 4, 1, 5);
  const Four b = __builtin_shufflevector(rows[2], rows[3], 0, 4, 1, 5);
  const Four c = __builtin_shufflevector(rows[0], rows[1], 2, 6, 3, 7);
  const Four d = __builtin_shufflevector(rows[2], rows[3], 2, 6, 3, 7);
  const Four columns[4] = {__builtin_shufflevector(a, b, 0, 1, 4, 5),
                           __builtin_shufflevector(a, b, 2, 3, 6, 7),
                           __builtin_shufflevector(c, d, 0, 1, 4, 5),
                           __builtin_shufflevector(c, d, 2, 3, 6, 7)};
  for (int64_t j = 0; j < 4; ++j) {
    std::memcpy(to + j * to_stride, &columns[j], sizeof(Four));
  }
}
void transpose_square(const double* from, int64_t from_stride, double* to,
                      int64_t to_stride) {
  using Two = Lanes<double>::Type;
  Two rows[2];
  for (int64_t i = 0; i < 2; ++i) {
    std::memcpy(&rows[i], from + i * from_stride, sizeof(Two));
  }
  const Two columns[2] = {__builtin_shufflevector(rows[0], rows[1], 0, 2),
                          __builtin_shufflevector(rows[0], rows[1], 1, 3)};
  for (int64_t j = 0; j < 2; ++j) {
    std::memcpy(to + j * to_stride, &columns[j], sizeof(Two));
  }
}

constexpr int64_t kCacheLine = 64;  // bytes

// Lines of a matrix that become the lines of micro-panels of one width: element
// (i, l) is at from[i * along + l * across].
template <typename T>
struct Lines {
  const T* from = nullptr;
  int64_t along = 0;
  int64_t across = 0;
  int64_t count = 0;
  int64_t depth = 0;
};

// Copies panels of kWidth lines whose elements are adjacent in memory, without
// reordering them. A constant width makes each copy a few instructions. Returns
// false if the panels have another width.
template <typename T, int64_t kWidth>
bool copy_panels(const Lines<T>& lines, int64_t panels, int64_t width, T* to) {
  if (width != kWidth) return false;
  for (int64_t l = 0; l < lines.depth; ++l) {
    const T* from = lines.from + l * lines.across;
    T* target = to + l * kWidth;
    for (int64_t p = 0; p < panels; ++p) {
      std::memcpy(target, from, size_t{kWidth} * sizeof(T));
      from += kWidth;
      target += kWidth * lines.depth;
    }
  }
  return true;
}

// Copies whole panels; returns false if no code was made for that width.
template <typename T>
bool copy_whole_panels(const Lines<T>& lines, int64_t panels, int64_t width,
                       T* to) {
  return copy_panels<T, 4>(lines, panels, width, to) ||
         copy_panels<T, 6>(lines, panels, width, to) ||
         copy_panels<T, 8>(lines, panels, width, to) ||
         copy_panels<T, 12>(lines, panels, width, to) ||
         copy_panels<T, 14>(lines, panels, width, to) ||
         copy_panels<T, 16>(lines, panels, width, to) ||
         copy_panels<T, 32>(lines, panels, width, to);
}

// Packs one panel of `count` lines up to `width`; missing lines become zero.
template <typename T>
void pack_panel(const Lines<T>& lines, int64_t width, T* to) {
  constexpr auto kSquare =
      static_cast<int64_t>(sizeof(typename Lanes<T>::Type) / sizeof(T));
  constexpr auto kLine = kCacheLine / static_cast<int64_t>(sizeof(T));
  int64_t done = 0;
  if (lines.across == 1 && lines.count == width && width % kSquare == 0) {
    // Reads whole cache lines, which would otherwise be fetched several times.
    for (; done + kLine <= lines.depth; done += kLine) {
      for (int64_t i = 0; i < width; i += kSquare) {
        for (int64_t l = done; l < done + kLine; l += kSquare) {
          transpose_square(lines.from + i * lines.along + l, lines.along,
                           to + l * width + i, width);
        }
      }
    }
  }
  for (int64_t l = done; l < lines.depth; ++l) {
    const T* from = lines.from + l * lines.across;
    T* target = to + l * width;
    for (int64_t i = 0; i < lines.count; ++i) target[i] = from[i * lines.along];
    std::fill(target + lines.count, target + width, T{0});
  }
}

template <typename T>
void pack(const Lines<T>& lines, int64_t width, T* to) {
  const int64_t whole = lines.count / width;
  int64_t panel = 0;
  if (lines.along == 1 && copy_whole_panels(lines, whole, width, to)) {
    panel = whole;
  }
  for (; panel * width < lines.count; ++panel) {
    Lines<T> one = lines;
    one.from += panel * width * lines.along;
    one.count = std::min(width, lines.count - panel * width);
    pack_panel(one, width, to + panel * width * lines.depth);
  }
}

// A part of the contraction that a kernel processes at once.
struct Part {
  int64_t begin = 0;
  int64_t depth = 0;
  bool settles = false;  // sums are reduced to residues after it
};

// Splits the contraction as BLIS does; in the field, it is also split where
// sums must be reduced to residues (field::kBlock).
template <typename T>
std::vector<Part> parts_of(const PackedKernel<T>& kernel, int64_t k,
                           bool in_field) {
  std::vector<Part> parts;
  const int64_t most = in_field ? field::kBlock : k;
  for (int64_t start = 0; start < k; start += most) {
    const int64_t end = std::min(k, start + most);
    for (int64_t at = start; at < end;) {
      const int64_t left = end - at;
      const int64_t depth = left <= kernel.most_depth ? left : kernel.depth;
      at += depth;
      parts.push_back({at - depth, depth, in_field && at == end});
    }
  }
  return parts;
}

template <typename T>
Matrix<T> transposed(const Matrix<T>& matrix) {
  return {matrix.data, matrix.column_stride, matrix.row_stride};
}

// Distinct matrices, identified by address and strides.
template <typename T>
class Places {
 public:
  int64_t number_of(const Matrix<const T>& matrix) {
    const auto [found, is_new] = numbers_.try_emplace(
        {matrix.data, matrix.row_stride, matrix.column_stride},
        std::ssize(all_));
    if (is_new) all_.push_back(matrix);
    return found->second;
  }
  const std::vector<Matrix<const T>>& all() const { return all_; }

 private:
  std::map<std::tuple<const T*, int64_t, int64_t>, int64_t> numbers_;
  std::vector<Matrix<const T>> all_;
};

// Kernels load the numbers of the next step before they know that there is
// none: a step of a micro-panel, 128 bytes of the widest. They do not use what
// they load there.
constexpr int64_t kReadAhead = 1024;

// Returns an unfilled buffer that begins with a cache line.
template <typename T>
std::shared_ptr<T> aligned_buffer(int64_t elements) {
  const int64_t used = elements * static_cast<int64_t>(sizeof(T)) + kReadAhead;
  size_t room = to_size(used + kCacheLine);
  const std::shared_ptr<void> owner = unfilled_buffer(used + kCacheLine);
  void* first = owner.get();
  std::align(kCacheLine, to_size(used), first, room);
  return {owner, static_cast<T*>(first)};
}

// The number of parts of the contraction for which B is packed at once. With
// two, C is loaded and stored half as often as with one. More would leave too
// few lines of A in a block.
constexpr size_t kPartsOfRound = 2;
// The most bytes that packed B may use, unless one product alone needs more.
constexpr int64_t kMostPacked = int64_t{64} << 20U;  // bytes
// The number of panels of B that are packed as one piece of work.
constexpr int64_t kPanelsAtOnce = 16;

template <typename T>
class Packed {
 public:
  Packed(const PackedKernel<T>& kernel, const ProductSize& size,
         Arithmetic arithmetic, int threads)
      : kernel_(kernel),
        rows_(size.m),
        columns_(size.n),
        parts_(parts_of(kernel, size.k, arithmetic == Arithmetic::Field)),
        threads_(threads) {}

  void multiply(std::span<const MatrixProduct<T>> products) {
    Places<T> lefts;
    Places<T> rights;
    uses_.clear();
    for (const MatrixProduct<T>& each : products) {
      const int64_t a = lefts.number_of(each.a);
      if (a == std::ssize(uses_)) uses_.emplace_back();
      nth(uses_, a).push_back({rights.number_of(each.b), each.c});
    }
    for (size_t first = 0; first < parts_.size(); first += kPartsOfRound) {
      const size_t last = std::min(parts_.size(), first + kPartsOfRound);
      round_ = std::span(parts_).subspan(first, last - first);
      depth_ = round_.back().begin + round_.back().depth - round_[0].begin;
      pack_rights(rights.all());
      multiply_round(lefts.all());
    }
  }

 private:
  struct Use {
    int64_t right = 0;
    Matrix<T> c;
  };

  int64_t padded_columns() const {
    return ceil_div(columns_, kernel_.columns) * kernel_.columns;
  }
  // Returns where a part of the round begins, in lines of depth.
  int64_t place_of(const Part& part) const {
    return part.begin - round_[0].begin;
  }

  // Packs B in the order [matrix][part][panel].
  void pack_rights(const std::vector<Matrix<const T>>& rights) {
    const int64_t padded = padded_columns();
    const int64_t step = kPanelsAtOnce * kernel_.columns;
    const int64_t steps = ceil_div(columns_, step);
    const int64_t parts = std::ssize(round_);
    const int64_t count = std::ssize(rights);
    packed_ = aligned_buffer<T>(count * padded * depth_);
    parallel_for(count * parts * steps, threads_, [&](int64_t i) {
      const int64_t which = i / (parts * steps);
      const Part& at = nth(round_, i / steps % parts);
      const int64_t column = i % steps * step;
      const Matrix<const T>& from = nth(rights, which);
      pack(Lines<T>{from.data + column * from.column_stride +
                        at.begin * from.row_stride,
                    from.column_stride, from.row_stride,
                    std::min(step, columns_ - column), at.depth},
           kernel_.columns,
           packed_.get() + which * padded * depth_ + padded * place_of(at) +
               column * at.depth);
    });
  }

  void multiply_round(const std::vector<Matrix<const T>>& lefts) {
    const int64_t rows =
        std::max<int64_t>(1, kernel_.block / depth_ / kernel_.rows) *
        kernel_.rows;
    const int64_t down = ceil_div(rows_, rows);
    const int64_t blocks = std::ssize(lefts) * down;
    // With few blocks, threads would have no work, so each block is packed
    // several times, for several runs of columns.
    const int64_t panels = ceil_div(columns_, kernel_.columns);
    const int64_t across =
        blocks >= 2 * threads_
            ? 1
            : std::min(panels, ceil_div(2 * int64_t{threads_}, blocks));
    parallel_for(blocks * across, threads_, [&](int64_t i) {
      const size_t left = to_size(i / across / down);
      const int64_t row = i / across % down * rows;
      multiply_block(
          lefts[left], uses_[left], row, std::min(rows, rows_ - row),
          {panels * (i % across) / across, panels * (i % across + 1) / across});
    });
  }

  void multiply_block(const Matrix<const T>& left, const std::vector<Use>& uses,
                      int64_t row, int64_t rows, const Slice& panels) {
    const int64_t padded = ceil_div(rows, kernel_.rows) * kernel_.rows;
    const std::shared_ptr<T> block = aligned_buffer<T>(padded * depth_);
    for (const Part& at : round_) {
      pack(Lines<T>{left.data + row * left.row_stride +
                        at.begin * left.column_stride,
                    left.row_stride, left.column_stride, rows, at.depth},
           kernel_.rows, block.get() + padded * place_of(at));
    }
    for (const Use& use : uses) {
      const T* const right =
          packed_.get() + use.right * padded_columns() * depth_;
      for (int64_t panel = panels.begin; panel < panels.end; ++panel) {
        const int64_t column = panel * kernel_.columns;
        Matrix<T> c = use.c;
        c.data += row * c.row_stride + column * c.column_stride;
        const int64_t columns = std::min(kernel_.columns, columns_ - column);
        for (const Part& at : round_) {
          multiply_panel(
              at, block.get() + padded * place_of(at),
              right + padded_columns() * place_of(at) + column * at.depth, rows,
              columns, c);
          if (at.settles) settle(rows, columns, c);
        }
      }
    }
  }

  void multiply_panel(const Part& at, const T* left, const T* right,
                      int64_t rows, int64_t columns, const Matrix<T>& c) {
    MicroTile<T> tile{.columns = columns,
                      .depth = at.depth,
                      .b = right,
                      .c = c,
                      .adds = at.begin > 0};
    for (int64_t row = 0; row < rows; row += kernel_.rows) {
      tile.rows = std::min(kernel_.rows, rows - row);
      tile.a = left + row * at.depth;
      const bool last = row + kernel_.rows >= rows;
      tile.next_a = last ? left : tile.a + kernel_.rows * at.depth;
      tile.c.data = c.data + row * c.row_stride;
      kernel_.run(tile);
    }
  }

  static void settle(int64_t rows, int64_t columns, const Matrix<T>& c) {
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t j = 0; j < columns; ++j) {
        T& number = c.data[i * c.row_stride + j * c.column_stride];
        number = static_cast<T>(field::residue(number));
      }
    }
  }

  const PackedKernel<T>& kernel_;
  int64_t rows_;
  int64_t columns_;
  std::vector<Part> parts_;
  int threads_;
  std::vector<std::vector<Use>> uses_ = {};  // per matrix A
  std::span<const Part> round_ = {};
  int64_t depth_ = 0;  // of the current round
  std::shared_ptr<T> packed_ = {};
};

}  // namespace

template <typename T>
void multiply_packed(const PackedKernel<T>& kernel, const ProductSize& size,
                     std::span<const MatrixProduct<T>> products,
                     Arithmetic arithmetic, int threads) {
  SHARDPLAN_CHECK(size.m > 0 && size.n > 0 && size.k > 0);
  // Computes C' = B' A' if C is not stored in the order in which the kernel
  // writes.
  const Matrix<T>& first = products[0].c;
  const bool by_rows = first.column_stride <= first.row_stride;
  std::vector<MatrixProduct<T>> turned(products.begin(), products.end());
  ProductSize as = size;
  if (by_rows != kernel.writes_rows) {
    std::swap(as.m, as.n);
    for (MatrixProduct<T>& each : turned) {
      each = {transposed(each.b), transposed(each.a), transposed(each.c)};
    }
  }
  const int64_t column_bytes =
      as.n * kernel.depth * static_cast<int64_t>(kPartsOfRound * sizeof(T));
  const size_t at_once =
      to_size(std::max<int64_t>(1, kMostPacked / column_bytes));
  Packed<T> run(kernel, as, arithmetic, threads);
  for (size_t begin = 0; begin < turned.size(); begin += at_once) {
    run.multiply(std::span<const MatrixProduct<T>>(turned).subspan(
        begin, std::min(at_once, turned.size() - begin)));
  }
}

template void multiply_packed(const PackedKernel<float>&, const ProductSize&,
                              std::span<const MatrixProduct<float>>, Arithmetic,
                              int);
template void multiply_packed(const PackedKernel<double>&, const ProductSize&,
                              std::span<const MatrixProduct<double>>,
                              Arithmetic, int);

}  // namespace shardplan
