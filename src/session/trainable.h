// SPDX-License-Identifier: Apache-2.0
// Which parameters are trained: those in whose names a pattern of `--trainable`
// is found. All others are frozen. And by which optimizer, where
// `--optimizer-of` names others.
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

// The groups' patterns are searched as those are. Errors as there; SP010 also
// for a group, the rest among them, in which nothing is trained.
std::optional<GroupOfParameters> find_groups(
    const std::vector<OptimizerGroup>& groups, const Manifest& manifest,
    const TrainedParameters& trained, Diagnostics& diags);

}  // namespace shardplan
