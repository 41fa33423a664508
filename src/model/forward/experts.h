// SPDX-License-Identifier: Apache-2.0
// A mixture of experts: tokens are brought to their experts, and what these say
// is added up by weight (Shazeer et al., "Outrageously Large Neural Networks",
// 2017). Each is down(act(gate x) * up x).
//
// Weights of experts are stacked ([experts, ..], whole experts on devices of
// the axis EXPERT) or a parameter per expert; gate and up may be one matrix.
#pragma once

#include <cstdint>
#include <string>

#include "model/forward/writer.h"

namespace shardplan {

struct ExpertsUse {
  std::string modules;  // "layers.0.mlp.experts"
  std::string gate = "gate_proj";
  std::string up = "up_proj";
  std::string down = "down_proj";
  int64_t experts = 0;
  int64_t hidden = 0;
  int64_t inner = 0;
  std::string activation;
  std::string at;       // before the names of its values
  std::string x;        // [batch, length, hidden]
  std::string choices;  // [batch, length, k]
  std::string shares;   // the same
  std::string result;   // [batch, length, hidden]
};

void write_experts(ForwardWriter& out, const ExpertsUse& use);

}  // namespace shardplan
