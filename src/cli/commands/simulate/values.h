// SPDX-License-Identifier: Apache-2.0
// The numbers that `simulate` computes with: drawn, or a checkpoint's own, and
// the tokens that the user gives.
#pragma once

#include <optional>

#include "cli/commands.h"
#include "cli/commands/simulate/input.h"
#include "sim/values.h"

namespace shardplan::cli {

// `input` must outlive what is returned. Empty, with the reason reported: the
// weights cannot be opened or computed with (SP001, SP002, SP008, SP010), a
// token is beyond the vocabulary (SP010).
std::optional<ReadValue> simulation_values(Context& context,
                                           const SimulateInput& input);

}  // namespace shardplan::cli
