// SPDX-License-Identifier: Apache-2.0
// DequantisedModel: the model that a quantised one with frozen weights (QLoRA)
// computes with. It holds the weights as its matmuls read them.
//
// Packed values, scales and zero points are state, and are counted as they are
// stored. Matmuls read the dequantised elements. bitsandbytes' MatMul4Bit
// dequantises one weight at a time, in forward and again in backward, and
// converts the result if gradients have another dtype; other kernels dequantise
// internally. torchao's 8-bit weights are dequantised for a layer's forward
// pass and saved for its backward pass, because PyTorch's autograd sees the
// matmul. Each quantised weight has a stand-in here, with the name and shape
// that the config without its quantisation gives it. Adapters and unquantised
// weights are unchanged.
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

// A model, and the stored parameters that its parameters are, or are
// dequantised from.
struct DequantisedModel : Model {
  bool saves_dequantised = false;  // dequantised weights are saved for backward
  // Per parameter of this model: the parameter of the stored model that it is,
  // or is dequantised from; whether it is dequantised; and whether it is
  // frozen.
  std::vector<size_t> stored;
  std::vector<bool> dequantised;
  std::vector<bool> frozen;
};

// Builds the model that `manifest` stands for. `plain` is the manifest without
// quantisation (Model::unquantised); `frozen` is per parameter of `manifest`.
// Empty, with the reason reported (SP009), if a quantised weight or a parameter
// outside the config is trained, if no gradient flows through matmuls with the
// quantised weights, if no parameter of `manifest` matches a weight of `plain`,
// or if the shape of a match rules it out.
std::optional<DequantisedModel> dequantised_model(
    const Manifest& manifest, const Manifest& plain,
    const std::vector<bool>& frozen, Diagnostics& diags);

struct DequantisedPlan {
  Plan plan;  // of DequantisedModel::manifest
  // Per parameter, the elements that one device dequantises when it is used; 0
  // for parameters that are stored plain.
  std::vector<Int128> numbers;
  Int128 largest = 0;  // largest entry of `numbers`
};

// Shards each parameter as its stored counterpart. Empty, with the reason
// reported (SP009), if packed values are sharded for computation along a
// dimension that corresponds to none of the matrix.
std::optional<DequantisedPlan> dequantised_plan(const DequantisedModel& model,
                                                const Manifest& manifest,
                                                const Plan& plan,
                                                Diagnostics& diags);

// Maps `layer_of`, per parameter of the model's manifest, to one entry per
// stored parameter: scales belong to the layer of their weight. -1: no layer.
std::vector<int64_t> stored_layers(const DequantisedModel& model,
                                   const Manifest& manifest,
                                   const std::vector<int64_t>& layer_of);

}  // namespace shardplan
