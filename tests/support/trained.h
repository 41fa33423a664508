// SPDX-License-Identifier: Apache-2.0
// A small model on a mesh with the forward pass that is trained, for tests of
// what a training step holds.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "activations/segments.h"
#include "activations/step_memory.h"
#include "model/forward/forward.h"
#include "session/trainable.h"
#include "tests/support/hf_config.h"
#include "tests/support/loaded_rules.h"
#include "tests/support/memory_host.h"

namespace shardplan::testing {

// A model on a mesh, and its forward pass.
struct Trained {
  std::unique_ptr<Synthesis> synthesis;
  MemoryHost host;
  std::unique_ptr<LoadedRules> rules;
  Diagnostics diags;
  std::optional<Plan> plan;
  std::optional<ForwardGraphs> model;
  std::optional<RepeatedProgram> program;

  const Manifest& manifest() const { return synthesis->manifest.value(); }
};

// With the rules of @all_models. `trainable`: a pattern of names; "" is all.
std::unique_ptr<Trained> trained(const Json& config, const char* axes,
                                 ForwardPass pass,
                                 EqualLayers equal_layers = EqualLayers::Once,
                                 const std::string& trainable = "");

MemoryBracket bracket_of(Trained& all, const StepOptions& step,
                         const BudgetOptions& how = {});

// Bytes of a category; -1 where there is no such row.
int64_t row_of(const MemoryBracket& bracket, const char* category, size_t k);

// Of activations and logits together.
int64_t activations_in(const MemoryBracket& bracket, size_t k);

Remat remat_policy(const char* text);

// Six layers in bfloat16: 8 heads of 8 and 2 KV heads; and 4 heads of 16.
extern const Json kLlama;
extern const Json kGpt2;
// Of a batch of 4 sequences of 16.
inline constexpr int64_t kTokens = 4 * 16;

}  // namespace shardplan::testing
