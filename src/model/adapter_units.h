// SPDX-License-Identifier: Apache-2.0
// Units of adapters, which follow those of the weight that they adapt.
//
// Beside a linear layer [out, in], PEFT's `lora_B` [out, rank] gives what the
// layer gives, and `lora_A` [rank, in] takes what it takes: a cut of these
// dimensions splits what a cut of the layer's own would (SP206). The rank has
// no units. Of adapters of other kinds nothing is claimed.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "model/units.h"

namespace shardplan {

// Empty: the name is no `lora_A` or `lora_B` of a linear layer.
std::optional<std::vector<Unit>> adapter_units(std::string_view name,
                                               const TensorType& type,
                                               const Facts& facts,
                                               const LayoutHints& hints);

}  // namespace shardplan
