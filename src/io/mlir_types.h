// SPDX-License-Identifier: Apache-2.0
// Element types of MLIR's tensors. Integers without a sign are signed ones, as
// StableHLO has them, and `i1` is bool.
#pragma once

#include <optional>
#include <string_view>

#include "core/types.h"

namespace shardplan {

// "f8E4M3FN", "i1", "complex<f32>"; empty where MLIR has no such type.
std::string_view mlir_type_name(DType dtype);
// Names as MLIR prints them; empty for types that we do not have.
std::optional<DType> find_mlir_type(std::string_view name);

}  // namespace shardplan
