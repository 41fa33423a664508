// SPDX-License-Identifier: Apache-2.0
// What a device computes of a product or of attention: its sizes, from the
// factors of an instruction and the axes that cut them.
#pragma once

#include "activations/kept.h"
#include "cost/kernels.h"
#include "graph/regions.h"
#include "spmd/program.h"

namespace shardplan {

struct LocalProduct {
  ProductShape shape;
  double parts = 1;  // in how many different ones devices share the whole
  // Rows of tokens, of each expert on average where it is one's product; the
  // shape has at least one.
  double rows = 1;
};

// Rows are factors of the first operand alone, columns those of the second,
// groups those of both; what the result lacks is summed over. Experts get the
// tokens that are sent to them. REQUIRES: the instruction computes a product.
LocalProduct local_product(const ProgramView& view, InstructionId i);

// The sizes of attention that runs as one kernel. `result_of` is per node.
AttentionShape local_attention(const ProgramView& view, const Region& region,
                               const PerNode<RegisterId>& result_of);

// Floating-point operations of the forward pass over all devices that a model
// needs: products, with causal attention halved and experts as tokens are sent
// to them, whatever places are left empty (`expert_factor`); 0 for all else.
double model_flops(const ProgramView& view, InstructionId i,
                   double expert_factor);

// How long the arithmetic of a recurrence takes, which is not that of matrix
// units. Its kernels (FLA, Mamba) reach a fifth of the vector peak. No time
// where the profile has no rate in `precision`, which products report.
PricedTime recurrence_time(const ProgramView& view, InstructionId i,
                           const HardwareProfile& card, Precision precision);

}  // namespace shardplan
