// SPDX-License-Identifier: Apache-2.0
// The kinds of units, one function and one file each; units.cc asks them all.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "model/tensor_name.h"
#include "model/units.h"

namespace shardplan {

// A parameter, read.
struct NamedTensor {
  std::string_view name;
  TensorName tail;
  const TensorType& type;
};

// Heads, KV heads, head groups and fused q, k, v. REQUIRES: in_attention.
std::vector<Unit> attention_units(const NamedTensor& tensor,
                                  const ModelFacts& facts);
// Packed gate and up, concatenated or alternating.
std::optional<Unit> gate_up_unit(const NamedTensor& tensor,
                                 const LayoutHints& hints);
// Experts and groups of them.
std::vector<Unit> expert_units(const NamedTensor& tensor,
                               const ModelFacts& facts);
// Quantisation blocks.
std::vector<Unit> block_units(const NamedTensor& tensor,
                              const ModelFacts& facts,
                              const LayoutHints& hints);
// The stack of scanned layers.
std::optional<Unit> layer_unit(const NamedTensor& tensor,
                               const ModelFacts& facts,
                               const LayoutHints& hints);

}  // namespace shardplan
