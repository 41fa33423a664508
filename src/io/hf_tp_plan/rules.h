// SPDX-License-Identifier: Apache-2.0
// Styles of tensor-parallel plans of Hugging Face, and what each does to the
// parameters of a module.
//
// A style shards a module's parameters, and its forward hooks transform the
// module's input and output. Source: transformers 4.51 to 5.0, integrations/tensor_parallel.py, and 5.23,
// distributed/{tensor,expert}_parallel.py; where versions differ, 5.23.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "core/rules.h"

namespace shardplan {

// The dimension that the one axis cuts. Weights are [.., out, in].
enum class TpCut : uint8_t { Whole, First, SecondLast, Last };

struct TpStyle {
  std::string_view name;
  TpCut weight = TpCut::Whole;  // every parameter of a module but its bias
  TpCut bias = TpCut::Whole;
  ModuleHook hook = {};
  // The dimension holds two parts, each of which is cut.
  bool packed = false;
};

// The axis that plans cut over.
inline constexpr std::string_view kTpAxis = "tp";

std::span<const TpStyle> tp_styles();
const TpStyle* find_tp_style(std::string_view name);

}  // namespace shardplan
