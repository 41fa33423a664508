// SPDX-License-Identifier: Apache-2.0
// Writes diagnostics for people: whole findings, with title, place, source line
// with carets, facts and help, and one-line findings for editors.
#pragma once

#include <string>
#include <vector>

#include "base/diagnostic.h"
#include "report/report.h"

namespace shardplan {

// Writes each diagnostic like this one:
//
//   warning[SP203]: dimension 0 of `w` is not divisible by axis `tp`
//    --> rules.yaml:3:42
//     |
//   3 |   - ["w", [tp, fsdp]]
//     |            ^^ shards dimension 0
//     |
//     = dimension 0 is 32001; axis `tp` is 2; 32001 mod 2 = 1
//   help: pad the dimension to 32002
//
// Returns false once the sink refuses more text.
bool write_diagnostics(const Diagnostics& diags, const Style& style,
                       const TextSink& sink);

// Returns a diagnostic's facts, with labels that have no place, and with the
// parameters that its message does not name.
std::vector<std::string> facts_of(const Diagnostic& diagnostic);
// Returns only the places and source lines of a diagnostic.
std::string places_text(const Diagnostic& diagnostic, const Style& style);

// Returns message, facts and help as lines for people, without places.
std::string message_text(const Diagnostic& diagnostic);

// Writes `file:line:column: error[SP101] message`, one line per diagnostic, in
// the format that editors parse.
bool write_concise(const Diagnostics& diags, const TextSink& sink);

}  // namespace shardplan
