// SPDX-License-Identifier: Apache-2.0
// Work: a budget for what may be computed from one input. Nested: the depth to
// which it may nest.
//
// A file of a few bytes can request any amount of work: a million layers times
// a thousand steps, names that refer to names that refer to names. Code that
// loops over counts from a file spends from a Work, and rejects the input when
// it is spent. Code that follows references counts a Nested. Both count
// operations, not time, so the same input has the same result everywhere.
#pragma once

#include <algorithm>
#include <cstdint>

namespace shardplan {

// A unit is about 50 ns; real inputs need thousands of units, not millions.
class Work {
 public:
  static constexpr int64_t kMost = 40'000'000;

  explicit Work(int64_t most = kMost) : most_(most) {}

  // Returns false once more than the budget was spent. REQUIRES: units >= 0.
  bool spend(int64_t units = 1) {
    spent_ += std::min(units, most_ + 1 - spent_);
    return spent_ <= most_;
  }
  bool is_spent() const { return spent_ > most_; }
  // Ends all further computation because something nests too deep (Nested).
  void stop_too_deep() {
    spent_ = most_ + 1;
    too_deep_ = true;
  }
  bool is_too_deep() const { return too_deep_; }
  int64_t most() const { return most_; }
  // Returns true the first time, so that a spent budget is reported once.
  bool report_once() {
    const bool first = !reported_;
    reported_ = true;
    return first;
  }

 private:
  int64_t most_;
  int64_t spent_ = 0;  // at most most_ + 1
  bool too_deep_ = false;
  bool reported_ = false;
};

// One level of nested references: an expression within an expression, a name
// whose value is an expression, a file that builds on a file. Every level uses
// stack space, and levels of different kinds nest within one another, so all
// kinds share one count per thread.
class Nested {
 public:
  static constexpr int kMost = 1000;

  Nested() { ++depth(); }
  ~Nested() { --depth(); }
  Nested(const Nested&) = delete;
  Nested& operator=(const Nested&) = delete;

  bool is_too_deep() const { return depth() > kMost; }

 private:
  static int& depth() {
    static thread_local int levels = 0;
    return levels;
  }
};

}  // namespace shardplan
