// SPDX-License-Identifier: Apache-2.0
// Rotations: computes the attributes of the rotary positions in one forward
// pass. It reads the config once for each kind of attention.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "base/diagnostic.h"
#include "model/architecture/scope.h"
#include "model/config_reader.h"
#include "model/forward/writer.h"
#include "model/rotary/rope.h"

namespace shardplan {

class Rotations {
 public:
  // `is_small`: sizes are smaller than in the config. The config and `diags`
  // must outlive the object.
  Rotations(ConfigReader& config, const ForwardPass& pass, bool is_small,
            Diagnostics& diags)
      : config_(config), pass_(pass), is_small_(is_small), diags_(diags) {}

  // Returns the attributes of the operation `rope`. They follow from the config
  // and from names that the scope may have: `head_dim`, `rope_theta`,
  // `rope_kind`, `rotary_part` and `interleaved`
  // (docs/formats/architecture.md). Returns nothing if there are none, with the
  // reason in `why`; an empty `why` means that the error has already been
  // reported.
  std::optional<AttributeValues> attributes(const ValueScope& scope,
                                            std::string& why);

 private:
  const RopeConfig* config_of(const std::string& kind, bool has_part);

  ConfigReader& config_;
  ForwardPass pass_;
  bool is_small_;
  Diagnostics& diags_;
  // By kind of attention and `has_part`; nullopt if the config was refused.
  std::map<std::pair<std::string, bool>, std::optional<RopeConfig>> known_;
};

}  // namespace shardplan
