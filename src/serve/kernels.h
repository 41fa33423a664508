// SPDX-License-Identifier: Apache-2.0
// What kernels make of weights once an engine has loaded them: rows and columns
// that are padded to whole tiles, scales in another form, a second copy of
// them. Which kernel runs follows from the engine, from how the weights are
// quantised and from the generation of the card.
//
// Read in the wheels of vLLM 0.33.0 and SGLang 0.5.23, without flags and
// environment variables that choose a kernel. What logs say of it is in
// tests/serve/loaded_test.cc. Units: bytes; rows, columns and multiples are
// numbers of a matrix [out, in].
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "core/hardware.h"
#include "core/manifest.h"
#include "core/types.h"

namespace shardplan {

// How a checkpoint stores the numbers of a matrix.
enum class Packing : uint8_t {
  Plain,      // in floats of 16 or 32 bits
  Fp8Blocks,  // in 8 bits, with a scale for each 128 x 128
  Ints,   // in 4 or 8 bits, several in a word: AWQ, GPTQ, compressed-tensors
  Nvfp4,  // in 4 bits, with a scale of 8 bits for each 16
  Mxfp4,  // in 4 bits, with a power of two for each 32
};
std::string_view packing_title(Packing packing);  // "MXFP4"

enum class ZeroPoints : uint8_t { None, Unused, Used };

// One matrix, or stacked ones.
struct StoredMatrix {
  Packing packing = Packing::Plain;
  bool expert = false;
  int64_t bits = 16;
  int64_t group = 0;  // columns that share a scale; 0: all
  ZeroPoints zeros = ZeroPoints::None;
  // Dimensions of the tensor, and how many numbers one element stands for.
  size_t rows_at = 0;
  size_t columns_at = 1;
  int64_t rows_unit = 1;
  int64_t columns_unit = 1;
  // The width of an expert is its rows (gate and up) or its columns (down); the
  // caller says so, who knows what is cut.
  bool width_in_rows = false;
  bool width_in_columns = false;
  int64_t halves = 1;  // 2: gate and up stand side by side in the rows
  // A bias of stacked experts: rows without columns.
  bool bias = false;
};
// Empty for what is no matrix of a layer, by its name, dimensions and type:
// norms, scales. `expert`: of a module of experts; `has_zeros`: zero points
// stand beside it.
std::optional<StoredMatrix> stored_matrix(std::string_view folded,
                                          const TensorType& type,
                                          const ParameterKind& kind,
                                          bool expert, bool has_zeros);

// The same on one rank.
struct MatrixSize {
  int64_t matrices = 1;
  int64_t rows = 0;
  int64_t columns = 0;
};
// REQUIRES: `local` has the dimensions of the tensor.
MatrixSize matrix_size(const StoredMatrix& matrix, const Shape& local);

// What decides which kernel runs.
struct KernelQuestion {
  std::string_view engine;  // "vllm"
  CardGeneration card = CardGeneration::Unknown;
  std::string_view model_type;
  bool dealt = false;  // experts are dealt out whole over several devices
};

struct KernelRow;
// The row of the table that applies; null where the weights stay as they are
// stored. With CardGeneration::Unknown always null.
const KernelRow* kernel_for(const KernelQuestion& question,
                            const StoredMatrix& matrix, const MatrixSize& size);
std::string_view kernel_name(const KernelRow& row);  // "Marlin"
bool is_refused(const KernelRow& row);  // the engine has none for the card
// Whether some card's kernels change such weights.
bool may_change(std::string_view engine, Packing packing, bool expert);

// Bytes that the kernel's form takes beyond the stored one; negative where it
// takes less. Empty beyond 63 bits.
std::optional<int64_t> added_bytes(const KernelRow& row,
                                   const StoredMatrix& matrix,
                                   const MatrixSize& size);

}  // namespace shardplan
