// SPDX-License-Identifier: Apache-2.0
// A model as it was before it was quantised.
#pragma once

#include <memory>
#include <optional>

#include "base/diagnostic.h"
#include "core/manifest.h"
#include "syntax/document.h"

namespace shardplan {

struct Architecture;

// The manifest of this config (io/formats.h) with numbers in the config's
// dtype, whatever it says of how they are stored. `architecture`: null, the one
// that it names.
std::optional<Manifest> plain_manifest(
    const Document& config,
    const std::shared_ptr<const Architecture>& architecture,
    Diagnostics& diags);

}  // namespace shardplan
