// SPDX-License-Identifier: Apache-2.0
// HookedWalk: what a plan does when hooks run it. Every device computes on what
// it has, and nothing is sent except what the hooks of modules send.
//
// transformers' `tp_plan` and PyTorch's parallel styles run this way. A walk
// over the graph follows how each value is distributed along the one axis of
// such a plan: whole on every device, sharded along a dimension, or as the
// parts of a sum. An operation is right if its factors (graph/op.h) are sharded
// alike in all operands. If one operand has a factor sharded and another has it
// whole, their shapes do not match. If a factor is summed over and no hook adds
// up the parts, or a factor is sharded that an operation needs whole, the
// values are wrong. In backward, a whole value that meets a shard has a
// gradient that is a partial sum on every device, which some hook must add up.
// Nothing is computed.
//
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
  // Per parameter: the dimension that the axis shards, -1 for none; whether it
  // holds two parts side by side, each of which is sharded; what its module's
  // hooks do; and whether it is a shard that its module, lacking a hook for
  // that, reads as if it were whole.
  PerValue<int> cut;
  PerValue<bool> packed;
  PerValue<ModuleHook> hook;
  PerValue<bool> stray;
  // The hooks of modules that contain others and, per parameter, the indices of
  // those around its own module, outermost first.
  std::vector<ModuleHook> containers;
  PerValue<std::vector<int>> around;
  // The hook of an output head that shares the embedding's weight.
  ModuleHook tied_head;
  // Per region of the graph that consists of experts, the hook of their module.
  std::vector<ModuleHook> experts;
};

// How a value is distributed along the axis.
struct HookedLayout {
  int cut = -1;          // the sharded dimension; -1: none
  bool packed = false;   // it holds two parts, each of which is sharded
  bool partial = false;  // devices hold parts of a sum
  bool dtensor = false;  // operations on it insert their own collectives
  // The module output whose gradient a hook adds up, if the value is or comes
  // from one; none: no hook does.
  ValueId summed_from = {};

  bool is_whole() const { return cut < 0 && !partial; }
};

struct HookedFault {
  // The style that would work, as far as that is known.
  enum class Wants : uint8_t {
    MatchingStyles,  // styles of a block that fit each other
    ReadsShards,     // a module that reads shards of its parameters
    CutsParameter,   // a parameter that is sharded like what it meets
    SplitsInput,     // a layer that splits a whole input
    GathersOutput,   // a layer that gathers its output
    SumsGradients,   // a module whose gradients are added up
    LeavesGradients,
  };
  bool shapes_differ = false;  // else the values are wrong
  ValueId value;               // the operation's result; an output
  ValueId operand;             // the one that does not fit; none: see `why`
  std::string why;
  Wants wants = Wants::MatchingStyles;
};

struct HookedWalk {
  std::optional<HookedFault> fault = {};  // the first of the forward pass
  // The first value with a wrong gradient, if the forward pass is right.
  std::optional<HookedFault> gradient = {};
  std::string unknown = {};  // why the walk has no answer; "" if it has one
  PerValue<HookedLayout> layouts = {};  // only if nothing is wrong or unknown

  bool is_right() const { return !fault && unknown.empty(); }
};

HookedWalk walk_hooked(const Graph& graph, const HookedPlan& plan);

}  // namespace shardplan
