// SPDX-License-Identifier: Apache-2.0
// Units: what of a dimension must stay whole, though numbers would divide it.
//
// `k_proj` of a model with 8 KV heads has 1,024 rows, which 16 divides; half a
// head per device is wrong all the same (SP206). A unit says that a dimension
// consists of `count` equal parts (attention heads, KV heads, experts), so it
// may be cut into n shards only where n divides `count`.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "core/manifest.h"
#include "core/types.h"
#include "resolve/facts.h"

namespace shardplan {

enum class UnitKind : uint8_t { Head, KvHead, Expert };
std::string_view unit_name(UnitKind kind);  // "head", "KV head", "expert"

struct Unit {
  int dim = 0;  // 0-based
  UnitKind kind = UnitKind::Head;
  int64_t count = 1;  // units in the dimension; 1: any cut splits it
};

// The units of a parameter, told from its name (Hugging Face and Flax/EasyDeL
// spellings, weights and biases, either layout), its shape and the facts.
// Nothing is claimed where a name is not known or the shape does not agree
// with the facts.
std::vector<Unit> units_of(std::string_view name, const TensorType& type,
                           const ModelFacts& facts);

}  // namespace shardplan
