// SPDX-License-Identifier: Apache-2.0
// A model's forward pass as a program, partitioned with a few layers in the
// place of many.
//
// Of layers that follow one another and are placed alike only a few are
// partitioned, and one of those in the middle stands for all that are left out.
// That holds where it does and hands on what a neighbour does, which is looked
// at; else all layers are partitioned.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/diagnostic.h"
#include "core/manifest.h"
#include "core/plan.h"
#include "core/rules.h"
#include "graph/elementwise.h"
#include "graph/graph.h"
#include "model/forward/forward.h"
#include "resolve/name_resolution.h"
#include "spmd/program.h"

namespace shardplan {

// Where the name of a parameter says that it is.
struct LayerPlace {
  int64_t layer = -1;  // -1: in none
  int name = -1;       // number of its name without the layer's; -1: none
  // Names of other layers than those of the forward pass, such as of an encoder
  // of images, have numbers that say nothing of these.
  bool other = false;
};

// The graphs of one forward pass: of all its layers, and of the few that plans
// ask for. They are written once and shared by all plans of the model.
// `manifest` must outlive it.
struct ForwardGraphs {
  const Manifest* manifest = nullptr;
  ForwardDefinition model;
  std::vector<int64_t> windows;  // of its layers; empty: all see all
  ForwardPass pass;
  int64_t layers = 0;                     // of the pass
  std::vector<LayerPlace> place_of = {};  // per parameter
  // What names of other layers begin with: those that end before the last layer
  // of the pass, so that it does not read them, which is looked at.
  std::vector<std::string> others = {};
  // Per parameter, whether it is frozen in training; empty: none is. Layers
  // are alike where the same is trained in them, and gradients flow into them.
  std::vector<bool> frozen = {};
  // Those that plans asked for, by how many layers they have and how many of
  // these stand for the last ones. Several threads may ask at once.
  struct Graphs {
    std::mutex mutex;
    std::map<std::pair<int64_t, int64_t>, Graph> made;
  };
  std::unique_ptr<Graphs> graphs = std::make_unique<Graphs>();
};

ForwardGraphs forward_graphs(const Manifest& manifest, ForwardDefinition model,
                             const ForwardPass& pass,
                             std::vector<bool> frozen = {});

inline bool is_frozen(const ForwardGraphs& model, size_t parameter) {
  return !model.frozen.empty() && model.frozen[parameter];
}

// Where the values of a model lie. All must outlive the call.
struct ForwardPlan {
  const Manifest& manifest;  // the model's, or one with the same parameters
  const Plan& plan;
  const RuleSet* rules;  // null: there are none
  NameReading reading;
  Storage storage = Storage::F32;  // of every number that is sent
};

// From layer `begin` on, every `period` layers are as those before them.
struct LayerCycle {
  int64_t begin = 0;
  int64_t period = 1;
  int64_t kept = 0;   // layers that are partitioned, the first of the model
  int64_t times = 1;  // how often the second period counts
  // Of the layers that are kept so many stand for the model's last ones, of
  // which other parameters are trained.
  int64_t behind = 0;
};
// Periods that are partitioned.
inline constexpr int64_t kPeriods = 3;

// Which period of the cycle a layer that is partitioned is in; -1: none.
int64_t period_of(const LayerCycle& cycle, int64_t layer);
// The layer that is partitioned and stands for one of the model.
int64_t layer_for(const LayerCycle& cycle, int64_t layer);

struct RepeatedProgram {
  Program program;                  // of the model's graph
  std::optional<LayerCycle> cycle;  // none: all layers are there
  int64_t layers = 0;               // that are partitioned
};

// For tests: whether layers that are alike may be left out.
enum class AlikeLayers : uint8_t { Once, Each };

// Whether the second of the partitioned periods does what a neighbour does, in
// what the caller cares for beside the layouts in which layers hand values on.
using IsSteady = std::function<bool(const Program&, const LayerCycle&)>;

// Empty, with the reason reported: errors as those of Family::describe,
// build_graph and place_values, and SP017 where bytes could not be counted.
std::optional<RepeatedProgram> partition_layers(const ForwardGraphs& model,
                                                const ForwardPlan& of,
                                                const IsSteady& is_steady,
                                                AlikeLayers alike,
                                                Diagnostics& diags);

}  // namespace shardplan
