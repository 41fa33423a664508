// SPDX-License-Identifier: Apache-2.0
// RopeConfig: the rotary positions of a model as its config describes them
// (transformers' modeling_rope_utils.py).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/diagnostic.h"
#include "model/config_reader.h"
#include "model/forward/writer.h"

namespace shardplan {

struct RopeConfig {
  std::optional<double> theta;  // `rope_theta`, the base of the frequencies
  // The kind of scaling: "" (none), "linear", "llama3", "dynamic", "yarn",
  // "longrope" or "proportional".
  std::string scaling;
  double factor = 1;
  double low_freq_factor = 1;      // llama3
  double high_freq_factor = 4;     // llama3
  int64_t original_positions = 0;  // in training: llama3, yarn, longrope; in
                                   // the config: dynamic
  double beta_fast = 32;           // yarn
  double beta_slow = 1;            // yarn
  bool truncate = true;            // yarn
  // longrope: the divisors of the frequencies, up to the original positions and
  // beyond them.
  std::vector<double> short_factor;
  std::vector<double> long_factor;
  double amplitude = 1;  // factor of cosines and sines: yarn, longrope
  // longrope of Phi 3.5 MoE: replaces `amplitude` up to the original positions.
  // Beyond them, versions of transformers differ.
  std::optional<double> short_amplitude;
  std::optional<double> part;  // rotated part of a head, from the scaling
};

// Reads the rotary positions of a config. Unknown kinds of scaling are SP009.
//
// `kind` is the kind of a layer's attention ("sliding_attention") if kinds have
// their own positions. transformers 5 writes a map per kind in
// `rope_parameters`; without such maps, the config's own keys are those of
// "full_attention". `kind` is "" if all layers are alike.
//
// `has_part`: the model's class can rotate a part of a head. Other classes do
// not use `partial_rotary_factor`; a note reports one that is ignored, and one
// next to a scaling is refused.
RopeConfig read_rope(ConfigReader& config, std::string_view kind, bool has_part,
                     Diagnostics& diags);

// One use of rotary positions, as the architecture and the run determine it.
struct RopeUse {
  double theta = 0;  // the architecture's base, if the config has none
  int64_t head_dim = 0;
  double part = 1;  // rotated part of a head, if the scaling has none
  bool interleaved = false;
  int64_t length = 0;  // tokens per sequence in the run
  // Sizes are smaller than in the config, so longrope uses only the first of
  // its factors.
  bool is_small = false;
};

// Returns the attributes of the operation `rope` over [batch, length, ..], or
// nothing and the reason in `why` if the config does not fit the heads.
std::optional<AttributeValues> rope_attributes(const RopeConfig& rope,
                                               const RopeUse& use,
                                               std::string& why);

}  // namespace shardplan
