// SPDX-License-Identifier: Apache-2.0
// ArchitectureOutline: the parameters that an architecture can have, and what
// their shapes say of its sizes, before any of these is known.
//
// Names are folded (`*` for numbers of layers and experts), in the convention
// of model/forward/parameter_names.h.
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
  // Those that every model of the architecture has.
  std::vector<std::string> required;
  // All that some of its classes may have, sorted, with the other names that
  // stacked and fused experts have.
  std::vector<std::string> known;
};

ArchitectureOutline outline_of(
    const std::shared_ptr<const Architecture>& architecture);

// Whether the manifest's shapes may be those of the model, whose names it has:
// a size that several tell is the same in all.
bool shapes_fit(ForwardDefinition model, const Manifest& manifest);

// Names whose values the shapes and the facts of a checkpoint tell, where the
// config does not. What it says goes first, then facts, then shapes; a table of
// layers is told by which modules a layer has, where there is no config. Gives
// names of sizes that the checkpoint's tensors have, and that nothing tells.
// Empty where the architecture has too many steps to be read.
std::optional<std::vector<std::string>> read_shapes(ForwardDefinition& model,
                                                    const Manifest& manifest);

}  // namespace shardplan
