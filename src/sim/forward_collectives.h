// SPDX-License-Identifier: Apache-2.0
// ForwardCollectives: the collectives of a model's forward pass, found without
// running it. The graph is partitioned as for a run (spmd/partition.h), and its
// collectives are counted and priced. Layers that are alike are counted, not
// partitioned (sim/repeated_layers.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/diagnostic.h"
#include "core/manifest.h"
#include "core/plan.h"
#include "core/rules.h"
#include "graph/elementwise.h"
#include "resolve/name_resolution.h"
#include "sim/repeated_layers.h"
#include "spmd/program.h"

namespace shardplan {

// Collectives of one pass that are sent for the same reason, over all layers.
struct CollectiveUse {
  CollectiveKind kind = CollectiveKind::AllGather;
  AxisNames axes;  // major to minor
  Cause cause = Cause::Implicit;
  // The value that is sent, or the parameter that it comes from; layers folded.
  std::string what = {};
  // The collective sums what a product with the parameter `what` leaves in
  // parts.
  bool after_product = false;
  // Parameters (of the manifest) that cause it, in the first layer: the one
  // that is sent, and those that the sent value was or will be multiplied by.
  std::vector<std::string> parameters = {};
  int64_t count = 0;
  int64_t bytes_per_device = 0;  // on average over devices, rounded up

  bool operator==(const CollectiveUse&) const = default;
};

struct ForwardCollectives {
  std::vector<CollectiveUse> uses;  // in program order
  int64_t partitioned = 0;          // layers that were partitioned
};

// Returns nothing, with the reason reported, on errors of write_forward,
// build_graph and place_values, and with SP017 if bytes cannot be counted.
std::optional<ForwardCollectives> forward_collectives(
    ForwardGraphs& model, const ForwardPlan& plan, Diagnostics& diags,
    EqualLayers equal_layers = EqualLayers::Once);

}  // namespace shardplan
