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
// or cut that an operation needs whole, the numbers are others. Backward, what
// is whole and meets a part has a gradient that is a partial sum on every
// device, which some hook must add up. Nothing is computed.
// Sources: transformers 5.24, distributed/tensor_parallel.py and
// expert_parallel.py, run with two processes (tests/data/hf_tp_runs.jsonl);
// PyTorch 2.15, torch/distributed/tensor/parallel/style.py, run likewise
// (tests/data/torch_tp_runs.jsonl).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/rules.h"
#include "graph/graph.h"

namespace shardplan {

struct HookedPlan {
  int64_t ranks = 1;  // along the axis
  // Per parameter: the dimension that the axis cuts, -1: none; whether it holds
  // two parts side by side that are cut each; what its module's hooks do; and
  // whether it is a shard that its module, which has no such hook, reads as if
  // it were whole.
  PerValue<int> cut;
  PerValue<bool> packed;
  PerValue<ModuleHook> hook;
  PerValue<bool> stray;
  // Hooks of modules that contain others, and per parameter the numbers of
  // those around its own module, outermost first.
  std::vector<ModuleHook> containers;
  PerValue<std::vector<int>> around;
  // The hook of an output head that shares the embedding's weight.
  ModuleHook tied_head;
  // Per region of the graph that is of experts, the hook of their module.
  std::vector<ModuleHook> experts;
};

// How a value lies along the axis.
struct HookedLayout {
  int cut = -1;          // the dimension; -1: none
  bool packed = false;   // it holds two parts, each of which is cut
  bool partial = false;  // parts of a sum
  bool dtensor = false;  // operations on it send what they need
  // The output of a module whose hook adds up its gradient; none: no hook does.
  ValueId summed_from = {};

  bool is_whole() const { return cut < 0 && !partial; }
};

struct HookedFault {
  // The style that would do, as far as that can be said.
  enum class Wants : uint8_t {
    Alike,          // styles of a block that fit each other
    ReadsShards,    // a module that reads shards of its parameters
    CutsParameter,  // a parameter that is cut as what it meets
    SplitsInput,    // a layer that takes its part of a whole input
    GathersOutput,  // a layer whose output is put together
    SumsGradients,  // a module whose gradients are added up
    LeavesGradients,
  };
  bool shapes_differ = false;  // else the numbers are others
  ValueId value;               // that the operation gives; an output
  ValueId operand;             // which does not fit; none: `why` says it all
  std::string why;
  Wants wants = Wants::Alike;
};

struct HookedWalk {
  std::optional<HookedFault> fault;  // the first
  // The first value with a wrong gradient, where the forward pass is right.
  std::optional<HookedFault> gradient;
  std::string unknown;  // what keeps the walk from telling; "" where it tells
  PerValue<HookedLayout> layouts;  // where nothing is wrong or unknown

  bool is_right() const { return !fault && unknown.empty(); }
};

HookedWalk walk_hooked(const Graph& graph, const HookedPlan& plan);

}  // namespace shardplan
