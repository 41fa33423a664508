// SPDX-License-Identifier: Apache-2.0
// What hooks make of a plan: every device computes on what it has, and nothing
// is sent but what the hooks of modules send.
//
// transformers' `tp_plan` and PyTorch's parallel styles are run so. A walk over
// the graph follows how each value lies along the one axis of such a plan:
// whole on every device, cut along a dimension, or as the parts of a sum. An
// operation is right where its factors (graph/op.h) are cut alike in all
// operands: where one operand has a factor cut and another has it whole, their
// shapes do not meet; where a factor is summed up that no hook adds together,
// or cut that an operation needs whole, the numbers are others. Nothing is
// computed.
// Source: transformers 5.24, distributed/tensor_parallel.py, run with two
// processes (tests/data/hf_tp_runs.jsonl).
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "core/rules.h"
#include "graph/graph.h"

namespace shardplan {

struct HookedPlan {
  int64_t ranks = 1;  // along the axis
  // Per parameter: the dimension that the axis cuts, -1: none; whether it holds
  // two parts side by side that are cut each; what its module's hooks do.
  PerValue<int> cut;
  PerValue<bool> packed;
  PerValue<ModuleHook> hook;
  // The hook of an output head that shares the embedding's weight.
  ModuleHook tied_head = ModuleHook::Unknown;
};

struct HookedFault {
  bool shapes_differ = false;  // else the numbers are others
  ValueId value;               // that the operation gives; an output
  ValueId operand;             // which does not fit; none: `why` says it all
  std::string why;
};

struct HookedWalk {
  std::optional<HookedFault> fault;  // the first
  std::string unknown;  // what keeps the walk from telling; "" where it tells
};

HookedWalk walk_hooked(const Graph& graph, const HookedPlan& plan);

}  // namespace shardplan
