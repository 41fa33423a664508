// SPDX-License-Identifier: Apache-2.0
// From one layout of a value to another, by the cheapest list of collectives.
//
// Found by a shortest-path search over layouts: gathering the minor axes of a
// dimension, slicing, moving axes from one dimension to another (all-to-all),
// reordering axes (permute), reduce-scatter and all-reduce of partial sums.
// Cost is bytes that a device sends, then the number of collectives.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <tuple>
#include <vector>

#include "comm/schedule.h"
#include "spmd/layout.h"

namespace shardplan {

struct ReshardStep {
  bool slice = false;  // else `kind`
  CollectiveKind kind = CollectiveKind::AllGather;
  AxisNames axes;
  int dim = 0;
  int grown = 0;
  Layout after;
};

struct Reshard {
  std::vector<ReshardStep> steps;
  // That a device sends, of float32: a run in another type moves other bytes,
  // but a common factor changes no choice.
  double bytes = 0;
};

// REQUIRES: `from` covers `to`; both are layouts of `shape`.
Reshard plan_reshard(const Mesh& mesh, const Shape& shape, const Layout& from,
                     const Layout& to);

// Remembers answers: models repeat their layers.
class ReshardCache {
 public:
  explicit ReshardCache(const Mesh& mesh) : mesh_(&mesh) {}
  const Reshard& find(const Shape& shape, const Layout& from, const Layout& to);

 private:
  const Mesh* mesh_;
  std::map<std::tuple<Shape, Layout, Layout>, Reshard> known_;
};

}  // namespace shardplan
