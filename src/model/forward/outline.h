// SPDX-License-Identifier: Apache-2.0
// ArchitectureOutline: the parameters that an architecture can have, whatever
// the config; and the sizes of a model that follow from their shapes.
//
// Names are folded (`*` for the indices of layers and experts) and in the
// convention of model/forward/parameter_names.h.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/architecture/architecture.h"
#include "model/forward/forward.h"
#include "model/forward/parameter_names.h"

namespace shardplan {

struct ArchitectureOutline {
  // Parameters that every model of the architecture has.
  std::vector<std::string> required;
  // All parameters that one of its classes may have, sorted, with the other
  // names of stacked and fused experts.
  std::vector<std::string> known;
};

ArchitectureOutline outline_of(
    const std::shared_ptr<const Architecture>& architecture);

// Returns whether the manifest can be a checkpoint of the model, whose names it
// has: each size must be the same in all shapes.
bool shapes_fit(ForwardDefinition model, const Manifest& manifest);

// Sets the values of names that follow from the shapes and facts of a
// checkpoint. The config takes precedence over facts, and facts over shapes.
// Without a config, the modules of each layer determine the tables. Returns the
// names of sizes that occur in the checkpoint's tensors and remain unknown;
// nothing if the architecture has too many steps to be read.
std::optional<std::vector<std::string>> read_shapes(ForwardDefinition& model,
                                                    const Manifest& manifest);

}  // namespace shardplan
