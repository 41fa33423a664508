// SPDX-License-Identifier: Apache-2.0
// A mixture of experts: a router chooses experts for every token, tokens are
// brought to their experts, and what these say is added up by weight (Shazeer
// et al., "Outrageously Large Neural Networks", 2017).
//
// Weights of experts are stacked ([experts, ..], whole experts on devices of
// the axis EXPERT) or a parameter per expert; gate and up may be one matrix.
#pragma once

#include <string>
#include <string_view>

#include "graph/model_writer.h"

namespace shardplan {

struct ExpertNames {
  std::string router;   // "layers.0.mlp.gate"
  std::string experts;  // "layers.0.mlp.experts"
  std::string_view gate = "gate_proj";
  std::string_view up = "up_proj";
  std::string_view down = "down_proj";
};

// `x` is [batch, length, hidden], and so is the result. Values are named
// `at`.router, `at`.choices, ..; the result is `at`.output.
std::string write_experts(ModelWriter& out, const ExpertNames& names,
                          int64_t intermediate, const std::string& at,
                          const std::string& x);

}  // namespace shardplan
