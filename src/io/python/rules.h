// SPDX-License-Identifier: Apache-2.0
// Reads tables of rules from Python source.
#pragma once

#include <string_view>

#include "base/diagnostic.h"
#include "base/source.h"
#include "core/rules.h"
#include "io/load.h"

namespace shardplan {

// Rules in Python code: on their own, after a `return` or an assignment, or
// anywhere in a whole module. Nothing is executed: a table consists of
// literals.
//
//   (("embed_tokens/embedding", PartitionSpec("tp", ("fsdp", "sp"))),
//    (r".*norm.*", PS(None)))                      EasyLM, eformer
//   ((r"q_proj/kernel", pmag.resolve(ColumnWise)), ..)         EasyDeL
//   ((("mlp", "c_fc", "kernel"), P(None, "mp")), ..)  HF example, grok-1
//   ((re.escape("['wte']['embedding']"), P("mp")), ..)         JAXSeq
//   (("batch", "data"), ("embed", ("fsdp", "sp")), ("mlp", None))  flax, t5x
//
// `PartitionSpec`, `PS` and `P` may be qualified with a module. A
// PartitionAxis(..) in the same file defines the semantic axes.

// Returns whether a text is Python, even without such a table.
bool looks_like_python_rules(std::string_view text);

// Appends the rules of the table named `table`, or of the only one. Returns
// false, with the reason reported, on failure.
bool read_python_rules(SourcePtr source, const RuleReading& reading,
                       RuleSet& rules, Diagnostics& diags);

}  // namespace shardplan
