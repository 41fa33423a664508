// SPDX-License-Identifier: Apache-2.0
// Units of adapters, which are those of the weight that they adapt.
//
// For a linear layer [out, in], PEFT's `lora_B` [out, rank] produces the
// layer's outputs and `lora_A` [rank, in] reads its inputs. Sharding one of
// these dimensions therefore splits the same units as sharding the layer's own
// (SP206). The rank has no units, and neither have other kinds of adapters.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "model/units.h"

namespace shardplan {

// Returns the units of an adapter; empty if the name is no `lora_A` or `lora_B`
// of a linear layer.
std::optional<std::vector<Unit>> adapter_units(std::string_view name,
                                               const TensorType& type,
                                               const Facts& facts,
                                               const LayoutHints& hints);

}  // namespace shardplan
