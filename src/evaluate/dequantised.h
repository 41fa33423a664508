// SPDX-License-Identifier: Apache-2.0
// The model that a quantised one stands for, where what is quantised is frozen
// (QLoRA): what its forward pass multiplies with.
//
// Packed values, scales and zero points are state, and are counted as they are
// stored. Products read the numbers that they stand for: made for a moment of
// one weight (bitsandbytes' MatMul4Bit dequantises in forward and once more in
// backward, and converts that where gradients have another dtype), or within
// the kernel; or made for a layer's forward pass and kept for its backward
// (torchao's weights of 8 bits, whose product PyTorch's autograd sees). Here
// each quantised weight has a stand-in with the name and shape that the config
// gives it without its quantisation; adapters, and what is not quantised, are
// themselves.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "base/checked.h"
#include "base/diagnostic.h"
#include "core/manifest.h"
#include "core/plan.h"
#include "model/model.h"

namespace shardplan {

// A model, and what of the stored one its parameters are or are made of.
struct DequantisedModel : Model {
  bool keeps_made = false;  // from forward to backward
  // Per parameter of it: the one of the stored model that it is, or is made of.
  std::vector<size_t> stored;
  std::vector<bool> made;
  std::vector<bool> frozen;
};

// `plain` is the model before (Model::unquantised); `frozen` is per parameter
// of `manifest`. Empty, with the reason reported (SP009): a quantised weight is
// trained, or no gradient flows through products with it, or nothing in
// `manifest` is what a weight of `plain` could be made of, or its shape says
// that it is of another.
std::optional<DequantisedModel> dequantised_model(
    const Manifest& manifest, const Manifest& plain,
    const std::vector<bool>& frozen, Diagnostics& diags);

struct DequantisedPlan {
  Plan plan;  // of DequantisedModel::manifest
  // Per parameter, the numbers that are made of it as it is used; 0 of others.
  std::vector<Int128> numbers;
  Int128 largest = 0;  // of these
};

// Cut as what is stored. Empty, with the reason reported (SP009): packed values
// whose dimensions are none of a matrix are cut otherwise than for storage.
std::optional<DequantisedPlan> dequantised_plan(const DequantisedModel& model,
                                                const Manifest& manifest,
                                                const Plan& plan,
                                                Diagnostics& diags);

// What is known per parameter of the model's manifest, per parameter of the
// stored one: scales are of the layer that their weight is of. -1: none.
std::vector<int64_t> stored_layers(const DequantisedModel& model,
                                   const Manifest& manifest,
                                   const std::vector<int64_t>& layer_of);

}  // namespace shardplan
