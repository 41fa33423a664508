// SPDX-License-Identifier: Apache-2.0
// Which parameters are trained: those in whose names a pattern of `--trainable`
// is found. All others are frozen.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/diagnostic.h"
#include "core/manifest.h"
#include "memory/state.h"

namespace shardplan {

// Patterns are those of rules, searched in names. Empty, with the reason
// reported: SP105 for one that cannot be compiled; SP010 for one that is found
// in no name, with what may be meant, and where all that is found has a dtype
// that no optimizer trains.
std::optional<TrainedParameters> find_trained(
    const std::vector<std::string>& patterns, const Manifest& manifest,
    Diagnostics& diags);

}  // namespace shardplan
