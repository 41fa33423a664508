// SPDX-License-Identifier: Apache-2.0
// One parameter, as a user names it.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "base/diagnostic.h"
#include "core/fold.h"
#include "core/manifest.h"

namespace shardplan::cli {

// The parameter of that name or, where there is none, the only one that the
// name is found in as a pattern. SP010 otherwise, with names that are near.
// `folding` is of the manifest's parameters.
std::optional<size_t> find_parameter(const Manifest& manifest,
                                     const Folding& folding,
                                     const std::string& name,
                                     Diagnostics& diags);

}  // namespace shardplan::cli
