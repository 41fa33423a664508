// SPDX-License-Identifier: Apache-2.0
// Styles of tensor-parallel plans of Hugging Face, and what each does to the
// parameters of a module.
//
// A style shards a module's parameters, and its forward hooks transform the
// module's input and output. Source: transformers 4.51 to 5.0,
// integrations/tensor_parallel.py, and to 5.24, distributed/tensor_parallel.py
// and expert_parallel.py; where versions differ, 5.24.
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
  // "4.51-5.0 5.16-": releases that have it; 5.10, which was withdrawn, aside.
  std::string_view versions;
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

struct TransformersVersion;
// Whether a version has the style.
bool is_in(const TpStyle& style, TransformersVersion version);
// The first version since which all have it. REQUIRES: the newest has it.
TransformersVersion in_all_since(const TpStyle& style);

}  // namespace shardplan
