// SPDX-License-Identifier: Apache-2.0
// Candidate: one variation of the request that a search tries, from the rules
// and the mesh to the optimizer, the training step and the engine.
//
// It lists only the differences from the request. evaluate/evaluate.h judges
// every candidate in the same way, whichever search made it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "activations/options.h"
#include "core/hardware.h"
#include "core/mesh.h"
#include "core/rules.h"
#include "core/spec.h"
#include "memory/budget.h"
#include "memory/state.h"
#include "serve/serving.h"

namespace shardplan {

struct NewRule {
  std::string pattern;
  PartitionSpec spec;
  std::vector<std::string> names = {};  // of its parameters, digits as `*`

  bool operator==(const NewRule&) const = default;
};

// One edit of a rule set, as data (advise/rule_edit.h turns it into text).
struct RuleChange {
  enum class Kind : uint8_t { SetSpec, SetPattern, Insert, Remove, Move };
  Kind kind = Kind::SetSpec;
  // 1-based: the rule to change. Insert: the new rules go before this one; the
  // number of rules plus one appends them.
  int rule = 1;
  int before = 1;              // Move: the rule that it goes before
  PartitionSpec spec;          // SetSpec
  std::string pattern;         // SetPattern
  std::vector<NewRule> added;  // Insert

  bool operator==(const RuleChange&) const = default;
};

struct ChangedRules {
  RuleSet rules;
  // Per rule, its 0-based index before the changes; -1 if its pattern is new.
  std::vector<int> origin;
  // Per rule, the index of the change that wrote or moved it; -1: none did.
  std::vector<int> by;
};
// Applies all changes at once; each refers to the rules before any change.
// REQUIRES: no two changes set, remove or move the same rule.
ChangedRules changed(const RuleSet& rules, std::span<const RuleChange> changes);

// Gives dimension `dim` of some parameters another size. It must cover either
// all parameters of a group (evaluate/parameter_groups.h) or none of them.
struct Padding {
  std::vector<uint32_t> parameters;  // ascending
  int dim = 0;
  int64_t size = 0;

  bool operator==(const Padding&) const = default;
};

// The part of a candidate that decides how parameters are placed.
struct Placing {
  std::vector<RuleChange> rules = {};  // applied at once
  std::optional<Mesh> mesh = {};
  std::optional<Padding> padding = {};
  std::optional<Declarations> declared = {};

  bool operator==(const Placing&) const = default;
};

// The sequences of a training step, or the sequences in a KV cache.
struct Workload {
  int64_t batch = 1;  // sequences over all devices
  int64_t seq = 1;    // tokens per sequence
};

struct Device {
  std::optional<DeviceLimit> limit = {};     // empty: unknown
  int64_t reserve = 0;                       // bytes to leave free
  std::optional<std::string> hardware = {};  // a profile's name
  // See AskedMemory::card.
  std::shared_ptr<const HardwareProfile> card = {};
};

struct Candidate {
  Placing placing = {};
  // Each of these, if set, replaces its counterpart in the request as a whole.
  std::optional<Device> device = {};
  std::optional<Workload> workload = {};
  std::optional<StateOptions> state = {};  // with optimizer and ZeRO
  std::optional<StepOptions> step = {};
  std::optional<ServingInput> serving = {};
  // The number of layers per pipeline stage; empty: as requested. Findings
  // still refer to the requested stages.
  std::vector<int64_t> stage_layers = {};
};

// Returns a mesh with these axes and views; empty if the views do not fit the
// axes.
std::optional<Mesh> viewed_mesh(std::vector<Axis> axes,
                                const std::vector<MeshView>& views);
// Returns the mesh with one axis resized. If only a view has the axis, another
// axis of that view compensates for the change. Empty if the views cannot be
// kept at this size, or if the mesh would have more than kMaxDevices devices.
std::optional<Mesh> resized(const Mesh& mesh, const Axis& wanted);

}  // namespace shardplan
