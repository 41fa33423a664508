// SPDX-License-Identifier: Apache-2.0
// Dealing: placement of experts that are stored as separate tensors, each whole
// on one rank of an axis (core/plan.h, ExpertPlacement).
//
// A parameter's name gives the number of its expert (model/tensor_name.h). The
// experts of one layer are those whose names agree before that number; their
// count is the largest number plus 1.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/manifest.h"
#include "core/mesh.h"
#include "core/plan.h"
#include "core/rules.h"

namespace shardplan {

// One tensor of an expert, such as its up projection.
struct ExpertTensor {
  int64_t expert = -1;  // -1: its name has no expert number
  int64_t experts = 0;  // number of experts of its layer
  // Whether every expert of the layer has this tensor with the same type and
  // the same labels, and the same rules match their names, so that no rule
  // places them differently.
  bool alike = false;

  bool operator==(const ExpertTensor&) const = default;
};

// Returns whether an active rule places whole experts.
bool deals_experts(const RuleSet& rules);

// Returns one entry per parameter. `found` numbers, per parameter, the set of
// rules that match its name.
std::vector<ExpertTensor> expert_tensors(const Manifest& manifest,
                                         std::span<const uint32_t> found);

// Returns how the tensor's expert is placed over an axis of the mesh. REQUIRES:
// the tensor has an expert number.
ExpertPlacement dealt_over(const ExpertTensor& tensor, const Mesh& mesh,
                           const AxisName& axis);

}  // namespace shardplan
