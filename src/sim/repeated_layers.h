// SPDX-License-Identifier: Apache-2.0
// RepeatedProgram: a model's forward pass as a program, partitioned with a few
// layers in place of many.
//
// If consecutive layers have the same placement, only a few are partitioned,
// and one in the middle represents those that are left out. This is valid if
// it computes and returns what a neighbour does, which is checked; otherwise
// all layers are partitioned.
#pragma once

#include <array>
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

#include "base/checked.h"
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

// The layer in which a parameter's name places it.
struct LayerPlace {
  int64_t layer = -1;  // -1: outside of layers
  int name = -1;       // number of its name without the layer; -1: none
  // The name's number counts layers outside the forward pass, such as those of
  // an image encoder, which say nothing about the layers here.
  bool other = false;
};

// The graphs of one forward pass: of all its layers, and of the few that plans
// ask for. They are written once and shared by all plans of the model.
// `manifest` must outlive this object.
struct ForwardGraphs {
  const Manifest* manifest = nullptr;
  ForwardDefinition model;
  std::vector<int64_t> windows;  // attention windows per layer; empty: none
  ForwardPass pass;
  int64_t layers = 0;                     // in the pass
  std::vector<LayerPlace> place_of = {};  // per parameter
  // Name prefixes of layers outside the forward pass: stacks that end before
  // the last layer of the pass. It is checked that the pass does not read them.
  std::vector<std::string> others = {};
  // Per parameter, whether it is frozen in training; empty: none is. Layers are
  // alike only if the same parameters are trained in them, and if gradients
  // flow into both or neither.
  std::vector<bool> frozen = {};
  // Graphs that plans asked for, by how many layers they have and how many of
  // these stand for the last ones. Several threads may ask at once.
  struct Graphs {
    std::mutex mutex;
    std::map<std::pair<int64_t, int64_t>, Graph> built;
  };
  std::unique_ptr<Graphs> graphs = std::make_unique<Graphs>();
};

ForwardGraphs forward_graphs(const Manifest& manifest, ForwardDefinition model,
                             const ForwardPass& pass,
                             std::vector<bool> frozen = {});

inline bool is_frozen(const ForwardGraphs& model, size_t parameter) {
  return !model.frozen.empty() && model.frozen[parameter];
}

// The placement of a model's values. All references must outlive the call.
struct ForwardPlan {
  const Manifest& manifest;  // the model's, or one with the same parameters
  const Plan& plan;
  const RuleSet* rules;  // null if there are none
  NameReading reading;
  Storage storage = Storage::F32;  // type of every number that is sent
};

// A repetition: from layer `begin` on, layers recur every `period` layers.
struct LayerCycle {
  int64_t begin = 0;
  int64_t period = 1;
  // How many layers are partitioned, the first of the model.
  int64_t partitioned = 0;
  int64_t times = 1;  // how often the second period counts
  // How many of the `partitioned` layers, the last ones, stand for the model's
  // last layers, in which other parameters are trained.
  int64_t tail_layers = 0;
};
// The number of periods that are partitioned.
inline constexpr int64_t kPeriods = 3;

// Returns which period of the cycle a partitioned layer is in; -1 if none, as
// for layer -1.
int64_t period_of(const LayerCycle& cycle, int64_t layer);
// Returns the partitioned layer that stands for a layer of the model.
int64_t layer_for(const LayerCycle& cycle, int64_t layer);

// Items of the layers of each partitioned period, with the layer's index in
// the period.
template <typename Item>
struct PeriodItems {
  std::array<std::vector<std::pair<int64_t, Item>>, kPeriods> of;

  void add(const LayerCycle& cycle, int64_t layer, Item item) {
    const int64_t period = period_of(cycle, layer);
    if (period < 0 || period >= kPeriods) return;
    nth(of, period).emplace_back((layer - cycle.begin) % cycle.period, item);
  }
  // Returns whether the second period has what a neighbour has.
  bool is_steady() const { return of[1] == of[2] || of[0] == of[1]; }
};

struct RepeatedProgram {
  Program program;                  // for the model's graph
  std::optional<LayerCycle> cycle;  // none: all layers are partitioned
  int64_t layers = 0;               // how many are partitioned
};

// For tests: whether layers that are alike may be left out.
enum class EqualLayers : uint8_t { Once, Each };

// Returns whether the second of the partitioned periods does what a neighbour
// does, in what the caller cares about besides the layouts of the values that
// layers hand on.
using IsSteady = std::function<bool(const Program&, const LayerCycle&)>;

// Returns nothing, with the reason reported, on errors of write_forward,
// build_graph and place_values, and with SP017 if bytes cannot be counted.
std::optional<RepeatedProgram> partition_layers(const ForwardGraphs& model,
                                                const ForwardPlan& of,
                                                const IsSteady& is_steady,
                                                EqualLayers equal_layers,
                                                Diagnostics& diags);

}  // namespace shardplan
