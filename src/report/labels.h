// SPDX-License-Identifier: Apache-2.0
// Where a diagnostic points, as lines and columns.
#pragma once

#include <cstdint>
#include <string>

#include "base/diagnostic.h"

namespace shardplan {

// 1-based; columns count code points. A span of several lines is cut at the
// end of its first one. REQUIRES: the span has a file.
struct Place {
  int64_t line = 1;
  int64_t column = 1;
  int64_t end_column = 1;  // behind the last character
};
Place place_of(Span where);

// True for the value of a flag (`--mesh`), which has no lines to speak of.
bool is_flag(const SourceFile& file);

// The main place of a diagnostic: its first label that has one, else null.
const Label* main_label(const Diagnostic& diagnostic);

}  // namespace shardplan
