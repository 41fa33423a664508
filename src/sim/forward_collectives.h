// SPDX-License-Identifier: Apache-2.0
// The collectives of a model's forward pass, found without running it: the
// graph is partitioned as for a run (spmd/partition.h), and what it sends is
// counted and priced.
// Layers that are alike are counted, not partitioned (sim/repeated_layers.h).
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

// What is sent in one pass for the same reason, over all layers.
struct CollectiveUse {
  CollectiveKind kind = CollectiveKind::AllGather;
  AxisNames axes;  // major to minor
  Cause cause = Cause::Implicit;
  // What is sent: a value, or the parameter that it is of; layers folded.
  std::string what;
  // It is the sum that a product with the parameter `what` leaves in parts.
  bool after_product = false;
  // Parameters (of the manifest) that decide it, of the first layer: what is
  // sent, is multiplied by or is to be multiplied by.
  std::vector<std::string> parameters;
  int64_t count = 0;
  int64_t bytes_per_device = 0;  // on average over the devices, rounded up

  bool operator==(const CollectiveUse&) const = default;
};

struct ForwardCollectives {
  std::vector<CollectiveUse> uses;  // in the order in which they come
  int64_t partitioned = 0;          // layers
};

// Empty, with the reason reported: errors as those of Family::describe,
// build_graph and place_values, and SP017 where bytes could not be counted.
std::optional<ForwardCollectives> forward_collectives(
    ForwardGraphs& model, const ForwardPlan& plan, Diagnostics& diags,
    AlikeLayers alike = AlikeLayers::Once);

}  // namespace shardplan
