// SPDX-License-Identifier: Apache-2.0
// One status line on stderr: only on a terminal, only when it takes long, and
// gone when the answer comes.
#pragma once

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
  // Erases the line; called before anything else is written.
  void clear();

 private:
  Host& host_;
  bool enabled_;
  bool shown_ = false;
  double start_ = 0;
};

}  // namespace shardplan::cli
