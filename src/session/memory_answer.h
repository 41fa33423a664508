// SPDX-License-Identifier: Apache-2.0
// The answer to a request about memory: what devices hold under the session's
// plan, the training step or the engine, whether it fits, and what would.
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

// All must outlive what is made of it.
struct MemoryQuestion {
  const PlanRequest& planning;
  const MemoryRequest& memory;
  const WorkloadRequest& workload;
  const EngineRequest& engine;
};
// Whether the flags agree with one another; else SP010.
bool check_question(const MemoryQuestion& question, Diagnostics& diags);

struct StepAnswer {
  MemoryBracket bracket;
  // The bracket with the memory of an allocator and a process; empty where
  // that is not known.
  std::optional<ReservedMemory> reserved;
  BracketSource from = BracketSource::ForwardPass;
  // "8 sequences of 8,192 tokens in 4 micro-batches; 1 per device at a time,
  // over fsdp=4; bf16; remat block; flash attention"
  std::string workload;
  // As JudgedStep has them.
  std::optional<StepTime> time;
  std::string untimed;
  std::vector<std::string> calibrated;  // files that the time rests on
  int64_t devices = 1;
  std::optional<int64_t> devices_per_host;  // that the step uses
  // Parts of the model whose activations are not among it: "154 parameters of
  // `model.visual`".
  std::vector<std::string> left_out;
};

// A token of as many sequences as the devices hold at once.
struct FullBatch {
  int64_t sequences = 0;
  StepTime next_token;
};

struct MemoryAnswer {
  // As they were judged, but that state_specs is null.
  BudgetOptions options;
  std::optional<KvAxes> kv_axes;  // with a cache
  bool names_trained = false;     // --trainable
  Budget budget;                  // without a limit beside an engine
  std::optional<WorkloadHeadroom> headroom = {};  // where it is looked for
  std::optional<Serving> serving = {};            // with an engine
  std::optional<StepAnswer> step = {};            // with a training step
  Fit fit = {};                                   // of what is asked for
  // How long a prompt or a token takes; empty without a cache or a profile.
  std::optional<InferenceTimes> inference = {};
  // Only with Headroom::Find, and if fewer sequences are asked for.
  std::optional<FullBatch> full_batch = {};
};

// Whether it is looked for how far the workload may grow.
enum class Headroom : uint8_t { Find, Leave };

// Empty, with the reason reported. Findings are reported (SP301, SP305 to
// SP309), with changes that were tried (session/ways_out.h).
// REQUIRES: check_question().
std::optional<MemoryAnswer> answer_memory(const MemoryQuestion& question,
                                          const Session& session,
                                          Headroom headroom, Host& host,
                                          Diagnostics& diags);

}  // namespace shardplan
