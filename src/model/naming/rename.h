// SPDX-License-Identifier: Apache-2.0
// Renaming: the tensors that save_pretrained writes, as another program has
// them.
#pragma once

#include <memory>

#include "core/manifest.h"
#include "model/architecture/architecture.h"
#include "model/architecture/values.h"
#include "model/architecture/walk.h"
#include "model/naming/name_scheme.h"

namespace shardplan {

// The architecture with the scheme's values beside its own. Null, with SP009
// reported, where the scheme is not of it or both have a value of one name.
std::shared_ptr<const Architecture> with_values_of(
    const NameScheme& scheme, const std::shared_ptr<const Architecture>& all,
    ConfigReader& config);

// Adds the tensors of `plain`, renamed, to `manifest`, with remarks on what is
// dropped and added, in order of the first tensor that each is made of.
// `values` are those of with_values_of. False, with SP009 reported, where a
// tensor has no name or several have one, where parts are missing or do not fit
// together, and where bytes exceed 63 bits.
//
// Expressions see the numbers of a name, the name `class` of the model's class,
// and the architecture's values.
bool rename_tensors(const NameScheme& scheme, ConfigValues& values,
                    const ArchitectureClass& model_class, const Manifest& plain,
                    const TensorSteps& steps, Manifest& manifest);

}  // namespace shardplan
