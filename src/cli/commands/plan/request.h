// SPDX-License-Identifier: Apache-2.0
// Flags of `shardplan plan` that `sweep` and `analyze` do not have.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/source.h"

namespace shardplan::cli {

struct PlanCommandRequest {
  SourcePtr fixed_mesh;                     // --fix-mesh
  std::vector<SourcePtr> why_not;           // --why-not
  std::vector<std::string> keep;            // --keep
  std::vector<SourcePtr> forbidden;         // --forbid
  bool verify = false;                      // --verify
  std::optional<double> max_ttft;           // --max-ttft, seconds
  std::optional<double> max_tpot;           // --max-tpot, seconds
  int64_t top = 5;                          // --top
  std::optional<std::string> write_rules;   // --write-rules
  std::optional<std::string> write_config;  // --write-config
};

}  // namespace shardplan::cli
