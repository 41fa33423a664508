// SPDX-License-Identifier: Apache-2.0
// Whether the numbers of a model's weights stand for others.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/manifest.h"

namespace shardplan {

// The first weight whose numbers stand for others; -1: there is none. Positions
// (64 bits) and masks (`bias` of GPT-2) are whole numbers in plain models, too.
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
