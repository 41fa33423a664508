// SPDX-License-Identifier: Apache-2.0
// One status line on stderr: only on a terminal, only when it takes long, and
// gone when the answer comes. With what is being done stand the seconds since
// the start, and where a stage knows how much of it is done, about how many are
// left of it.
#pragma once

#include <string>
#include <string_view>

#include "base/host.h"
#include "session/progress_listener.h"

namespace shardplan::cli {

class Progress : public ProgressListener {
 public:
  // The clock starts here.
  Progress(Host& host, bool enabled);
  ~Progress() override { clear(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // Says what is being done. Cheap; shows nothing in the first half second.
  void stage(std::string_view text) override;
  // The same, at most ten times a second.
  void step(std::string_view work, std::string_view text, double done) override;
  // Erases the line; called before anything else is written.
  void clear();

 private:
  void show(std::string_view text, std::string_view times);

  Host& host_;
  bool enabled_;
  bool shown_ = false;
  double start_ = 0;
  std::string work_;       // whose steps are counted
  double work_start_ = 0;  // when its first step was
  double last_ = 0;        // when a step of it was shown
};

}  // namespace shardplan::cli
