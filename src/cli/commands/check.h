// SPDX-License-Identifier: Apache-2.0
// Flags that only `check` accepts.
#pragma once

#include <span>
#include <vector>

#include "base/diagnostic.h"

namespace shardplan::cli {

struct Flag;
struct Options;
struct Setting;

struct CheckRequest {
  bool fix = false;   // --fix
  bool diff = false;  // --fix --diff
};

const std::vector<Flag>& check_flags();
// Reports --fix and --diff together with flags that contradict them (SP010).
void validate_check(std::span<const Setting> given, const Options& options,
                    Diagnostics& diags);

}  // namespace shardplan::cli
