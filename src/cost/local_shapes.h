// SPDX-License-Identifier: Apache-2.0
// Local shapes: the sizes of a product or of attention on one device, from the
// factors of an instruction and the axes that shard them.
#pragma once

#include "activations/saved_values.h"
#include "cost/kernels.h"
#include "graph/regions.h"
#include "spmd/program.h"

namespace shardplan {

struct LocalProduct {
  ProductShape shape;
  double parts = 1;  // different parts that devices divide the whole into
  // Rows of tokens; in a product of experts, those of one expert on average.
  // The shape has at least one.
  double rows = 1;
};

// Returns a device's part of a product. Rows are factors of the first operand
// alone, columns those of the second alone, groups those of both; factors that
// the result lacks are summed over. Experts get the tokens that are sent to
// them. REQUIRES: the instruction computes a product.
LocalProduct local_product(const ProgramView& view, InstructionId i);

// Returns the sizes of attention that runs as one kernel. `result_of` is per
// node.
AttentionShape local_attention(const ProgramView& view, const Region& region,
                               const PerNode<RegisterId>& result_of);

// Returns the floating-point operations that a model's forward pass needs for
// an instruction, over all devices: those of products, with causal attention
// halved, and of experts for the tokens that are sent to them, however many
// places are left empty (`expert_factor`). 0 for everything else.
double model_flops(const ProgramView& view, InstructionId i,
                   double expert_factor);

// Returns the time of a recurrence's arithmetic, which does not run on matrix
// units. Its kernels (FLA, Mamba) reach a fifth of the vector peak. Zero if the
// profile has no rate in `precision`, which products report.
PricedTime recurrence_time(const ProgramView& view, InstructionId i,
                           const HardwareProfile& card, Precision precision);

}  // namespace shardplan
