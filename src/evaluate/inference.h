// SPDX-License-Identifier: Apache-2.0
// Times of inference: until a prompt's first token, and of each token after it,
// under a plan or as an engine cuts and schedules the model.
//
// Under a plan a batch is processed or generated together. An engine runs
// passes: every sequence that is generated adds a token in each, and prompts of
// others are processed in some of them, in chunks of its budget of tokens.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/manifest.h"
#include "core/plan.h"
#include "core/rules.h"
#include "core/types.h"
#include "cost/step_time.h"
#include "evaluate/asked_memory.h"
#include "evaluate/step.h"
#include "memory/kv_cache.h"
#include "model/model.h"
#include "serve/serving.h"

namespace shardplan {

struct InferenceTimes {
  std::optional<StepTime> first_token;  // of a prompt
  std::optional<StepTime> next_token;   // of every one after it
  std::string untimed;                  // why there is neither
  std::string workload;                 // "8 sequences, each at 4,096 tokens"
  std::vector<std::string> calibrated;  // files that the times rest on
};

// A model as passes compute it, made once for any number of plans.
struct InferencePasses {
  std::optional<StepModel> step;
  std::string untimed;  // why no plan has a time; "" where plans have
};
// `model` must outlive it.
InferencePasses inference_passes(const Model& model, const Diagnostics& like);

struct InferenceQuestion {
  const Model& model;
  const InferencePasses& passes;
  const AskedMemory& memory;
  const KvRequest& kv;
  const HardwareProfile& card;

  // Whether kernels are started one by one.
  bool eager() const { return memory.step.kernels == Kernels::Eager; }
};

InferenceTimes plan_inference(const InferenceQuestion& question,
                              const Plan& plan, const RuleSet* rules,
                              const Diagnostics& like);
// With a workload (ServingInput::workload) both times, else that of a token at
// the batch and length that the engine is asked to hold.
InferenceTimes engine_inference(const InferenceQuestion& question,
                                const Serving& serving,
                                const Diagnostics& like);

}  // namespace shardplan
