// SPDX-License-Identifier: Apache-2.0
// Flags of `gate`, some of which `check` and `diff` also accept.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/diagnostic.h"

namespace shardplan::cli {

struct Context;
struct Flag;
struct Options;
struct Setting;

struct GateRequest {
  std::optional<std::string> baseline;      // --baseline, a path
  std::optional<std::string> new_baseline;  // --write-baseline, a path
  std::vector<std::string> targets;         // --target
};

const std::vector<Flag>& gate_flags();

}  // namespace shardplan::cli
