// SPDX-License-Identifier: Apache-2.0
// Rules of a text that somebody has read already, to see what it is: standard
// input and pipes can be read only once. Files by their path: io/load.h.
#pragma once

#include <optional>
#include <string>

#include "base/diagnostic.h"
#include "core/rules.h"
#include "io/load.h"

namespace shardplan {

// In whichever dialect it is, or the one forced by name.
std::optional<RuleSet> read_rules(const SourcePtr& file,
                                  const std::optional<std::string>& dialect,
                                  const RuleReading& reading,
                                  Diagnostics& diags);

}  // namespace shardplan
