// SPDX-License-Identifier: Apache-2.0
// Programming mistakes: checked in every build, reported with their place.
//
// A failed check is a bug in shardplan, never a user's mistake. It throws
// InternalError, which only cli::run catches: it prints how to report the bug
// and exits with 3.
#pragma once

#include <stdexcept>
#include <string>

namespace shardplan {

class InternalError : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

[[noreturn]] inline void check_failed(const char* condition, const char* file,
                                      int line) {
  throw InternalError(std::string(file) + ":" + std::to_string(line) +
                      ": check failed: " + condition);
}

}  // namespace shardplan

#define SHARDPLAN_CHECK(condition) \
  ((condition) ? (void)0           \
               : ::shardplan::check_failed(#condition, __FILE__, __LINE__))
