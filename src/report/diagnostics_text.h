// SPDX-License-Identifier: Apache-2.0
// Diagnostics for people: title, place, source line with carets, facts, help.
#pragma once

#include "base/diagnostic.h"
#include "report/report.h"

namespace shardplan {

// Each diagnostic as in
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
// False once the sink refuses more.
bool write_diagnostics(const Diagnostics& diags, const Style& style,
                       const TextSink& sink);

// `file:line:column: error[SP101] message`, one line each, as editors parse.
bool write_concise(const Diagnostics& diags, const TextSink& sink);

}  // namespace shardplan
