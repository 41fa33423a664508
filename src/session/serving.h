// SPDX-License-Identifier: Apache-2.0
// EngineRequest: a request to serve a model with an engine.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/diagnostic.h"
#include "base/host.h"
#include "core/manifest.h"
#include "serve/serving.h"
#include "session/memory_request.h"
#include "session/plan_request.h"

namespace shardplan {

struct EngineRequest {
  std::optional<std::string> name;  // --engine
  // --gpu-memory-utilization or --mem-fraction-static: the flag, and its
  // fraction.
  std::string share_flag;
  std::optional<double> share;
  std::optional<int64_t> batched_tokens;  // --max-batched-tokens
  std::optional<int64_t> sequences;       // --max-seqs
  bool expert_parallel = false;           // --expert-parallel
  bool dp_attention = false;              // --dp-attention
  std::optional<std::string> draft;       // --draft, a model
  // Slots for adapters; any of these flags asks for them.
  std::optional<int64_t> max_loras;       // --max-loras
  std::optional<int64_t> max_lora_rank;   // --max-lora-rank
  bool fully_sharded_loras = false;       // --fully-sharded-loras
  std::vector<std::string> lora_targets;  // --lora-target-modules
  // --input-tokens, --output-tokens, --concurrency
  std::optional<int64_t> input_tokens;
  std::optional<int64_t> output_tokens;
  std::optional<int64_t> concurrency;

  bool has_loras() const {
    return max_loras || max_lora_rank || fully_sharded_loras ||
           !lora_targets.empty();
  }
  // Returns the workload if both token counts are given.
  std::optional<ServedWorkload> workload() const {
    if (!input_tokens || !output_tokens) return std::nullopt;
    return ServedWorkload{*input_tokens, *output_tokens,
                          concurrency.value_or(1)};
  }
};

// Checks the engine against the mode, memory flags and framework degrees
// (SP010). Returns true without an engine.
bool check_engine_request(const EngineRequest& engine,
                          const MemoryRequest& memory,
                          const PlanRequest& planning, Diagnostics& diags);

// Declares what an engine stores differently from a checkpoint, so that the
// plan is judged as the engine lays it out. Does nothing without an engine.
void declare_for_engine(const EngineRequest& engine, PlanRequest& request);

// Returns the request without a limit on device memory.
MemoryRequest without_limit(MemoryRequest memory);
// Returns the request without a limit if an engine is requested, because the
// engine fills the devices itself; else the request unchanged.
MemoryRequest budgeted(const EngineRequest& engine,
                       const MemoryRequest& memory);

// The models that an engine serves, read once for any number of meshes.
// Requests to the engine point into it.
struct ServedModels {
  ServedWeights model;
  std::unique_ptr<Model> draft_model;
  std::optional<ServedWeights> draft;
};
// Reads the models. Empty, with the reason reported.
std::optional<ServedModels> served_models(const EngineRequest& engine,
                                          const Model& model, Host& host,
                                          Diagnostics& diags);
// Returns the engine's input. `models` must outlive the result. REQUIRES: an
// engine is requested and check_engine_request() returned true.
ServingInput asked_serving(const EngineRequest& engine,
                           const MemoryRequest& memory,
                           const ServedModels& models,
                           const DeviceLimit& device);

}  // namespace shardplan
