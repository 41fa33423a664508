// SPDX-License-Identifier: Apache-2.0
// Patterns that other matchers look for in the parts of a path, as patterns to
// search a whole name for.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/diagnostic.h"
#include "base/source.h"
#include "core/rules.h"
#include "io/load.h"

namespace shardplan {

// What cannot be said by searching the whole name.
struct SegmentProblem {
  size_t segment = 0;
  std::string why;
};

// The HF example, grok-1, dalle-mini: a tuple of patterns, each of which, with
// `$` behind it, re.match finds in one of consecutive parts of the path.
// Empty, with `problem` filled, when there is no such pattern.
std::optional<std::string> pattern_of_segments(
    std::span<const std::string> segments, SegmentProblem& problem);

// Whether a text can only be a pattern: no logical axis has such characters.
bool is_python_pattern(std::string_view text);

// JAXSeq searches jax.tree_util.keystr's text, `['h']['0']['attn']`.
bool is_keystr_pattern(std::string_view pattern);
// The same for a path, `h/0/attn`; empty when it cannot be said.
std::optional<std::string> pattern_of_keystr(std::string_view pattern);

// Rules as Python code has them, alone, behind a `return` or an assignment, or
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
// `PartitionSpec`, `PS` and `P` are read, with or without the modules in front.
// A PartitionAxis(..) of the same file gives the semantic axes.

// Whether a text is Python, be there such a table or not.
bool looks_like_python_rules(std::string_view text);

// Appends what the table named `table`, or the only one, holds. False, with
// the reason reported.
bool read_python_rules(const SourcePtr& source, const RuleReading& reading,
                       RuleSet& rules, Diagnostics& diags);

}  // namespace shardplan
