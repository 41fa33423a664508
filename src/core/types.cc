// SPDX-License-Identifier: Apache-2.0
#include "core/types.h"

#include <algorithm>
#include <array>

#include "base/checked.h"
#include "base/text.h"
#include "base/words.h"

namespace shardplan {
namespace {

struct DTypeInfo {
  DType dtype;
  std::string_view name;
  DTypeBlock block;
};

constexpr std::array<DTypeInfo, kDTypeCount> kDTypes = {{
    {DType::F64, "f64", {1, 64}},
    {DType::F32, "f32", {1, 32}},
    {DType::F16, "f16", {1, 16}},
    {DType::BF16, "bf16", {1, 16}},
    {DType::I64, "i64", {1, 64}},
    {DType::I32, "i32", {1, 32}},
    {DType::I16, "i16", {1, 16}},
    {DType::I8, "i8", {1, 8}},
    {DType::I4, "i4", {1, 4}},
    {DType::U64, "u64", {1, 64}},
    {DType::U32, "u32", {1, 32}},
    {DType::U16, "u16", {1, 16}},
    {DType::U8, "u8", {1, 8}},
    {DType::U4, "u4", {1, 4}},
    {DType::Bool, "bool", {1, 8}},
    {DType::C64, "c64", {1, 64}},
    {DType::C128, "c128", {1, 128}},
    {DType::F8E4M3, "f8_e4m3", {1, 8}},
    {DType::F8E5M2, "f8_e5m2", {1, 8}},
    {DType::F8E4M3FN, "f8_e4m3fn", {1, 8}},
    {DType::F8E8M0, "f8_e8m0", {1, 8}},
    {DType::F6E2M3, "f6_e2m3", {1, 6}},
    {DType::F6E3M2, "f6_e3m2", {1, 6}},
    {DType::F4E2M1, "f4_e2m1", {1, 4}},
    {DType::F8E4M3FNUZ, "f8_e4m3fnuz", {1, 8}},
    {DType::F8E5M2FNUZ, "f8_e5m2fnuz", {1, 8}},
    // Bytes of the block structures in ggml-common.h.
    {DType::Q4_0, "q4_0", {32, 18 * 8}},
    {DType::Q4_1, "q4_1", {32, 20 * 8}},
    {DType::Q5_0, "q5_0", {32, 22 * 8}},
    {DType::Q5_1, "q5_1", {32, 24 * 8}},
    {DType::Q8_0, "q8_0", {32, 34 * 8}},
    {DType::Q8_1, "q8_1", {32, 36 * 8}},
    {DType::Q2_K, "q2_k", {256, 84 * 8}},
    {DType::Q3_K, "q3_k", {256, 110 * 8}},
    {DType::Q4_K, "q4_k", {256, 144 * 8}},
    {DType::Q5_K, "q5_k", {256, 176 * 8}},
    {DType::Q6_K, "q6_k", {256, 210 * 8}},
    {DType::Q8_K, "q8_k", {256, 292 * 8}},
    {DType::IQ1_S, "iq1_s", {256, 50 * 8}},
    {DType::IQ1_M, "iq1_m", {256, 56 * 8}},
    {DType::IQ2_XXS, "iq2_xxs", {256, 66 * 8}},
    {DType::IQ2_XS, "iq2_xs", {256, 74 * 8}},
    {DType::IQ2_S, "iq2_s", {256, 82 * 8}},
    {DType::IQ3_XXS, "iq3_xxs", {256, 98 * 8}},
    {DType::IQ3_S, "iq3_s", {256, 110 * 8}},
    {DType::IQ4_NL, "iq4_nl", {32, 18 * 8}},
    {DType::IQ4_XS, "iq4_xs", {256, 136 * 8}},
    {DType::TQ1_0, "tq1_0", {256, 54 * 8}},
    {DType::TQ2_0, "tq2_0", {256, 66 * 8}},
    {DType::MXFP4, "mxfp4", {32, 17 * 8}},
}};

// A type name of NumPy and JAX, and its prefix in the short form.
struct LongForm {
  std::string_view word;
  std::string_view prefix;
};
constexpr std::array<LongForm, 5> kLongForms = {{
    {"bfloat", "bf"},
    {"complex", "c"},
    {"float", "f"},
    {"uint", "u"},
    {"int", "i"},
}};

// Maps "bfloat16" to "bf16" and "float8_e4m3fn" to "f8_e4m3fn". JAX and
// ml_dtypes add "fnu" (finite, no negative zero ...) to the name of e8m0.
std::string short_form(std::string_view text) {
  std::string result = lower_case(text);
  for (const LongForm& form : kLongForms) {
    if (result.starts_with(form.word)) {
      result.replace(0, form.word.size(), form.prefix);
      break;
    }
  }
  for (const std::string_view minifloat :
       {"f8_e8m0", "f6_e2m3", "f6_e3m2", "f4_e2m1"}) {
    if (result == std::string(minifloat) + "fn" ||
        result == std::string(minifloat) + "fnu") {
      return std::string(minifloat);
    }
  }
  return result == "boolean" ? "bool" : result;
}

}  // namespace

std::string_view dtype_name(DType dtype) {
  const DTypeInfo& info = nth(kDTypes, dtype);
  SHARDPLAN_CHECK(info.dtype == dtype);
  return info.name;
}

DTypeBlock dtype_block(DType dtype) { return nth(kDTypes, dtype).block; }

std::optional<DType> find_dtype(std::string_view text) {
  const std::string name = short_form(text);
  for (const DTypeInfo& info : kDTypes) {
    if (info.name == name) return info.dtype;
  }
  // safetensors' spelling of the packed sub-byte floats.
  if (name == "f4") return DType::F4E2M1;
  return std::nullopt;
}

std::string nearest_dtype(std::string_view text) {
  std::vector<std::string> names = all_names(kDTypes);
  return nearest(short_form(text), names).value_or("");
}

std::optional<int64_t> element_count(const Shape& shape) {
  // A zero makes the product zero, however large the other sizes are.
  if (std::ranges::find(shape, 0) != shape.end()) return 0;
  int64_t count = 1;
  for (const int64_t size : shape) {
    const std::optional<int64_t> product = checked_mul(count, size);
    if (!product) return std::nullopt;
    count = *product;
  }
  return count;
}

std::optional<int64_t> byte_count(int64_t elements, DType dtype) {
  const Int128 bytes = wide_byte_count(elements, dtype);
  if (bytes > INT64_MAX) return std::nullopt;
  return static_cast<int64_t>(bytes);
}

Int128 wide_byte_count(Int128 elements, DType dtype) {
  const DTypeBlock block = dtype_block(dtype);
  const Int128 blocks = (elements + block.elements - 1) / block.elements;
  // Multiplies by eight blocks at a time, so that nothing overflows.
  return blocks / 8 * block.bits + (blocks % 8 * block.bits + 7) / 8;
}

bool is_narrower(DType dtype, DType other) {
  const DTypeBlock a = dtype_block(dtype);
  const DTypeBlock b = dtype_block(other);
  return a.bits * b.elements < b.bits * a.elements;
}

std::string shape_text(const Shape& shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i) {
    if (i > 0) text += ", ";
    text += std::to_string(shape[i]);
  }
  return text + "]";
}

int64_t TensorType::elements() const {
  const std::optional<int64_t> count = element_count(shape);
  SHARDPLAN_CHECK(count.has_value());
  return *count;
}

int64_t TensorType::bytes() const {
  const std::optional<int64_t> count = byte_count(elements(), dtype);
  SHARDPLAN_CHECK(count.has_value());
  return *count;
}

std::string type_text(const TensorType& type) {
  return std::string(dtype_name(type.dtype)) + shape_text(type.shape);
}

}  // namespace shardplan
