// SPDX-License-Identifier: Apache-2.0
// Which architecture's forward pass a model has.
#pragma once

#include <memory>
#include <optional>

#include "base/diagnostic.h"
#include "core/manifest.h"
#include "model/forward/forward.h"
#include "syntax/document.h"

namespace shardplan {

// By `architecture` where one is given; by the config's model_type; without a
// config by names: that of the architectures with a forward pass whose
// parameters are all there, and that has none which it does not know. Sizes
// that nothing but shapes tells are taken from these.
//
// `config` is null where there is none. Empty, with the reason reported: SP016
// with what was looked for, where there is no such forward pass; SP013 where
// nothing tells the sizes of heads.
std::optional<ForwardDefinition> recognise_model(
    const Manifest& manifest, std::shared_ptr<const Document> config,
    std::shared_ptr<const Architecture> architecture, Diagnostics& diags);

// Uses the config and the architecture that the manifest has. A config that
// cannot be read is SP002: guessed from names, it might be another model.
std::optional<ForwardDefinition> recognise_model(const Manifest& manifest,
                                                 Diagnostics& diags);

}  // namespace shardplan
