// SPDX-License-Identifier: Apache-2.0
#include "graph/promotion.h"

#include <string>

namespace shardplan {
namespace {

enum class Class : uint8_t { Integer, NarrowFloat, Float, Complex, Blocks };

Class class_of(DType dtype) {
  switch (dtype) {
    case DType::F64:
    case DType::F32:
    case DType::F16:
    case DType::BF16:
      return Class::Float;
    case DType::C64:
    case DType::C128:
      return Class::Complex;
    case DType::F8E4M3:
    case DType::F8E5M2:
    case DType::F8E4M3FN:
    case DType::F8E8M0:
    case DType::F6E2M3:
    case DType::F6E3M2:
    case DType::F4E2M1:
    case DType::F8E4M3FNUZ:
    case DType::F8E5M2FNUZ:
      return Class::NarrowFloat;
    case DType::I64:
    case DType::I32:
    case DType::I16:
    case DType::I8:
    case DType::I4:
    case DType::U64:
    case DType::U32:
    case DType::U16:
    case DType::U8:
    case DType::U4:
    case DType::Bool:
      return Class::Integer;
    default:
      return Class::Blocks;
  }
}

bool is_64_bit(DType dtype) {
  return dtype == DType::F64 || dtype == DType::C128;
}

// The least type above both, any integer for two integers; empty when there is
// none. REQUIRES: no blocks.
std::optional<DType> joined(DType a, DType b) {
  if (a == b) return a;
  const Class of_a = class_of(a);
  const Class of_b = class_of(b);
  if (of_a == Class::Complex || of_b == Class::Complex) {
    return is_64_bit(a) || is_64_bit(b) ? DType::C128 : DType::C64;
  }
  if (of_a != of_b) return of_a < of_b ? b : a;
  if (of_a == Class::Integer) return a;
  if (of_a == Class::NarrowFloat) return std::nullopt;
  return is_64_bit(a) || is_64_bit(b) ? DType::F64 : DType::F32;
}

}  // namespace

std::optional<DType> promoted_dtype(std::span<const DType> operands,
                                    std::optional<DType> wish,
                                    Diagnostics& diags) {
  if (wish) {
    const Class kind = class_of(*wish);
    if (kind != Class::Integer && kind != Class::Blocks) return wish;
    return diags
        .error(Code::InvalidGraph, {},
               "`" + std::string(dtype_name(*wish)) +
                   "` is no dtype to compute in")
        .help("it must be a float or complex");
  }
  std::optional<DType> result;
  for (const DType dtype : operands) {
    const auto next = result ? joined(*result, dtype) : dtype;
    if (class_of(dtype) == Class::Blocks || !next) {
      return diags.error(Code::InvalidGraph, {},
                         "`" + std::string(dtype_name(dtype)) + "` and " +
                             (result ? "`" + std::string(dtype_name(*result)) +
                                           "` have no common dtype"
                                     : "other dtypes have none in common"));
    }
    result = *next;
  }
  if (!result || class_of(*result) == Class::Integer) return DType::F32;
  return result;
}

}  // namespace shardplan
