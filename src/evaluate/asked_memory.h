// SPDX-License-Identifier: Apache-2.0
// AskedMemory: what devices are asked to hold beside parameters as they are
// stored, read once for any number of plans.
//
// No plan decides any of it. session/budget.h reads it from flags.
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

// Rules that place the leaves of an optimizer, and how they are judged.
struct StateRules {
  RuleSet rules;
  ResolveOptions resolving;
  LintOptions linting;
};

struct AskedMemory {
  // The axes of the cache and of tokens, and the specs of leaves, are left
  // open: they follow from a plan.
  BudgetOptions options;
  std::optional<std::string> hardware = {};  // a profile's name
  std::optional<StateRules> state_rules = {};
  TrainedParameters trained = {};   // empty: all
  GroupOfParameters group_of = {};  // by options.state.groups

  KvAxesAsked axes = {};
  // Dimensions of parameters that consist of heads, or of parts of recurrent
  // states. They are looked for where there is a cache.
  std::vector<KeyProjection> heads = {};
  std::vector<KeyProjection> states = {};

  // A training step, where there is one.
  std::optional<Workload> workload = {};
  StepOptions step = {};
  // The profile with its measured tables, read for what has a time; null: there
  // is none, so nothing has.
  std::shared_ptr<const HardwareProfile> card = {};
  // Whether devices are in several slices, and meshes of which it is known what
  // crosses them: no other has a time.
  bool on_slices = false;
  std::vector<SlicedMesh> sliced = {};
  Hide hide = Hide::Framework;
  AxisNames ulysses_axes = {};             // attention cuts heads over these
  std::optional<int64_t> source_seq = {};  // tokens that an encoder gives
  NameReading names = {};                  // of axes in specs

  // An engine, where one serves: its settings, and of its mesh what no axis
  // says.
  std::optional<ServingInput> serving = {};
};

}  // namespace shardplan
