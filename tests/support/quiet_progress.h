// SPDX-License-Identifier: Apache-2.0
// Progress that nobody sees.
#pragma once

#include <string_view>

#include "session/progress_listener.h"

namespace shardplan::testing {

class QuietProgress : public ProgressListener {
 public:
  void stage(std::string_view /*text*/) override {}
};

}  // namespace shardplan::testing
