// SPDX-License-Identifier: Apache-2.0
// find_trained() and find_groups(): which parameters are trained, and by which
// optimizer. Parameters that match a pattern of `--trainable` are trained, and
// all others are frozen. `--optimizer-of` assigns other optimizers.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/diagnostic.h"
#include "core/manifest.h"
#include "memory/state.h"

namespace shardplan {

// Matches the patterns, which have the syntax of rules, against names. Empty,
// with the reason reported: SP105 if a pattern does not compile; SP010 if a
// pattern matches no name, with a suggestion, or if all matches have a dtype
// that no optimizer trains.
std::optional<TrainedParameters> find_trained(
    const std::vector<std::string>& patterns, const Manifest& manifest,
    Diagnostics& diags);

// Matches the groups' patterns like find_trained(), with the same errors. Also
// reports SP010 for a group without a trained parameter, including the group of
// parameters that match no pattern.
std::optional<GroupOfParameters> find_groups(
    const std::vector<OptimizerGroup>& groups, const Manifest& manifest,
    const TrainedParameters& trained, Diagnostics& diags);

}  // namespace shardplan
