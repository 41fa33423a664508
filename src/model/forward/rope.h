// SPDX-License-Identifier: Apache-2.0
// RopeConfig: how positions are rotated (transformers' modeling_rope_utils.py).
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/diagnostic.h"
#include "model/config_reader.h"
#include "model/forward/writer.h"

namespace shardplan {

struct RopeConfig {
  std::optional<double> theta;     // rope_theta
  std::string scaling;             // "", "linear", "llama3"
  double factor = 1;               // of linear and llama3
  double low_freq_factor = 1;      // llama3
  double high_freq_factor = 4;     // llama3
  int64_t original_positions = 0;  // llama3: original_max_position_embeddings
};

// Of a model that rotates whole heads. Kinds of scaling that are not known are
// SP009; a `partial_rotary_factor`, which such a model's class does not look
// at, is a note.
RopeConfig read_rope(ConfigReader& config, Diagnostics& diags);

// Of the operation `rope` over [batch, length, ..]. `theta` is that of the
// architecture, where the config says none.
GivenAttributes rope_attributes(const RopeConfig& rope, double theta);

}  // namespace shardplan
