// SPDX-License-Identifier: Apache-2.0
// KernelRow: the form that a kernel gives to weights once an engine has loaded
// them. It may pad rows and columns to whole tiles, convert scales, or add a
// second copy. The engine, the quantisation of the weights and the generation
// of the card determine which kernel runs.
//
// Derived from the wheels of vLLM 0.33.0 and SGLang 0.5.23, without flags and
// environment variables that choose a kernel. tests/serve/loaded_test.cc holds
// the matching log lines. Units: bytes; rows, columns and multiples are
// elements of a matrix [out, in].
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "core/hardware.h"
#include "core/manifest.h"
#include "core/types.h"

namespace shardplan {

// How a checkpoint stores the elements of a matrix.
enum class Packing : uint8_t {
  Plain,      // floats of 16 or 32 bits
  Fp8Blocks,  // 8 bits, with a scale for each 128 x 128
  Ints,   // 4 or 8 bits, several in each word: AWQ, GPTQ, compressed-tensors
  Nvfp4,  // 4 bits, with an 8-bit scale for each 16
  Mxfp4,  // 4 bits, with a power of two for each 32
};
std::string_view packing_title(Packing packing);  // "MXFP4"

enum class ZeroPoints : uint8_t { None, Unused, Used };

// One matrix, or a stack of matrices.
struct StoredMatrix {
  Packing packing = Packing::Plain;
  bool expert = false;
  int64_t bits = 16;
  int64_t group = 0;  // columns that share a scale; 0: all
  ZeroPoints zeros = ZeroPoints::None;
  // The tensor's dimensions, and the matrix elements per element of the tensor.
  size_t rows_at = 0;
  size_t columns_at = 1;
  int64_t rows_unit = 1;
  int64_t columns_unit = 1;
  // Whether the rows (gate and up) or the columns (down) are the width of an
  // expert. The caller sets these, because it knows what is sharded.
  bool width_in_rows = false;
  bool width_in_columns = false;
  int64_t halves = 1;  // 2: the rows hold both gate and up
  // A bias of stacked experts has rows but no columns.
  bool bias = false;
};
// Describes a parameter as a matrix. Empty if its name, dimensions and type
// show that it is not a matrix of a layer, such as a norm or a scale. `expert`:
// it belongs to an expert module. `has_zeros`: it has zero points.
std::optional<StoredMatrix> stored_matrix(std::string_view folded,
                                          const TensorType& type,
                                          const ParameterKind& kind,
                                          bool expert, bool has_zeros);

// The size of a matrix on one rank.
struct MatrixSize {
  int64_t matrices = 1;
  int64_t rows = 0;
  int64_t columns = 0;
};
// Returns the size for a local shape, which must have the tensor's rank.
MatrixSize matrix_size(const StoredMatrix& matrix, const Shape& local);

// Everything that determines which kernel runs.
struct KernelQuestion {
  std::string_view engine;  // "vllm"
  CardGeneration card = CardGeneration::Unknown;
  std::string_view model_type;
  bool dealt = false;  // whole experts are placed over several devices
};

struct KernelRow;
// Returns the matching row of the table; null if the weights stay as stored.
// Always null for CardGeneration::Unknown.
const KernelRow* kernel_for(const KernelQuestion& question,
                            const StoredMatrix& matrix, const MatrixSize& size);
std::string_view kernel_name(const KernelRow& row);  // "Marlin"
bool is_refused(const KernelRow& row);  // the engine has no kernel for the card
// Returns whether the kernels of any card change such weights.
bool may_change(std::string_view engine, Packing packing, bool expert);

// Returns the bytes that the kernel's form needs beyond the stored one;
// negative if it needs fewer. Empty beyond 63 bits.
std::optional<int64_t> added_bytes(const KernelRow& row,
                                   const StoredMatrix& matrix,
                                   const MatrixSize& size);

}  // namespace shardplan
