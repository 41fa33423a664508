// SPDX-License-Identifier: Apache-2.0
// Small models of every architecture that has a shipped set of rules, one per
// class: two layers, two experts, biases where a config may ask for them. For
// names of parameters that real models have, where no model is given.
#pragma once

#include <vector>

#include "core/manifest.h"

namespace shardplan {

// Titled with their model types ("llama"); those first that most others build
// on. Made when they are first asked for, and kept.
const std::vector<Manifest>& family_samples();

}  // namespace shardplan
