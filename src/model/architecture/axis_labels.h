// SPDX-License-Identifier: Apache-2.0
// Labels of dimensions for logical axis rules, so that one table of rules
// places every architecture (rules/logical/all_models.yaml;
// docs/formats/logical.md).
//
// The label of a dimension is the first size in it: `heads` for
// `heads * head_dim`. Other labels:
//   packed         tensors side by side, which must not be split
//   packed_inputs  the input of a matrix that produces these, except latents
//   norm           a norm
//   router         the output of a router; its inputs have no label
//   vector         `hidden`, or a latent such as `q_rank`, in a one-dimensional
//                  tensor that is added to what every device has
//   x_out          the output of a square matrix of `x`, and its bias
// If two dimensions of a parameter have the same label, only the first gets it.
#pragma once

#include <string>
#include <string_view>

#include "core/manifest.h"
#include "model/architecture/architecture.h"

namespace shardplan {

// Labels that code refers to.
inline constexpr std::string_view kHeadsLabel = "heads";
inline constexpr std::string_view kKvHeadsLabel = "kv_heads";
inline constexpr std::string_view kExpertsLabel = "experts";

// Returns the label of a dimension of that kind.
std::string axis_label(const DimKind& dim);

// These set DimKind::axis for the tensors of a step: for a weight [out, in] or
// [rows, columns] and its bias, for a one-dimensional tensor, and for a
// parameter of any rank.
void label_weight(const ModuleStep& step, DimKind& out, DimKind& in,
                  DimKind& bias);
void label_vector(const ModuleStep& step, DimKind& dim);
void label_parameter(const ModuleStep& step, ParameterKind& dims);
// Does the same for tensors that are side by side in dimension `at`.
void label_joined(ParameterKind& dims, size_t at);

}  // namespace shardplan
