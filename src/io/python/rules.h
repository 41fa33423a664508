// SPDX-License-Identifier: Apache-2.0
// Reads tables of rules from Python source. Some programs match patterns
// against the parts of a path; such patterns are translated to ones that are
// searched in the whole name.
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

// Why a pattern cannot be expressed as a search in the whole name.
struct SegmentProblem {
  size_t segment = 0;
  std::string why;
};

// Translates the patterns of the HF example, grok-1 and dalle-mini: a tuple of
// patterns for consecutive parts of the path, each of which re.match must match
// with `$` appended. Returns nullopt, with `problem` filled in, if there is no
// equivalent pattern.
std::optional<std::string> pattern_of_segments(
    std::span<const std::string> segments, SegmentProblem& problem);

// Returns whether a text can only be a pattern, because it has characters that
// no logical axis has.
bool is_python_pattern(std::string_view text);

// Returns whether JAXSeq's pattern is for the text of jax.tree_util.keystr,
// `['h']['0']['attn']`.
bool is_keystr_pattern(std::string_view pattern);
// Translates such a pattern for a path, `h/0/attn`; nullopt if it cannot be
// expressed.
std::optional<std::string> pattern_of_keystr(std::string_view pattern);

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
bool read_python_rules(const SourcePtr& source, const RuleReading& reading,
                       RuleSet& rules, Diagnostics& diags);

}  // namespace shardplan
