// SPDX-License-Identifier: Apache-2.0
#include "core/types.h"

#include <algorithm>
#include <array>
#include <cctype>

#include "base/check.h"
#include "base/checked.h"
#include "base/text.h"

namespace shardplan {
namespace {

struct DTypeInfo {
  DType dtype;
  std::string_view name;
  int bits;
};

constexpr std::array<DTypeInfo, kDTypeCount> kDTypes = {{
    {DType::F64, "f64", 64},
    {DType::F32, "f32", 32},
    {DType::F16, "f16", 16},
    {DType::BF16, "bf16", 16},
    {DType::I64, "i64", 64},
    {DType::I32, "i32", 32},
    {DType::I16, "i16", 16},
    {DType::I8, "i8", 8},
    {DType::I4, "i4", 4},
    {DType::U64, "u64", 64},
    {DType::U32, "u32", 32},
    {DType::U16, "u16", 16},
    {DType::U8, "u8", 8},
    {DType::U4, "u4", 4},
    {DType::Bool, "bool", 8},
    {DType::C64, "c64", 64},
    {DType::C128, "c128", 128},
    {DType::F8E4M3, "f8_e4m3", 8},
    {DType::F8E5M2, "f8_e5m2", 8},
    {DType::F8E4M3FN, "f8_e4m3fn", 8},
    {DType::F8E8M0, "f8_e8m0", 8},
    {DType::F6E2M3, "f6_e2m3", 6},
    {DType::F6E3M2, "f6_e3m2", 6},
    {DType::F4E2M1, "f4_e2m1", 4},
    {DType::F8E4M3FNUZ, "f8_e4m3fnuz", 8},
    {DType::F8E5M2FNUZ, "f8_e5m2fnuz", 8},
}};

// Words of NumPy and JAX, and the prefix that the short form has instead.
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

std::string lower(std::string_view text) {
  std::string result(text);
  std::transform(result.begin(), result.end(), result.begin(), [](char c) {
    return static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  });
  return result;
}

// "bfloat16" -> "bf16", "float8_e4m3fn" -> "f8_e4m3fn". JAX and ml_dtypes add
// "fnu" (finite, no negative zero ...) to the name of e8m0.
std::string short_form(std::string_view text) {
  std::string result = lower(text);
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
  const DTypeInfo& info = kDTypes.at(static_cast<size_t>(dtype));
  SHARDPLAN_CHECK(info.dtype == dtype);
  return info.name;
}

int dtype_bits(DType dtype) {
  return kDTypes.at(static_cast<size_t>(dtype)).bits;
}

std::optional<DType> find_dtype(std::string_view text) {
  const std::string name = short_form(text);
  for (const DTypeInfo& info : kDTypes) {
    if (info.name == name) return info.dtype;
  }
  // safetensors' packed spellings of the sub-byte floats.
  if (name == "f4") return DType::F4E2M1;
  return std::nullopt;
}

std::string nearest_dtype(std::string_view text) {
  std::vector<std::string> names;
  names.reserve(kDTypes.size());
  for (const DTypeInfo& info : kDTypes) names.emplace_back(info.name);
  return nearest(short_form(text), names).value_or("");
}

std::optional<int64_t> element_count(const Shape& shape) {
  // A zero makes the product zero, however large the other sizes are.
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return 0;
  int64_t count = 1;
  for (const int64_t size : shape) {
    const std::optional<int64_t> product = checked_mul(count, size);
    if (!product) return std::nullopt;
    count = *product;
  }
  return count;
}

std::optional<int64_t> byte_count(int64_t elements, DType dtype) {
  const Int128 bytes =
      (static_cast<Int128>(elements) * dtype_bits(dtype) + 7) / 8;
  if (bytes > INT64_MAX) return std::nullopt;
  return static_cast<int64_t>(bytes);
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
