// SPDX-License-Identifier: Apache-2.0
// PatternSample: a name made from a pattern, in which the pattern is likely to
// match. joined_samples() makes names in which two patterns may match.
//
// Samples are guesses: callers first search them with the patterns themselves.
// Syntax that this code does not understand therefore yields fewer names, never
// a wrong one.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace shardplan {

struct PatternSample {
  std::string text;
  bool at_begin = false;  // the pattern requires the name to begin there
  bool at_end = false;    // the pattern requires the name to end there
  // Offsets in `text` where the pattern matches anything (`.*`); empty if it
  // does nowhere.
  std::vector<size_t> holes;
};

// Returns at most `limit` samples, from each alternative in turn. Empty if the
// pattern does not compile, or requires what no name has.
std::vector<PatternSample> pattern_samples(std::string_view pattern,
                                           size_t limit);

// Returns names that may match both: overlapping, side by side, and one in a
// hole of the other, in both orders and without duplicates.
std::vector<std::string> joined_samples(const PatternSample& a,
                                        const PatternSample& b);

}  // namespace shardplan
