// SPDX-License-Identifier: Apache-2.0
// Who is notified of what is being done, before it is.
#pragma once

#include <string_view>

namespace shardplan {

class ProgressListener {
 public:
  virtual ~ProgressListener() = default;
  // "matching rules"
  virtual void stage(std::string_view text) = 0;
  // The same, where it is known how much of the stage is done, from 0 to 1;
  // `work` is the stage without what differs from step to step.
  virtual void step(std::string_view work, std::string_view text, double done) {
    static_cast<void>(work);
    static_cast<void>(done);
    stage(text);
  }
};

}  // namespace shardplan
