// SPDX-License-Identifier: Apache-2.0
// The numbers that `simulate` computes with: random ones or the checkpoint's
// weights, and the tokens that the user gives.
#pragma once

#include <optional>

#include "cli/commands.h"
#include "cli/commands/simulate/input.h"
#include "sim/values.h"

namespace shardplan::cli {

// Returns a function that reads values of `input`, which must outlive it.
// Returns empty, with the reason reported, if the weights cannot be opened or
// computed with (SP001, SP002, SP008, SP010), or if a token exceeds the
// vocabulary (SP010).
std::optional<ReadValue> simulation_values(Context& context,
                                           const SimulateInput& input);

}  // namespace shardplan::cli
