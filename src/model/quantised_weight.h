// SPDX-License-Identifier: Apache-2.0
// Detects weights whose stored numbers are quantised values.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/manifest.h"

namespace shardplan {

// Returns the first weight whose numbers are quantised; -1 if there is none.
// Plain models also have integers: positions (64 bits) and masks (`bias` of
// GPT-2).
inline int64_t quantised_weight(const Manifest& manifest) {
  for (size_t i = 0; i < manifest.size(); ++i) {
    const DType dtype = manifest.type(i).dtype;
    const bool plain = dtype == DType::F64 || dtype == DType::F32 ||
                       dtype == DType::F16 || dtype == DType::BF16 ||
                       dtype == DType::I64 || dtype == DType::Bool;
    if (!plain && !manifest.name(i).ends_with("bias")) {
      return static_cast<int64_t>(i);
    }
  }
  return -1;
}

}  // namespace shardplan
