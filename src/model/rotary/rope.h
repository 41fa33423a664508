// SPDX-License-Identifier: Apache-2.0
// RopeConfig: how positions are rotated (transformers' modeling_rope_utils.py).
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
  std::optional<double> theta;  // rope_theta
  // "", "linear", "llama3", "dynamic", "yarn", "longrope", "proportional"
  std::string scaling;
  double factor = 1;
  double low_freq_factor = 1;      // llama3
  double high_freq_factor = 4;     // llama3
  int64_t original_positions = 0;  // llama3, yarn and longrope: those of
                                   // training; dynamic: those of the config
  double beta_fast = 32;           // yarn
  double beta_slow = 1;            // yarn
  bool truncate = true;            // yarn
  // Of longrope: what every frequency is divided by, up to the original
  // positions and beyond.
  std::vector<double> short_factor;
  std::vector<double> long_factor;
  double amplitude = 1;  // of cosines and sines: yarn, longrope
  // Of longrope as Phi 3.5 MoE has it, in place of that up to the original
  // positions; beyond, versions of transformers differ.
  std::optional<double> short_amplitude;
  std::optional<double> part;  // of a head that is rotated: what `scaling` says
};

// Kinds of scaling that are not known are SP009.
//
// `kind` is that of a layer's attention ("sliding_attention"), where kinds have
// positions of their own: each a map in `rope_parameters` as transformers 5
// writes it, else the config's own keys are those of "full_attention". "" where
// all layers are alike.
//
// `has_part`: the model rotates a part of a head. Else its class does not look
// at `partial_rotary_factor`, which is a note.
RopeConfig read_rope(ConfigReader& config, std::string_view kind, bool has_part,
                     Diagnostics& diags);

// One rotation of heads.
struct RopeUse {
  double theta = 0;  // of the architecture, where the config says none
  int64_t head_dim = 0;
  double part = 1;  // of a head, where the scaling says none
  bool interleaved = false;
  int64_t length = 0;  // that is run
  // Sizes are smaller than the config has them: of longrope's factors the first
  // ones are taken.
  bool is_small = false;
};

// Of the operation `rope` over [batch, length, ..]. Empty, and why, where the
// config does not fit the heads.
std::optional<AttributeValues> rope_attributes(const RopeConfig& rope,
                                               const RopeUse& use,
                                               std::string& why);

}  // namespace shardplan
