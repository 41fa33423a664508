// SPDX-License-Identifier: Apache-2.0
// InferencePass: how long a forward pass without a backward takes on a device,
// part by part of the model. It processes prompts, generates tokens, or does
// both in one pass.
//
// Kernels are those of an engine. Products of one input are joined into one,
// chains of element-by-element operations and norms are one kernel, attention
// is one kernel, and a token's query reads the keys and values of all earlier
// tokens from the cache. Only experts that receive a token are read.
//
// The program says what is computed for its own tokens, on the devices of its
// mesh. A run has other tokens, so work is scaled, and an engine may shard
// weights further than the program does (WeightUse::cuts), which adds sums and
// gathers. Units: seconds, bytes, tokens.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "core/hardware.h"
#include "core/mesh.h"
#include "cost/kernels.h"
#include "cost/pass_time.h"
#include "spmd/program.h"

namespace shardplan {

// Over how many devices an engine shards a dimension of a parameter, and along
// which axes of its layout.
struct WeightCut {
  double parts = 1;
  AxisNames axes;
};

struct WeightUse {
  double bits = 16;  // per number as stored, with its share of scales
  Precision precision = Precision::BF16;  // for products with it
  // Per dimension; empty: as in the program.
  std::vector<WeightCut> cuts = {};
  bool attention = false;   // sharded over heads
  bool vocabulary = false;  // sharded over the vocabulary
  bool all_groups = false;  // multiplies the tokens of all expert groups
};

// The tokens of one pass on one device.
struct RunTokens {
  double decoding = 0;  // sequences that each add a token
  double context = 0;   // keys that each such token reads
  double prompts = 0;
  double length = 0;  // tokens of a prompt, or of a chunk of one
  // Further tokens of the prompt that its queries see: those in the cache or,
  // if a prompt is divided over devices, on average those on others.
  double before = 0;

  double tokens() const { return decoding + prompts * length; }
  double sequences() const { return decoding + prompts; }
};

struct InferencePass {
  const ProgramView& view;
  const HardwareProfile& card;
  Precision precision = Precision::BF16;  // for all but products with weights
  double element_bytes = 2;               // per number of activations
  double program_tokens = 1;              // per device
  double program_sequences = 1;
  RunTokens run = {};
  // Looks up a parameter by its name in the graph's manifest.
  std::function<WeightUse(const std::string& parameter)> weight = {};
  double kv_bits = 16;     // per number in the cache
  double latent = 0;       // numbers cached per token in place of heads, or 0
  double state_bytes = 0;  // per sequence in a layer with a recurrence
  // Data-parallel groups that share experts and bring equally many tokens each,
  // and the axes that their ranks span.
  double expert_groups = 1;
  AxisNames expert_axes = {};
};

struct InferenceSegment {
  PassTime pass;
  double least_bytes = 0;  // weights and cache that any run reads
  double calls = 0;        // kernels if nothing is fused
};

// Returns one entry per segment of the view. Empty, with the reason in `why`,
// if the profile lacks a rate or queries meet keys in a way that is not known
// to be attention.
std::vector<InferenceSegment> price_inference(const InferencePass& pass,
                                              std::string& why);

}  // namespace shardplan
