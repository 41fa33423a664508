// SPDX-License-Identifier: Apache-2.0
// ProgressListener: notified of each stage of the work before it begins.
#pragma once

#include <string_view>

namespace shardplan {

class ProgressListener {
 public:
  virtual ~ProgressListener() = default;
  // Announces a stage, such as "matching rules".
  virtual void stage(std::string_view text) = 0;
  // Announces a step whose progress is known: `done` is from 0 to 1. `work` is
  // the stage without the part that changes from step to step.
  virtual void step(std::string_view work, std::string_view text, double done) {
    static_cast<void>(work);
    static_cast<void>(done);
    stage(text);
  }
};

}  // namespace shardplan
