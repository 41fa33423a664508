// SPDX-License-Identifier: Apache-2.0
// How far back each layer sees, as the configuration classes of transformers
// read it.
#pragma once

#include <cstdint>
#include <vector>

#include "io/formats/hf_families/family.h"

namespace shardplan {

// ModelFacts::windows of a config with that many layers: `layer_types` first,
// else what the family's class does. Of families that we do not know only
// `layer_types` is read; where they have `sliding_window` without it, all
// layers are taken to see all tokens, which is never too little. Layers that
// keep no keys and values (recurrent ones), and those that share another
// layer's, are kUnknownWindow. Reports nothing.
std::vector<int64_t> layer_windows(const Node& config, const HfFamily* family,
                                   int64_t layers);

}  // namespace shardplan
