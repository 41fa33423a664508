// SPDX-License-Identifier: Apache-2.0
// How long a forward pass without a backward takes on a device, part by part of
// the model: prompts that are processed, tokens that are generated, or both in
// one pass.
//
// Kernels are those of an engine. Products of one input are one product, chains
// of element-by-element operations and norms are one kernel, attention is one,
// and a token's query reads the keys and values of all tokens before it from
// the cache. Of experts only those are read to which a token goes.
//
// The program says what is computed for its own tokens, on the devices of its
// mesh. A run has other tokens (`scale`), and an engine may cut weights
// further than the program does (WeightUse::cuts); what is summed or gathered
// then is added. Units: seconds, bytes, tokens.
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

// Over how many devices an engine cuts a dimension of a parameter, and along
// which axes of its layout.
struct WeightCut {
  double parts = 1;
  AxisNames axes;
};

struct WeightUse {
  double bits = 16;  // of a number as stored, with its share of scales
  Precision precision = Precision::BF16;  // of products with it
  std::vector<WeightCut> cuts;  // per dimension; empty: the program says it
  bool attention = false;       // it is cut over heads
  bool vocabulary = false;      // it is cut over the vocabulary
  bool all_groups = false;      // it multiplies the tokens of all expert groups
};

// The tokens of one pass on one device.
struct RunTokens {
  double decoding = 0;  // sequences that each add a token
  double context = 0;   // keys that such a token reads
  double prompts = 0;
  double length = 0;  // tokens of a prompt, or of a chunk of one
  // Tokens of the prompt that its queries see beside these: in the cache, or,
  // of a prompt that is cut over devices, on average on others.
  double before = 0;

  double tokens() const { return decoding + prompts * length; }
  double sequences() const { return decoding + prompts; }
};

struct InferencePass {
  const ProgramView& view;
  const HardwareProfile& card;
  Precision precision = Precision::BF16;  // of all that is no weight's product
  double element_bytes = 2;               // of activations
  double program_tokens = 1;              // on a device
  double program_sequences = 1;
  RunTokens run = {};
  // Looks up a parameter by its name in the graph's manifest.
  std::function<WeightUse(const std::string& parameter)> weight = {};
  double kv_bits = 16;     // of a number in the cache
  double latent = 0;       // numbers that a token caches in place of heads; 0
  double state_bytes = 0;  // of a sequence in a layer with a recurrence
  // Data-parallel groups that share experts, and bring as many tokens each;
  // along which axes their ranks lie.
  double expert_groups = 1;
  AxisNames expert_axes = {};
};

struct InferenceSegment {
  PassTime pass;
  double least_bytes = 0;  // of weights and cache, that any run reads
  double calls = 0;        // kernels where nothing is fused
};

// Per segment of the view. Empty, with the reason in `why`: the profile lacks a
// rate, or queries meet keys in a way that is not known to be attention.
std::vector<InferenceSegment> price_inference(const InferencePass& pass,
                                              std::string& why);

}  // namespace shardplan
