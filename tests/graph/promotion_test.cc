// SPDX-License-Identifier: Apache-2.0
#include "graph/promotion.h"

#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "tests/support/messages.h"

namespace shardplan {
namespace {

// The short name of the result, or why there is none.
std::string promoted(const std::vector<DType>& operands,
                     std::optional<DType> wish = std::nullopt) {
  Diagnostics diags;
  const auto result = promoted_dtype(operands, wish, diags);
  return result ? std::string(dtype_name(*result)) : testing::messages(diags);
}

TEST_CASE("operands decide as in JAX's lattice") {
  CHECK(promoted({DType::F32, DType::F32}) == "f32");
  CHECK(promoted({DType::BF16, DType::BF16}) == "bf16");
  CHECK(promoted({DType::BF16, DType::F16}) == "f32");
  CHECK(promoted({DType::BF16, DType::F32}) == "f32");
  CHECK(promoted({DType::F16, DType::F64}) == "f64");
  CHECK(promoted({DType::I64, DType::BF16}) == "bf16");
  CHECK(promoted({DType::I8, DType::I32, DType::F16}) == "f16");
  CHECK(promoted({DType::F8E4M3FN, DType::BF16}) == "bf16");
  CHECK(promoted({DType::C64, DType::F64}) == "c128");
  CHECK(promoted({DType::C64, DType::F32, DType::I64}) == "c64");
}

TEST_CASE("integers alone become f32") {
  CHECK(promoted({DType::I32, DType::I32}) == "f32");
  CHECK(promoted({DType::I64, DType::Bool}) == "f32");
  CHECK(promoted({}) == "f32");
}

TEST_CASE("a wish wins, if it can be computed in") {
  CHECK(promoted({DType::F32, DType::F32}, DType::BF16) == "bf16");
  CHECK(promoted({DType::I32}, DType::F8E5M2) == "f8_e5m2");
  CHECK(promoted({DType::F32}, DType::I32) ==
        "SP015 `i32` is no dtype to compute in");
  CHECK(promoted({DType::F32}, DType::Q4_0) ==
        "SP015 `q4_0` is no dtype to compute in");
}

TEST_CASE("what has no common dtype is refused") {
  CHECK(promoted({DType::F8E4M3FN, DType::F8E5M2}) ==
        "SP015 `f8_e5m2` and `f8_e4m3fn` have no common dtype");
  CHECK(promoted({DType::Q4_0, DType::F32}) ==
        "SP015 `q4_0` and other dtypes have none in common");
}

}  // namespace
}  // namespace shardplan
