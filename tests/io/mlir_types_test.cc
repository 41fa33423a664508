// SPDX-License-Identifier: Apache-2.0
#include "io/mlir_types.h"

#include <doctest/doctest.h>

namespace shardplan {
namespace {

TEST_CASE("types of elements are found by the names that MLIR has for them") {
  int named = 0;
  for (int i = 0; i < kDTypeCount; ++i) {
    const auto dtype = static_cast<DType>(i);
    const std::string_view name = mlir_type_name(dtype);
    if (name.empty()) continue;
    ++named;
    CHECK(find_mlir_type(name) == dtype);
  }
  CHECK(named == 26);
  CHECK(mlir_type_name(DType::F8E4M3FN) == "f8E4M3FN");
  CHECK(mlir_type_name(DType::C64) == "complex<f32>");
  CHECK(mlir_type_name(DType::Q4_K).empty());
  CHECK_FALSE(find_mlir_type("f8e4m3fn"));
  CHECK_FALSE(find_mlir_type("f8E3M4"));
}

}  // namespace
}  // namespace shardplan
