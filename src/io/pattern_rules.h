// SPDX-License-Identifier: Apache-2.0
// The pattern mini-language, which writes rules in one line:
// `attention|mlp->data,hidden->model`.
//
// A rule consists of alternatives, an arrow and the entries of a spec. A comma
// ends a rule, `|` separates alternatives, `.` separates entries, and an empty
// entry means None. The language comes from eformer's
// create_pattern_based_partition_spec, which splits without regard to brackets:
// a comma within `{1,2}` ends the rule, a bar within `(q|k)` ends the
// alternative, and text without an arrow is dropped. The strict reading splits
// only outside brackets, trims blanks and refuses text without an arrow. It
// also accepts `None` and, for several axes of one dimension, `fsdp+tp`.
#pragma once

#include <cstdint>

#include "base/diagnostic.h"
#include "base/source.h"
#include "core/rules.h"

namespace shardplan {

enum class PatternReading : uint8_t { Strict, Original };

// Appends to `rules`. Returns false, with the reason reported (SP002), when the
// text cannot be read. The strict reading warns when the original one would
// give different rules (SP109); the original reading warns when it drops text
// (SP109).
bool read_pattern(SourcePtr source, PatternReading reading, RuleSet& rules,
                  Diagnostics& diags);

}  // namespace shardplan
