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
};

}  // namespace shardplan
