// SPDX-License-Identifier: Apache-2.0
// MemoryAnswer: the answer to a request about memory. It states what devices
// hold under the session's plan, in the training step or with the engine,
// whether that fits, and which changes would make it fit.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "activations/bracket.h"
#include "base/diagnostic.h"
#include "base/host.h"
#include "evaluate/inference.h"
#include "evaluate/plan_judge.h"
#include "evaluate/reserved.h"
#include "memory/budget.h"
#include "memory/fit.h"
#include "memory/kv_cache.h"
#include "model/model.h"
#include "serve/serving.h"
#include "session/memory_request.h"
#include "session/plan_request.h"
#include "session/serving.h"
#include "session/session.h"

namespace shardplan {

// Everything that it refers to must outlive its answers.
struct MemoryQuestion {
  const PlanRequest& planning;
  const MemoryRequest& memory;
  const WorkloadRequest& workload;
  const EngineRequest& engine;
};
// Returns whether the flags agree with each other; else reports SP010.
bool check_question(const MemoryQuestion& question, Diagnostics& diags);

struct StepAnswer {
  MemoryBracket bracket;
  // The bracket plus the memory of the allocator and the process; empty if that
  // is unknown.
  std::optional<ReservedMemory> reserved;
  BracketSource from = BracketSource::ForwardPass;
  // "8 sequences of 8,192 tokens in 4 micro-batches; 1 per device at a time,
  // over fsdp=4; bf16; remat block; flash attention"
  std::string workload;
  // See JudgedStep.
  std::optional<StepTime> time;
  std::string untimed;
  std::vector<std::string> calibrated;  // calibration files that the time
                                        // relies on
  int64_t devices = 1;
  std::optional<int64_t> devices_per_host;  // used by the step
  // Parts of the model whose activations are not counted: "154 parameters of
  // `model.visual`".
  std::vector<std::string> left_out;
};

// The time of the next token when the devices hold as many sequences as fit.
struct FullBatch {
  int64_t sequences = 0;
  StepTime next_token;
};

struct MemoryAnswer {
  // The options that were judged, except that state_specs is null.
  BudgetOptions options;
  std::optional<KvAxes> kv_axes;  // set if there is a cache
  bool names_trained = false;     // --trainable
  Budget budget;                  // has no limit if an engine is requested
  std::optional<WorkloadHeadroom> headroom = {};  // if it was looked for
  std::optional<Serving> serving = {};            // with an engine
  std::optional<StepAnswer> step = {};            // with a training step
  Fit fit = {};                                   // of the whole request
  // The times of a prompt and a token; empty without a cache or a profile.
  std::optional<InferenceTimes> inference = {};
  // Set only with Headroom::Find, and only if more sequences fit than
  // requested.
  std::optional<FullBatch> full_batch = {};
};

// Whether to find how far the workload may grow.
enum class Headroom : uint8_t { Find, Leave };

// Answers a request about memory. Empty, with the reason reported. Reports
// findings (SP301, SP305 to SP309) with the changes that were tried
// (session/suggestions.h).
// REQUIRES: check_question().
std::optional<MemoryAnswer> answer_memory(const MemoryQuestion& question,
                                          const Session& session,
                                          Headroom headroom, Host& host,
                                          Diagnostics& diags);

}  // namespace shardplan
