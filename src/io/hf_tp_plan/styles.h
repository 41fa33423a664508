// SPDX-License-Identifier: Apache-2.0
// The styles of Hugging Face's tensor-parallel plans, and how each one shards
// the parameters of a module.
//
// A style shards a module's parameters, and its forward hooks transform the
// module's input and output. Source: transformers 4.51 to 5.0,
// integrations/tensor_parallel.py, and to 5.24, distributed/tensor_parallel.py
// and expert_parallel.py; if versions differ, 5.24.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "core/rules.h"

namespace shardplan {

// The dimension that a style shards. Weights are [.., out, in].
enum class TpCut : uint8_t { Whole, First, SecondLast, Last };

struct TpStyle {
  std::string_view name;
  // The releases with this style, "4.51-5.0 5.16-", without 5.10, which was
  // withdrawn.
  std::string_view versions;
  TpCut weight = TpCut::Whole;  // every parameter of a module except its bias
  TpCut bias = TpCut::Whole;
  ModuleHook hook = {};
  // Whether the dimension consists of two parts, each of which is sharded.
  bool packed = false;
};

// The axis that plans shard over.
inline constexpr std::string_view kTpAxis = "tp";

std::span<const TpStyle> tp_styles();
const TpStyle* find_tp_style(std::string_view name);

struct TransformersVersion;
// Returns whether a version has the style.
bool is_in(const TpStyle& style, TransformersVersion version);
// Returns the first version from which on all versions have the style.
// REQUIRES: the newest has it.
TransformersVersion in_all_since(const TpStyle& style);

}  // namespace shardplan
