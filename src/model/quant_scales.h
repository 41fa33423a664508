// SPDX-License-Identifier: Apache-2.0
// Quantisation blocks inferred from the tensors beside a weight that hold its
// scales.
//
// A checkpoint without a config tells them all the same: F8 [768, 7168] beside
// `weight_scale_inv` [6, 56] has a scale for each 128 x 128, an AWQ `qweight`
// beside `scales` of 32 rows a scale for each 32nd part of its rows, and
// `scales` of 1,024 columns beside a `qweight` of 128 packs 8 of them in an
// element. Two tensors say so together, by their names and by their shapes;
// nothing is claimed of a weight alone.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "core/fold.h"
#include "core/manifest.h"

namespace shardplan {

// Whether elements of that type are quantised values. Whole bytes (u8) may be
// anything: packed values, scales, or zero points.
bool is_quantised(DType dtype);

// The method whose tensors a model has, by how their names end: "awq",
// "compressed-tensors", ..; "" where there are none. Weights of 8 bits with a
// `weight_scale` are "compressed-tensors or modelopt", which store them alike.
// O(tensors) where some are of a type that may be packed.
std::string_view quantisation_by_names(const Manifest& manifest);

struct QuantBlocks {
  // Per dimension: elements of the tensor, as stored, that must stay together;
  // 1 or less where any cut will do.
  Shape blocks;
  std::string scales;  // the tensor that says so, as in the first name seen
  Shape scales_shape;
  bool placed = false;  // it is a parameter, not a buffer
};

// By folded name (core/fold.h) and shape: layers are alike.
using QuantBlocksByName = std::map<std::pair<std::string, Shape>, QuantBlocks>;

// REQUIRES: all of a class of the folding have one type, as by placements and
// by types. O(parameters); of a model whose types are not quantised,
// O(classes).
QuantBlocksByName quant_blocks(const Manifest& manifest,
                               const Folding& folding);

// The entry of a tensor; null where nothing tells.
const QuantBlocks* find_blocks(const QuantBlocksByName& known,
                               std::string_view name, const Shape& shape);

}  // namespace shardplan
