// SPDX-License-Identifier: Apache-2.0
// The state (KV cache, recurrent state) that the layers of a model store during
// generation, as the architecture's steps `cache`, `state` and `keeps` declare
// it (docs/formats/architecture.md).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/facts.h"
#include "model/architecture/values.h"

namespace shardplan {

// Returns whether any step of the class, or of its parts, declares the state of
// a layer. The steps of a part that the config chooses are not known and do not
// count.
bool declares_state(const Architecture& architecture,
                    const ArchitectureClass& model_class);
// Returns the names in these steps, each once, in order: "kv", "ssm", "conv".
std::vector<std::string> state_names(const Architecture& architecture,
                                     const ArchitectureClass& model_class);

// Returns the state per layer, in the order of the steps; empty if a size does
// not exist. `windows` are the attention windows of the layers, by index: 0 for
// all tokens; an empty list if no layer has one. `dtype` is the dtype of states
// that do not declare their own. Equal layers are computed once.
std::optional<LayerStates> generation_state(
    ConfigValues& values, const ArchitectureClass& model_class,
    const std::vector<int64_t>& windows, DType dtype);

}  // namespace shardplan
