// SPDX-License-Identifier: Apache-2.0
// A request to serve a model with an engine, and its answer with findings.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/diagnostic.h"
#include "base/host.h"
#include "core/mesh.h"
#include "model/model.h"
#include "serve/serving.h"
#include "session/budget.h"
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
};

// The engine against mode and memory flags (SP010); true without one.
bool check_engine_request(const EngineRequest& engine,
                          const MemoryRequest& memory, Mode mode,
                          Diagnostics& diags);

// What an engine stores otherwise than a checkpoint does, declared, so that
// the plan is judged as the engine has it. Nothing without an engine.
void declare_for_engine(const EngineRequest& engine, PlanRequest& request);

// Axes of a mesh as an engine has them: `tp`, `tensor` or `model`, those of the
// batch, that of the stages. Empty, with SP010 reported, where one is none of
// these.
std::optional<EngineMesh> engine_mesh(const EngineRequest& engine,
                                      const MemoryRequest& memory,
                                      const Mesh& mesh, Diagnostics& diags);

// What a plan's budget is asked for beside an engine: without a limit, since it
// is the engine that fills the devices.
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
// Empty, with the reason reported (SP010): an axis that the engine does not
// have. REQUIRES: an engine is asked for; all of it outlives the input.
std::optional<ServingInput> serving_input(const EngineRequest& engine,
                                          const MemoryRequest& memory,
                                          const ServedModels& models,
                                          const DeviceLimit& device,
                                          const Mesh& mesh, Diagnostics& diags);

// With SP307 and SP308 reported, and changes that were computed. REQUIRES:
// check_engine_request() held, and an engine is asked for.
std::optional<Serving> answer_serving(const EngineRequest& engine,
                                      const MemoryRequest& memory,
                                      const Model& model, const Mesh& mesh,
                                      Host& host, Diagnostics& diags);

}  // namespace shardplan
