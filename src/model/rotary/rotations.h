// SPDX-License-Identifier: Apache-2.0
// Rotations: the rotary positions of one forward pass.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "base/diagnostic.h"
#include "model/architecture/scope.h"
#include "model/config_reader.h"
#include "model/rotary/rope.h"
#include "model/forward/writer.h"

namespace shardplan {

class Rotations {
 public:
  // `is_small`: sizes are smaller than the config has them. The config and
  // `diags` must outlive it.
  Rotations(ConfigReader& config, const ForwardPass& pass, bool is_small,
            Diagnostics& diags)
      : config_(config), pass_(pass), is_small_(is_small), diags_(diags) {}

  // Of the operation `rope`, as the config says and names that the scope may
  // have: `head_dim`, `rope_theta`, `rope_kind`, `rotary_part` and
  // `interleaved` (docs/formats/architecture.md). Empty where that cannot be;
  // `why` is empty where it has been reported.
  std::optional<AttributeValues> attributes(const ValueScope& scope,
                                            std::string& why);

 private:
  const RopeConfig* config_of(const std::string& kind, bool has_part);

  ConfigReader& config_;
  ForwardPass pass_;
  bool is_small_;
  Diagnostics& diags_;
  // By kind, and whether parts of heads are rotated; none: refused.
  std::map<std::pair<std::string, bool>, std::optional<RopeConfig>> known_;
};

}  // namespace shardplan
