// SPDX-License-Identifier: Apache-2.0
// Recognises which architecture defines the forward pass of a model.
#pragma once

#include <memory>
#include <optional>

#include "base/diagnostic.h"
#include "core/manifest.h"
#include "model/forward/forward.h"
#include "syntax/document.h"

namespace shardplan {

// Chooses `architecture` if one is given; else the architecture of the config's
// model_type; without a config, the architecture with a forward pass whose
// parameters all exist and that knows all parameters of the checkpoint. Sizes
// that only shapes determine are read from these.
//
// `config` is null if there is none. Returns nothing, with the reason reported:
// SP016 with the names it looked for if there is no such forward pass; SP013 if
// the sizes of heads are unknown.
std::optional<ForwardDefinition> recognise_model(
    const Manifest& manifest, std::shared_ptr<const Document> config,
    std::shared_ptr<const Architecture> architecture, Diagnostics& diags);

// Does the same with the config and architecture of the manifest. A config that
// cannot be read is SP002: the names might suggest another model.
std::optional<ForwardDefinition> recognise_model(const Manifest& manifest,
                                                 Diagnostics& diags);

}  // namespace shardplan
