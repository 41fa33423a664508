// SPDX-License-Identifier: Apache-2.0
// Layout: how a value lies on the devices while a program runs: which mesh axes
// shard which dimension, and over which axes devices hold partial sums.
//
// Invariants: `spec` has one entry per dimension; no axis occurs twice, in
// `spec` or in `partial`; axes of size 1 do not occur; every dimension is
// divisible by the product of its axes, but for a weight as it is stored, which
// is gathered over the axes that do not divide it before anything reads it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "comm/collective.h"
#include "core/mesh.h"
#include "core/spec.h"
#include "core/types.h"
#include "graph/op.h"

namespace shardplan {

enum class Reduction : uint8_t { Sum, Max };

struct Layout {
  PartitionSpec spec;
  AxisNames partial;  // in mesh order
  Reduction reduction = Reduction::Sum;

  bool operator==(const Layout&) const = default;
  auto tie() const { return std::tie(spec.dims, partial, reduction); }
  bool operator<(const Layout& other) const { return tie() < other.tie(); }
  // Once its partial sums are added up.
  Layout settled() const { return {spec, {}, Reduction::Sum}; }
};

// Unsharded, of a rank.
Layout replicated(size_t rank);
// A spec padded to the rank, without axes of size 1. An axis of a view is the
// sub-axes that it consists of. REQUIRES: `mesh` has no views, or was made by
// sub_axes (core/views.h).
Layout layout_of(const Mesh& mesh, const PartitionSpec& spec, size_t rank);
// The shape of a shard. Shards that differ are padded to the largest.
Shape local_shape(const Mesh& mesh, const Layout& layout, const Shape& shape);
// The last axes of a dimension, which cut it into parts of different sizes:
// ceil(rows / parts) each while there are rows. Empty where all parts are
// equal.
AxisNames uneven_axes(const Mesh& mesh, const AxisNames& axes, int64_t size);
// Without its uneven axes: the layout itself where it has none.
Layout without_uneven(const Mesh& mesh, Layout layout, const Shape& shape);
// Every axis that shards a dimension or along which parts are held.
AxisNames axes_in_use(const Layout& layout);
// Whether every part of a sum that `to` has is there in `from`.
bool covers(const Layout& from, const Layout& to);
// Those axes of the mesh, major to minor.
AxisNames in_mesh_order(const Mesh& mesh, const AxisNames& axes);
// "P(fsdp, None) partial over tp"
std::string layout_text(const Layout& layout);

// Which devices take part in a collective together, and which device gets its
// shard from which when axes change places.

// One group per combination of the other axes' coordinates; within a group
// devices stand in the order of ranks: `axes` major to minor.
std::vector<std::vector<int>> device_groups(const Mesh& mesh,
                                            const AxisNames& axes);

// How many ranks that are, the last axis being the fast one.
Ranks ranks_along(const Mesh& mesh, const AxisNames& axes);

// Per device, the one whose shard under `from` is its own under `to`. Every
// device sends to exactly one; those that hold what they need keep it.
// REQUIRES: both have the same local shape and the same partial axes.
std::vector<int> permute_sources(const Mesh& mesh, const Layout& from,
                                 const Layout& to);

// The shard of every dimension that a device holds.
std::vector<int64_t> shard_indices(const Mesh& mesh, const Layout& layout,
                                   int64_t device);

// Between dimensions and factors: what a spec means for the indices that an
// operation runs over, and the reverse.

using FactorAxes = std::vector<AxisNames>;  // per factor, major to minor

// The axes of a tensor's dimensions, given to the factors that they cut; axes
// that would cut across factors, or a factor that may not be sharded, are left
// out. One entry per factor of the rule.
FactorAxes factor_axes(const Mesh& mesh, const ShardingRule& rule,
                       const std::vector<DimFactors>& dims,
                       const PartitionSpec& spec);

// The spec of a tensor whose factors have these axes. Empty where that cannot
// be: a minor factor cut though the major one is not cut into single indices.
std::optional<PartitionSpec> spec_of(const Mesh& mesh, const ShardingRule& rule,
                                     const std::vector<DimFactors>& dims,
                                     const FactorAxes& axes);

// From one layout of a value to another, by the cheapest list of collectives.
//
// Found by a shortest-path search over layouts: gathering the minor axes of a
// dimension, slicing, moving axes from one dimension to another (all-to-all),
// reordering axes (permute), reduce-scatter and all-reduce of partial sums.
// Cost is bytes that a device sends, then the number of collectives.

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
  // Lookups compare references, so that a hit copies nothing.
  using Key = std::tuple<Shape, Layout, Layout>;
  using Sought = std::tuple<const Shape&, const Layout&, const Layout&>;
  struct Less {
    using is_transparent = void;
    static Sought view(const Key& key) {
      return {std::get<0>(key), std::get<1>(key), std::get<2>(key)};
    }
    static Sought view(const Sought& sought) { return sought; }
    bool operator()(const auto& a, const auto& b) const {
      return view(a) < view(b);
    }
  };

  const Mesh* mesh_;
  std::map<Key, Reshard, Less> known_;
};

}  // namespace shardplan
