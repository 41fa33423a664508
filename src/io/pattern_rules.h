// SPDX-License-Identifier: Apache-2.0
// The pattern mini-language: `attention|mlp->data,hidden->model`, rules in one
// line.
//
// A rule is alternatives, an arrow and the entries of a spec; rules end with a
// comma, alternatives with `|`, entries with `.`, and an empty entry is None.
// Source: eformer's create_pattern_based_partition_spec, which splits without
// looking: a comma within `{1,2}` ends the rule, a bar within `(q|k)` the
// alternative, and what has no arrow is dropped. The strict reading splits
// outside brackets only, trims blanks, refuses what has no arrow, and also
// knows `None` and, for several axes of one dimension, `fsdp+tp`.
#pragma once

#include <cstdint>

#include "base/diagnostic.h"
#include "base/source.h"
#include "core/rules.h"

namespace shardplan {

enum class PatternReading : uint8_t { Strict, Original };

// Appends to `rules`; false, with the reason reported (SP002), when the text
// cannot be read. The strict reading warns where the original one gives other
// rules (SP109); the original one where it drops something (SP109).
bool read_pattern(SourcePtr source, PatternReading reading, RuleSet& rules,
                  Diagnostics& diags);

}  // namespace shardplan
