// SPDX-License-Identifier: Apache-2.0
// Writes diagnostics for people: whole findings, with title, place, source line
// with carets, facts and help, and one-line findings for editors.
#pragma once

#include <string>

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

// Returns message, facts and help as lines for people, without places.
std::string message_text(const Diagnostic& diagnostic);

// Writes `file:line:column: error[SP101] message`, one line per diagnostic, in
// the format that editors parse.
bool write_concise(const Diagnostics& diags, const TextSink& sink);

}  // namespace shardplan
