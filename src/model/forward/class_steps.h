// SPDX-License-Identifier: Apache-2.0
// The steps of a model class that a forward pass runs, one after another: its
// body, then the heads that have a forward pass and that the checkpoint stores.
#pragma once

#include <vector>

#include "base/diagnostic.h"
#include "model/architecture/architecture.h"
#include "model/architecture/values.h"
#include "model/forward/definition.h"
#include "model/forward/writer.h"

namespace shardplan {

// Returns the block of a step; null if the step is not a block or the block has
// no forward pass.
const ModuleBlock* computed_block(const Architecture& architecture,
                                  const ModuleStep& step);

// Returns the steps whose conditions hold, in order, up to the first one
// without a forward pass. A last head that the checkpoint does not store is
// left out. A note says so if the output is not that of the class. Returns an
// empty list, with the reason reported, if no step is left.
std::vector<const ModuleStep*> class_steps(const ForwardDefinition& model,
                                           ConfigValues& values,
                                           const ForwardWriter& out,
                                           Diagnostics& diags);

}  // namespace shardplan
