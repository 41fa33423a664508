// SPDX-License-Identifier: Apache-2.0
// InferenceTimes: how long inference takes until a prompt's first token, and
// for each token after it, under a plan or as an engine shards and schedules
// the model.
//
// Under a plan, a batch is processed or generated together. An engine runs
// passes: each pass adds one token to every sequence that is being generated,
// and some passes also process prompts of other sequences, in chunks of the
// engine's token budget.
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
  std::optional<StepTime> first_token;  // for a prompt
  std::optional<StepTime> next_token;   // for every token after it
  std::string untimed;                  // why both times are missing
  std::string workload;                 // "8 sequences, each at 4,096 tokens"
  std::vector<std::string> calibrated;  // calibration files that the times rely
                                        // on
};

// The model as inference passes compute it, built once for any number of plans.
struct InferencePasses {
  std::optional<StepModel> step;
  std::string untimed;  // why no plan has a time; "" if plans have
};
// Builds the passes. `model` must outlive the result.
InferencePasses inference_passes(const Model& model, const Diagnostics& like);

struct InferenceQuestion {
  const Model& model;
  const InferencePasses& passes;
  const AskedMemory& memory;
  const KvRequest& kv;
  const HardwareProfile& card;

  // Returns whether kernels are launched one by one.
  bool eager() const { return memory.step.kernels == Kernels::Eager; }
};

InferenceTimes plan_inference(const InferenceQuestion& question,
                              const Plan& plan, const RuleSet* rules,
                              const Diagnostics& like);
// Returns both times if there is a workload (ServingInput::workload), else the
// time of one token at the requested batch and length.
InferenceTimes engine_inference(const InferenceQuestion& question,
                                const Serving& serving,
                                const Diagnostics& like);

}  // namespace shardplan
