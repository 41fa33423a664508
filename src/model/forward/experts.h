// SPDX-License-Identifier: Apache-2.0
// A mixture of experts: tokens are sent to their experts, whose outputs are
// added up by weight (Shazeer et al., "Outrageously Large Neural Networks",
// 2017). An expert is down(act(gate x) * up x), down of another function of
// gate and up, or down(act(up x)) without a gate.
//
// Weights of experts are stacked ([experts, ..], with whole experts on the
// devices of the axis EXPERT), or every expert has its own parameters. Gate and
// up may be one matrix.
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
  // Gate and up in one matrix: side by side or, if `in_turns`, alternating.
  ExpertKernel both{"gate_up_proj"};
  bool in_turns = false;
  bool gated = true;
  int64_t experts = 0;
  int64_t hidden = 0;
  int64_t inner = 0;
  std::string activation;
  // Writes the value between up and down if it is not an activation, from the
  // names of gate and up, the prefix for the names of values, and the name of
  // the result.
  std::function<void(const std::string& gate, const std::string& up,
                     const std::string& at, const std::string& result)>
      mix;
  // The shares apply to the inputs of experts, not to their outputs; the value
  // is the number of experts per token.
  std::optional<int64_t> inputs_weighed;
  std::string at;       // prefix for the names of its values
  std::string x;        // [batch, length, hidden]
  std::string choices;  // [batch, length, k]
  std::string shares;   // [batch, length, k]
  std::string result;   // [batch, length, hidden]
};

// Reads the sizes and names in a step, and how the modules of its block store
// the layers. Does not set values and names of values. Returns nothing, with
// the reason reported, if an expression has no value.
std::optional<ExpertsUse> read_experts(const ForwardStep& step,
                                       const ValueScope& scope,
                                       const std::vector<ModuleStep>& modules,
                                       const ValueScope& modules_scope);

void write_experts(ForwardWriter& out, const ExpertsUse& use);

}  // namespace shardplan
