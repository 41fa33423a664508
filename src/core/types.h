// SPDX-License-Identifier: Apache-2.0
// TensorType: element type and shape of a tensor, with their sizes.
//
// dtypes are those of safetensors, NumPy/JAX and the short spellings of the
// manifest format; output uses the short form. n elements of k bits occupy
// ceil(n k / 8) bytes. The types of GGUF are blocks of 32 or 256 elements along
// the last dimension; n elements occupy ceil(n / block) blocks.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/checked.h"

namespace shardplan {

enum class DType : uint8_t {
  F64,
  F32,
  F16,
  BF16,
  I64,
  I32,
  I16,
  I8,
  I4,
  U64,
  U32,
  U16,
  U8,
  U4,
  Bool,
  C64,
  C128,
  F8E4M3,
  F8E5M2,
  F8E4M3FN,
  F8E8M0,
  F6E2M3,
  F6E3M2,
  F4E2M1,
  F8E4M3FNUZ,
  F8E5M2FNUZ,
  // GGUF blocks: some elements along the last dimension share scales.
  Q4_0,
  Q4_1,
  Q5_0,
  Q5_1,
  Q8_0,
  Q8_1,
  Q2_K,
  Q3_K,
  Q4_K,
  Q5_K,
  Q6_K,
  Q8_K,
  IQ1_S,
  IQ1_M,
  IQ2_XXS,
  IQ2_XS,
  IQ2_S,
  IQ3_XXS,
  IQ3_S,
  IQ4_NL,
  IQ4_XS,
  TQ1_0,
  TQ2_0,
  MXFP4,
};
inline constexpr int kDTypeCount = 50;

// Returns the short form: "bf16", "f8_e4m3fn".
std::string_view dtype_name(DType dtype);
// The storage unit of a dtype: `elements` elements in `bits` bits, never split.
struct DTypeBlock {
  int elements = 1;
  int bits = 0;
};
DTypeBlock dtype_block(DType dtype);
// Returns whether elements of `dtype` have fewer bits on average.
bool is_narrower(DType dtype, DType other);
// Accepts any spelling in any case: "bf16", "BF16", "bfloat16",
// "float8_e4m3fn", ...
std::optional<DType> find_dtype(std::string_view text);
// Returns the short name nearest to a misspelling; empty if none is near.
std::string nearest_dtype(std::string_view text);

// Sizes per dimension, each >= 0; [] is a scalar.
using Shape = std::vector<int64_t>;

// Returns the product of the sizes (1 for a scalar); empty if it exceeds 63
// bits.
std::optional<int64_t> element_count(const Shape& shape);
// Returns the bytes of `elements` elements, rounded up to whole blocks and
// whole bytes; empty on overflow.
std::optional<int64_t> byte_count(int64_t elements, DType dtype);
// The same in 128 bits. REQUIRES: at most 2^120 elements.
Int128 wide_byte_count(Int128 elements, DType dtype);
std::string shape_text(const Shape& shape);  // "[2048, 256]"

struct TensorType {
  DType dtype = DType::F32;
  Shape shape;

  bool operator==(const TensorType&) const = default;

  // REQUIRES: both fit 63 bits, which every loaded Manifest guarantees.
  int64_t elements() const;
  int64_t bytes() const;
};

std::string type_text(const TensorType& type);  // "bf16[2048, 256]"

}  // namespace shardplan
