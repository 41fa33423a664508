// SPDX-License-Identifier: Apache-2.0
// A mixture of experts: tokens are brought to their experts, and what these say
// is added up by weight (Shazeer et al., "Outrageously Large Neural Networks",
// 2017). Each is down(act(gate x) * up x), or what else is made of gate and up,
// or down(act(up x)) where there is no gate.
//
// Weights of experts are stacked ([experts, ..], whole experts on devices of
// the axis EXPERT) or a parameter per expert; gate and up may be one matrix.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "model/architecture/architecture.h"
#include "model/architecture/scope.h"
#include "model/forward/writer.h"

namespace shardplan {

// A linear layer of every expert.
struct ExpertKernel {
  std::string name;  // "gate_proj"
  std::string weight_name = ".weight";
  std::string bias_name = ".bias";
  bool inputs_first = false;
  bool biased = false;
};

struct ExpertsUse {
  std::string modules;  // "layers.0.mlp.experts"
  ExpertKernel gate{"gate_proj"};
  ExpertKernel up{"up_proj"};
  ExpertKernel down{"down_proj"};
  // Gate and up in one matrix, one before the other, or in turns.
  ExpertKernel both{"gate_up_proj"};
  bool in_turns = false;
  bool gated = true;
  int64_t experts = 0;
  int64_t hidden = 0;
  int64_t inner = 0;
  std::string activation;
  // Writes what is between up and down where it is no activation: of the names
  // of gate and up, what stands before the names of values, and the result.
  std::function<void(const std::string& gate, const std::string& up,
                     const std::string& at, const std::string& result)>
      mix;
  // The shares weigh what the experts read, not what they say; a token has so
  // many.
  std::optional<int64_t> inputs_weighed;
  std::string at;       // before the names of its values
  std::string x;        // [batch, length, hidden]
  std::string choices;  // [batch, length, k]
  std::string shares;   // the same
  std::string result;   // [batch, length, hidden]
};

// What a step says of sizes and names, with what the modules of its block say
// of how its layers are stored; without values and names of values. Empty where
// something has no value, which is reported.
std::optional<ExpertsUse> read_experts(const ForwardStep& step,
                                       const ValueScope& scope,
                                       const std::vector<ModuleStep>& modules,
                                       const ValueScope& modules_scope);

void write_experts(ForwardWriter& out, const ExpertsUse& use);

}  // namespace shardplan
