// SPDX-License-Identifier: Apache-2.0
#include "io/mlir_types.h"

#include <array>

namespace shardplan {
namespace {

struct MlirType {
  std::string_view name;
  DType dtype;
};
constexpr std::array<MlirType, 26> kMlirTypes = {{
    {"f64", DType::F64},
    {"f32", DType::F32},
    {"f16", DType::F16},
    {"bf16", DType::BF16},
    {"i64", DType::I64},
    {"i32", DType::I32},
    {"i16", DType::I16},
    {"i8", DType::I8},
    {"i4", DType::I4},
    {"ui64", DType::U64},
    {"ui32", DType::U32},
    {"ui16", DType::U16},
    {"ui8", DType::U8},
    {"ui4", DType::U4},
    {"i1", DType::Bool},
    {"complex<f32>", DType::C64},
    {"complex<f64>", DType::C128},
    {"f8E4M3", DType::F8E4M3},
    {"f8E5M2", DType::F8E5M2},
    {"f8E4M3FN", DType::F8E4M3FN},
    {"f8E8M0FNU", DType::F8E8M0},
    {"f6E2M3FN", DType::F6E2M3},
    {"f6E3M2FN", DType::F6E3M2},
    {"f4E2M1FN", DType::F4E2M1},
    {"f8E4M3FNUZ", DType::F8E4M3FNUZ},
    {"f8E5M2FNUZ", DType::F8E5M2FNUZ},
}};

}  // namespace

std::string_view mlir_type_name(DType dtype) {
  for (const MlirType& known : kMlirTypes) {
    if (known.dtype == dtype) return known.name;
  }
  return "";
}

std::optional<DType> find_mlir_type(std::string_view name) {
  for (const MlirType& known : kMlirTypes) {
    if (known.name == name) return known.dtype;
  }
  return std::nullopt;
}

}  // namespace shardplan
