// SPDX-License-Identifier: Apache-2.0
// Reads rules from a text that the caller has already read to find out what it
// is: standard input and pipes can be read only once. See io/load.h for rules
// in files.
#pragma once

#include <optional>
#include <string>

#include "base/diagnostic.h"
#include "core/rules.h"
#include "io/load.h"

namespace shardplan {

// Reads the text in the dialect that matches it, or in the one forced by name.
std::optional<RuleSet> read_rules(const SourcePtr& file,
                                  const std::optional<std::string>& dialect,
                                  const RuleReading& reading,
                                  Diagnostics& diags);

}  // namespace shardplan
