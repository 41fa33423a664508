// SPDX-License-Identifier: Apache-2.0
// Units of parameters that no architecture explains: heads, experts, and packed
// gate and up, by the name and shape of a tensor and the facts of its model.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "model/units.h"

namespace shardplan {

// A parameter with its parsed name.
struct NamedTensor {
  std::string_view name;
  TensorName tail;
  const TensorType& type;
};

// Returns everything except quantisation blocks and stacked layers.
std::vector<Unit> named_units(const NamedTensor& tensor, const Facts& facts,
                              const LayoutHints& hints);

// Returns heads, KV heads, head groups and fused q, k, v.
//
// REQUIRES: in_attention(tensor.tail).
std::vector<Unit> attention_units(const NamedTensor& tensor,
                                  const Facts& facts);

// Adds the units of a dimension of experts: experts, and the groups among which
// routing chooses.
void add_expert_units(size_t dim, int64_t experts, const Facts& facts,
                      std::vector<Unit>& units);

}  // namespace shardplan
