// SPDX-License-Identifier: Apache-2.0
// Dealing: experts that are stored one by one, each whole on one rank of an
// axis (core/plan.h, Dealt).
//
// Names say which expert a parameter is of (model/tensor_name.h). The experts
// of one layer are those that share what stands before the number; there are as
// many as the largest number says.
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
  int64_t expert = -1;  // -1: its name has no number of an expert
  int64_t experts = 0;  // of its layer
  // Every expert of the layer has this tensor, of one type and with the same
  // labels, and the same rules are found in their names: no rule places them
  // differently.
  bool alike = false;

  bool operator==(const ExpertTensor&) const = default;
};

// Whether a rule that may decide deals experts out.
bool deals_experts(const RuleSet& rules);

// Per parameter. `found` numbers, per parameter, the rules that are found in
// its name.
std::vector<ExpertTensor> expert_tensors(const Manifest& manifest,
                                         std::span<const uint32_t> found);

// How it is dealt out over an axis of the mesh. REQUIRES: it has a number.
Dealt dealt_over(const ExpertTensor& tensor, const Mesh& mesh,
                 const AxisName& axis);

}  // namespace shardplan
