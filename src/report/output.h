// SPDX-License-Identifier: Apache-2.0
// Output: a buffer that passes text to a sink in large pieces.
//
// Renderers append to `buffer()` and call `drain()` regularly, such as once per
// row, so a report of any length needs the memory of one piece. Once the sink
// has refused text (a closed pipe), all further text is discarded.
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
  // Passes the buffer to the sink once it is large.
  void drain() {
    if (buffer_.size() >= kPiece) flush();
  }
  // Passes the rest to the sink. Returns false if the sink has refused any
  // text.
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
