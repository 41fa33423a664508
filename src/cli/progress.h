// SPDX-License-Identifier: Apache-2.0
// A single status line on stderr. It appears only on a terminal and only if the
// run takes long, and is erased when the answer is written. It shows what is
// being done, the seconds since the start and, if the completed fraction is
// known, about how many seconds are left.
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

  // Shows what is being done. Cheap; shows nothing in the first half second.
  void stage(std::string_view text) override;
  // Does the same, at most ten times a second.
  void step(std::string_view work, std::string_view text, double done) override;
  // Erases the line. Called before anything else is written.
  void clear();

 private:
  void show(std::string_view text, std::string_view times);

  Host& host_;
  bool enabled_;
  bool shown_ = false;
  double start_ = 0;
  std::string work_;       // the work whose steps are counted
  double work_start_ = 0;  // time of its first step
  double last_ = 0;        // time when a step of it was last shown
};

}  // namespace shardplan::cli
