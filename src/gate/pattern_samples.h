// SPDX-License-Identifier: Apache-2.0
// Names made from patterns: texts in which a pattern is likely to be found, and
// texts in which two patterns are.
//
// They are guesses. Whoever uses one searches it with the patterns themselves
// first; so what is not understood here yields fewer names, never a wrong one.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace shardplan {

struct PatternSample {
  std::string text;
  bool at_begin = false;  // the pattern asks the name to begin there
  bool at_end = false;    // ... to end there
  // Where the pattern takes anything (`.*`), by offset in `text`; empty where
  // it does so nowhere.
  std::vector<size_t> holes;
};

// At most `limit`, alternatives in turn. Empty where the pattern cannot be
// compiled, or asks for what no name has.
std::vector<PatternSample> pattern_samples(std::string_view pattern,
                                           size_t limit);

// Texts that may hold both: one laid over the other's end, side by side, and
// one in a hole of the other. In both orders, each once.
std::vector<std::string> joined_samples(const PatternSample& a,
                                        const PatternSample& b);

}  // namespace shardplan
