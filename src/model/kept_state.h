// SPDX-License-Identifier: Apache-2.0
// What the layers of a model keep while it generates, as its architecture says:
// the steps `cache`, `state` and `keeps` (docs/formats/architecture.md).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/facts.h"
#include "model/architecture/values.h"

namespace shardplan {

// Whether any step of the class, or of its parts, says what a layer keeps.
// Where a part is of the config's choice, its steps are not known and do not
// count.
bool says_what_is_kept(const Architecture& architecture,
                       const ArchitectureClass& model_class);
// The names in these steps, each once, in order: "kv", "ssm", "conv".
std::vector<std::string> kept_names(const Architecture& architecture,
                                    const ArchitectureClass& model_class);

// Per layer, in the order of the steps; empty where a size is none. `windows`
// are those of the layers by their index: 0 for all tokens, empty where no
// layer has one. `dtype` is that of states of which nothing else is said.
// Layers that are alike are computed once.
std::optional<LayerStates> kept_state(ConfigValues& values,
                                      const ArchitectureClass& model_class,
                                      const std::vector<int64_t>& windows,
                                      DType dtype);

}  // namespace shardplan
