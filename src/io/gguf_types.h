// SPDX-License-Identifier: Apache-2.0
// ggml's numbers for element types.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "core/types.h"

namespace shardplan {

// Empty for a number that ggml does not have, has no longer, or that this
// version does not read.
std::optional<DType> ggml_dtype(uint32_t number);

// The name of such a type, and what became of it: "Q4_0_4_4", "which ggml has
// removed". Empty when the number is unknown.
struct RefusedType {
  std::string_view name;
  std::string_view why;
};
std::optional<RefusedType> refused_ggml_type(uint32_t number);

}  // namespace shardplan
