// SPDX-License-Identifier: Apache-2.0
// The rule dialects, one file each, as io/load_rules.cc lists them.
#pragma once

#include "io/load.h"

namespace shardplan {

// `rules`, `mesh` and `axes` in YAML or JSON; docs/formats/rules.md.
extern const RuleDialect kYamlRules;

}  // namespace shardplan
