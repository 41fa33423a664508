// SPDX-License-Identifier: Apache-2.0
// Infers quantisation blocks from the tensors that store a weight's scales.
//
// This works without a config: F8 [768, 7168] with `weight_scale_inv` [6, 56]
// has one scale per 128 x 128 elements; an AWQ `qweight` with `scales` of 32
// rows has one scale per 32nd part of its rows; and `scales` of 1,024 columns
// with a `qweight` of 128 columns mean that 8 columns are packed in an element.
// The evidence is always a pair of tensors, by their names and shapes; a weight
// alone proves nothing.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "core/fold.h"
#include "core/manifest.h"

namespace shardplan {

// Returns whether elements of that type are quantised values. Whole bytes (u8)
// may be anything: packed values, scales, or zero points.
bool is_quantised(DType dtype);

// Returns the first weight whose numbers are quantised; -1 if there is none.
// Plain models also have integers: positions (64 bits) and masks (`bias` of
// GPT-2).
int64_t quantised_weight(const Manifest& manifest);

// Returns the quantisation method whose tensors a model has, according to the
// ends of their names: "awq", "compressed-tensors", ..; "" if there are none.
// 8-bit weights with a `weight_scale` are "compressed-tensors or modelopt",
// which store them in the same way. O(tensors) if some have a type that may be
// packed.
std::string_view quantisation_by_names(const Manifest& manifest);

struct QuantBlocks {
  // Per dimension: number of stored elements that must stay together; 1 or less
  // if the dimension can be sharded anywhere.
  Shape blocks;
  std::string scales;  // the tensor that shows it; name of the first one seen
  Shape scales_shape;
  bool placed = false;  // the scales are a parameter, not a buffer
};

// By folded name (core/fold.h) and shape, since layers are alike.
using QuantBlocksByName = std::map<std::pair<std::string, Shape>, QuantBlocks>;

// Returns the blocks of all weights. O(parameters), but O(classes) for a model
// whose types are not quantised.
//
// REQUIRES: all parameters of a class of the folding have one type, as in
// foldings by placement and by type.
QuantBlocksByName quant_blocks(const Manifest& manifest,
                               const Folding& folding);

// Returns the entry of a tensor; null if its blocks are not known.
const QuantBlocks* find_blocks(const QuantBlocksByName& known,
                               std::string_view name, const Shape& shape);

}  // namespace shardplan
