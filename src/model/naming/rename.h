// SPDX-License-Identifier: Apache-2.0
// Renaming: converts the tensors that save_pretrained writes to the names and
// layouts of another program.
#pragma once

#include <memory>

#include "core/manifest.h"
#include "model/architecture/architecture.h"
#include "model/architecture/values.h"
#include "model/architecture/walk.h"
#include "model/naming/name_scheme.h"

namespace shardplan {

// Returns the architecture with the scheme's values added. Null, with SP009
// reported, if the scheme does not support it or both define the same value.
std::shared_ptr<const Architecture> with_values_of(
    const NameScheme& scheme, const std::shared_ptr<const Architecture>& all,
    ConfigReader& config);

// Adds the renamed tensors of `plain` to `manifest`, in the order of the first
// tensor that each is made of, and remarks on dropped tensors. `values` are
// those of with_values_of. Returns false, with SP009 reported, if a tensor has
// no name or several have the same, if parts are missing or do not fit
// together, or if bytes exceed 63 bits.
//
// Expressions can use the numbers of a name, `class`, which is the model's
// class, and the architecture's values.
bool rename_tensors(const NameScheme& scheme, ConfigValues& values,
                    const ArchitectureClass& model_class, const Manifest& plain,
                    const TensorSteps& steps, Manifest& manifest);

}  // namespace shardplan
