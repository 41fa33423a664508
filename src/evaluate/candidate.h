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
  std::vector<std::string> names = {};  // of its parameters, `*` for numbers

  bool operator==(const NewRule&) const = default;
};

// One edit of a rule set, as data (advise/rule_edit.h turns it into text).
struct RuleChange {
  enum class Kind : uint8_t { SetSpec, SetPattern, Insert, Remove, Move };
  Kind kind = Kind::SetSpec;
  // 1-based: the rule that is changed. Insert: the rule that the new ones come
  // to stand before; one more than there are rules means the end.
  int rule = 1;
  int before = 1;              // Move: the rule that it comes to stand before
  PartitionSpec spec;          // SetSpec
  std::string pattern;         // SetPattern
  std::vector<NewRule> added;  // Insert

  bool operator==(const RuleChange&) const = default;
};

struct ChangedRules {
  RuleSet rules;
  // Per rule the 0-based number of the one it was; -1 where the pattern is new.
  std::vector<int> origin;
  // Per rule the number of the change that wrote or moved it; -1 for none.
  std::vector<int> by;
};
// Applies all changes at once; each refers to the rules before any change.
// REQUIRES: no two set, remove or move the same rule.
ChangedRules changed(const RuleSet& rules, std::span<const RuleChange> changes);

// Gives dimension `dim` of some parameters another size. It must cover all
// parameters of a group (evaluate/parameter_groups.h), or none.
struct Padding {
  std::vector<uint32_t> parameters;  // ascending
  int dim = 0;
  int64_t size = 0;

  bool operator==(const Padding&) const = default;
};

// The part of a candidate that decides where parameters are placed.
struct Placing {
  std::vector<RuleChange> rules = {};  // applied at once
  std::optional<Mesh> mesh = {};
  std::optional<Padding> padding = {};
  std::optional<Declarations> declared = {};

  bool operator==(const Placing&) const = default;
};

// The sequences of a training step, or those in a cache.
struct Workload {
  int64_t batch = 1;  // sequences over all devices
  int64_t seq = 1;    // tokens of each
};

struct Device {
  std::optional<DeviceLimit> limit = {};     // empty: not known
  int64_t reserve = 0;                       // bytes that are kept free
  std::optional<std::string> hardware = {};  // a profile's name
  // As AskedMemory::card.
  std::shared_ptr<const HardwareProfile> card = {};
};

struct Candidate {
  Placing placing = {};
  // Each replaces what was asked for as a whole.
  std::optional<Device> device = {};
  std::optional<Workload> workload = {};
  std::optional<StateOptions> state = {};  // with optimizer and ZeRO
  std::optional<StepOptions> step = {};
  std::optional<ServingInput> serving = {};
  // The layers of each stage of the pipeline; empty: as asked for. Findings are
  // those of the stages that were asked for.
  std::vector<int64_t> stage_layers = {};
};

// A mesh of these axes with these views; empty where they do not go together.
std::optional<Mesh> viewed_mesh(std::vector<Axis> axes,
                                const std::vector<MeshView>& views);
// The mesh with one axis resized. Where only a view has the axis, another axis
// of that view makes up for it. Empty where the views do not suit the size, or
// it would exceed the largest number of devices.
std::optional<Mesh> resized(const Mesh& mesh, const Axis& wanted);

}  // namespace shardplan
