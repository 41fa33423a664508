// SPDX-License-Identifier: Apache-2.0
// What a tensor is made of: element type and shape, with their sizes.
//
// dtypes are those of safetensors, NumPy/JAX and the short spellings of the
// manifest format; the short form is what is printed. n elements of k bits
// take ceil(n k / 8) bytes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

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
};
inline constexpr int kDTypeCount = 26;

// "bf16", "f8_e4m3fn".
std::string_view dtype_name(DType dtype);
int dtype_bits(DType dtype);
// Any spelling, any case: "bf16", "BF16", "bfloat16", "float8_e4m3fn", ...
std::optional<DType> find_dtype(std::string_view text);
// The short name nearest to a misspelling; empty when none is near.
std::string nearest_dtype(std::string_view text);

// Sizes per dimension, each >= 0; [] is a scalar.
using Shape = std::vector<int64_t>;

// Product of the sizes (1 for a scalar); empty when it exceeds 63 bits.
std::optional<int64_t> element_count(const Shape& shape);
// Bytes of `elements` elements, rounded up to whole bytes; empty on overflow.
std::optional<int64_t> byte_count(int64_t elements, DType dtype);
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
