// SPDX-License-Identifier: Apache-2.0
// Labels of dimensions, for logical axis rules: one table of rules places every
// architecture (rules/logical/all_models.yaml; docs/formats/logical.md).
//
// A dimension is called by the size that stands first in it, `heads` of `heads
// * head_dim`. Others:
//   packed         tensors side by side that have different labels
//   norm           of a norm
//   router         what a router gives; its inputs have no label
//   hidden_vector  `hidden` in a tensor of one dimension, or of one for each of
//                  several that are stacked: added to what every device has
//   x_out          the first dimension of a square matrix of `x`
#pragma once

#include "core/manifest.h"
#include "model/architecture/architecture.h"

namespace shardplan {

// The label of a dimension of that kind.
std::string axis_label(const DimKind& dim);

// Sets DimKind::axis of what a step stores: of a weight [out, in] or [rows,
// columns] and its bias, or of a parameter's or norm's dimensions.
void label_weight(const ModuleStep& step, DimKind& out, DimKind& in);
void label_vector(const ModuleStep& step, DimKind& dim);
void label_parameter(const ModuleStep& step, ParameterKind& dims);

// Gives the parameters of a manifest their labels (Manifest::axes), where an
// architecture explains them. False where none is explained.
bool label_parameters(Manifest& manifest);

}  // namespace shardplan
