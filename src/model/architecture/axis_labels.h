// SPDX-License-Identifier: Apache-2.0
// Labels of dimensions, for logical axis rules: one table of rules places every
// architecture (rules/logical/all_models.yaml; docs/formats/logical.md).
//
// A dimension is called by the size that stands first in it, `heads` of `heads
// * head_dim`. Others:
//   packed         tensors side by side, which must not be cut apart
//   packed_inputs  what a matrix takes that gives these, but for latents
//   norm           of a norm
//   router         what a router gives; its inputs have no label
//   vector         `hidden` or a latent, `q_rank`, in a tensor of one
//   dimension:
//                  it is added to what every device has
//   x_out          what a square matrix of `x` gives, and its bias
// The second of two dimensions of a parameter that are of one size has none.
#pragma once

#include <string>
#include <string_view>

#include "core/manifest.h"
#include "model/architecture/architecture.h"

namespace shardplan {

// Labels that the program asks for.
inline constexpr std::string_view kHeadsLabel = "heads";
inline constexpr std::string_view kKvHeadsLabel = "kv_heads";
inline constexpr std::string_view kExpertsLabel = "experts";

// The label of a dimension of that kind.
std::string axis_label(const DimKind& dim);

// Sets DimKind::axis of what a step stores: of a weight [out, in] or [rows,
// columns] and its bias, or of a parameter's or norm's dimensions.
void label_weight(const ModuleStep& step, DimKind& out, DimKind& in,
                  DimKind& bias);
void label_vector(const ModuleStep& step, DimKind& dim);
void label_parameter(const ModuleStep& step, ParameterKind& dims);
// The same of tensors that are put side by side in the dimension `at`.
void label_joined(ParameterKind& dims, size_t at);

}  // namespace shardplan
