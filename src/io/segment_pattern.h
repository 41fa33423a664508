// SPDX-License-Identifier: Apache-2.0
// Patterns that other matchers look for in the parts of a path, as patterns to
// search a whole name for.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

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

// JAXSeq searches jax.tree_util.keystr's text, `['h']['0']['attn']`.
bool is_keystr_pattern(std::string_view pattern);
// The same for a path, `h/0/attn`; empty when it cannot be said.
std::optional<std::string> pattern_of_keystr(std::string_view pattern);

}  // namespace shardplan
