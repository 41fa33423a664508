// SPDX-License-Identifier: Apache-2.0
// A small model of every model type whose checkpoints we know: two layers, two
// experts, biases where a config may ask for them. For names of parameters that
// real models have, where no model is given.
#pragma once

#include <vector>

#include "core/manifest.h"

namespace shardplan {

// One per model type, titled with its model type ("llama"), in the order of the
// table of model types.
std::vector<Manifest> family_samples();

}  // namespace shardplan
