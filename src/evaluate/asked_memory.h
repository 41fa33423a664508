// SPDX-License-Identifier: Apache-2.0
// AskedMemory: the memory that a request asks for beyond the stored parameters
// (training state, KV cache, activations of a step, a serving engine), read
// once and shared by any number of plans.
//
// No plan changes it. session/memory_request.h fills it from flags.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "activations/options.h"
#include "core/hardware.h"
#include "core/rules.h"
#include "core/spec.h"
#include "cost/stage_time.h"
#include "evaluate/candidate.h"
#include "findings/findings.h"
#include "memory/budget.h"
#include "memory/kv_cache.h"
#include "memory/state.h"
#include "resolve/name_resolution.h"
#include "resolve/resolve.h"
#include "serve/serving.h"

namespace shardplan {

// Rules that place the leaves of an optimizer, and the options to resolve and
// check them with.
struct StateRules {
  RuleSet rules;
  ResolveOptions resolving;
  LintOptions linting;
};

struct AskedMemory {
  // The sharding of the KV cache, the token axes and the leaf specs stay unset
  // here, because each plan determines its own.
  BudgetOptions options;
  std::optional<std::string> hardware = {};  // a profile's name
  std::optional<StateRules> state_rules = {};
  TrainedParameters trained = {};   // empty: all are trained
  GroupOfParameters group_of = {};  // indexes options.state.groups

  RequestedKvAxes axes = {};
  // The dimensions of parameters that consist of heads, and those that consist
  // of parts of recurrent states. Filled only if there is a cache.
  std::vector<KeyProjection> heads = {};
  std::vector<KeyProjection> states = {};

  // The training step, if one is requested.
  std::optional<Workload> workload = {};
  StepOptions step = {};
  // The hardware profile with its measured tables, for time estimates. Null:
  // there is no profile, so nothing is timed.
  std::shared_ptr<const HardwareProfile> card = {};
  // Whether the devices span several slices, and the meshes whose traffic
  // between slices is known. On several slices, only these meshes have step
  // times.
  bool on_slices = false;
  std::vector<SlicedMesh> sliced = {};
  Hide hide = Hide::Framework;
  AxisNames ulysses_axes = {};             // attention shards heads over these
  std::optional<int64_t> source_seq = {};  // tokens that the encoder reads
  NameReading names = {};                  // how axis names in specs are read

  // The serving engine, if any: its settings, and the degrees that no mesh axis
  // expresses.
  std::optional<ServingInput> serving = {};
};

}  // namespace shardplan
