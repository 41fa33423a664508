// SPDX-License-Identifier: Apache-2.0
// A request to serve a model with an engine.
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
  // --gpu-memory-utilization, --mem-fraction-static: which of them, and of 1.
  std::string share_flag;
  std::optional<double> share;
  std::optional<int64_t> batched_tokens;  // --max-batched-tokens
  std::optional<int64_t> sequences;       // --max-seqs
  bool expert_parallel = false;           // --expert-parallel
  bool dp_attention = false;              // --dp-attention
  std::optional<std::string> draft;       // --draft, a model
  // Slots of adapters; any of them asks for some.
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
  // All of them, or none.
  std::optional<ServedWorkload> workload() const {
    if (!input_tokens || !output_tokens) return std::nullopt;
    return ServedWorkload{*input_tokens, *output_tokens,
                          concurrency.value_or(1)};
  }
};

// The engine against mode, memory flags and degrees of frameworks (SP010); true
// without one.
bool check_engine_request(const EngineRequest& engine,
                          const MemoryRequest& memory,
                          const PlanRequest& planning, Diagnostics& diags);

// What an engine stores otherwise than a checkpoint does, declared, so that
// the plan is judged as the engine has it. Nothing without an engine.
void declare_for_engine(const EngineRequest& engine, PlanRequest& request);

// The request with no limit on the memory of a device.
MemoryRequest without_limit(MemoryRequest memory);
// The same beside an engine, which fills the devices itself; else the request.
MemoryRequest budgeted(const EngineRequest& engine,
                       const MemoryRequest& memory);

// Models that an engine serves, read once for any number of meshes. What is
// served points into it.
struct ServedModels {
  ServedWeights model;
  std::unique_ptr<Model> draft_model;
  std::optional<ServedWeights> draft;
};
// Empty, with the reason reported.
std::optional<ServedModels> served_models(const EngineRequest& engine,
                                          const Model& model, Host& host,
                                          Diagnostics& diags);
// REQUIRES: an engine is asked for, and check_engine_request() held. `models`
// must outlive the result.
ServingInput asked_serving(const EngineRequest& engine,
                           const MemoryRequest& memory,
                           const ServedModels& models,
                           const DeviceLimit& device);

}  // namespace shardplan
