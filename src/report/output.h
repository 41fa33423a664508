// SPDX-License-Identifier: Apache-2.0
// Output: text on its way to a sink, handed over in large pieces.
//
// Renderers append to `buffer()` and call `drain()` now and then (once per
// row); a report of any length takes the memory of one piece. Once the sink has
// refused (a closed pipe), everything further is thrown away.
#pragma once

#include <string>

#include "report/report.h"

namespace shardplan {

class Output {
 public:
  // `sink` must outlive the output.
  explicit Output(const TextSink& sink) : sink_(sink) {
    buffer_.reserve(2 * kPiece);
  }

  std::string& buffer() { return buffer_; }
  // Hands the buffer over once it is large.
  void drain() {
    if (buffer_.size() >= kPiece) flush();
  }
  // Hands over the rest. False when the sink has refused anything.
  bool finish() {
    if (!buffer_.empty()) flush();
    return !refused_;
  }
  bool refused() const { return refused_; }

 private:
  static constexpr size_t kPiece = size_t{64} * 1024;

  void flush() {
    if (!refused_) refused_ = !sink_(buffer_);
    buffer_.clear();
  }

  const TextSink& sink_;
  std::string buffer_;
  bool refused_ = false;
};

}  // namespace shardplan
