// SPDX-License-Identifier: Apache-2.0
// The steps of a class of models that a forward pass runs, one after another:
// its body, then its heads as far as they compute something and the checkpoint
// stores them.
#pragma once

#include <vector>

#include "base/diagnostic.h"
#include "model/architecture/architecture.h"
#include "model/architecture/values.h"
#include "model/forward/definition.h"
#include "model/forward/writer.h"

namespace shardplan {

// The block of a step; null where the step is none, or has no forward pass.
const ModuleBlock* computed_block(const Architecture& architecture,
                                  const ModuleStep& step);

// The steps whose conditions hold, in order, up to the first that computes
// nothing. A last head that the checkpoint does not store is left out; a note
// says where the output is not that of the class. Empty, and reported, where
// there is none.
std::vector<const ModuleStep*> class_steps(const ForwardDefinition& model,
                                           ConfigValues& values,
                                           const ForwardWriter& out,
                                           Diagnostics& diags);

}  // namespace shardplan
