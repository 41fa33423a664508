// SPDX-License-Identifier: Apache-2.0
// Tests that cannot run here: data that lies elsewhere, a system without some
// feature. They are told apart from those that passed: the program ends with
// the list of them, and where it ran nothing else its exit code is
// kSkippedExit, which ctest shows as skipped.
#pragma once

#include <string>

namespace shardplan::testing {

inline constexpr int kSkippedExit = 77;

// Notes that the current test case does not run; it returns then.
void skip(const std::string& why);

// The program's exit code: `code`, or kSkippedExit where it is 0 and every
// case that was run was skipped. Prints the list.
int exit_with_skips(int code);

}  // namespace shardplan::testing
