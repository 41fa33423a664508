// SPDX-License-Identifier: Apache-2.0
// Some programs match patterns against the parts of a path, or against another
// text of it. Such patterns are translated to ones that are searched in the
// whole name.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

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

}  // namespace shardplan
