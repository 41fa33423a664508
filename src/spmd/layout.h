// SPDX-License-Identifier: Apache-2.0
// Layout: how a value is distributed over the devices while a program runs,
// that is, which mesh axes shard which dimension, and over which axes devices
// hold partial sums.
//
// Invariants: `spec` has one entry per dimension; no axis occurs twice, in
// `spec` or in `partial`; axes of size 1 do not occur. Every dimension is
// divisible by the product of its axes, except in a weight as it is stored,
// which is gathered over the axes that do not divide it before anything reads
// it.
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
  // Returns the layout once partial sums are added up.
  Layout without_partial_sums() const { return {spec, {}, Reduction::Sum}; }
};

// Returns the unsharded layout of a rank.
Layout replicated(size_t rank);
// Returns a spec padded to the rank, without axes of size 1. An axis of a view
// becomes the sub-axes that it consists of. REQUIRES: `mesh` has no views, or
// sub_axes() made it (core/views.h).
Layout layout_of(const Mesh& mesh, const PartitionSpec& spec, size_t rank);
// Returns the shape of a shard. Shards of different sizes are padded to the
// largest.
Shape local_shape(const Mesh& mesh, const Layout& layout, const Shape& shape);
// Returns the last axes of a dimension, which cut it into parts of different
// sizes: ceil(rows / parts) each while there are rows. Empty if all parts are
// equal.
AxisNames uneven_axes(const Mesh& mesh, const AxisNames& axes, int64_t size);
// Returns whether no dimension has uneven axes.
bool is_even(const Mesh& mesh, const Layout& layout, const Shape& shape);
// Returns the layout without its uneven axes, or unchanged if it has none.
Layout without_uneven(const Mesh& mesh, Layout layout, const Shape& shape);
// Returns every axis that shards a dimension or along which partial sums are
// held.
AxisNames axes_in_use(const Layout& layout);
// Returns whether all of `some`, or any of them, are among the axes.
bool contains_all(const AxisNames& axes, const AxisNames& some);
bool contains_any(const AxisNames& axes, const AxisNames& some);
// Returns whether `from` is partial over every axis that `to` is partial over.
bool covers(const Layout& from, const Layout& to);
// Returns the axes in the order of the mesh, major to minor.
AxisNames in_mesh_order(const Mesh& mesh, const AxisNames& axes);
// "P(fsdp, None) partial over tp"
std::string layout_text(const Layout& layout);

// Device groups: which devices take part in a collective together, and which
// device gets its shard from which in a permute.

// Returns one group per combination of the other axes' coordinates. Within a
// group, devices are in the order of ranks: `axes` major to minor.
std::vector<std::vector<int>> device_groups(const Mesh& mesh,
                                            const AxisNames& axes);

// Returns the ranks along `axes`, of which the last axis is the fastest.
Ranks ranks_along(const Mesh& mesh, const AxisNames& axes);

// Returns, per device, the device whose shard under `from` is its own under
// `to`. Every device sends to exactly one; a device that already holds what it
// needs keeps it. REQUIRES: both layouts have the same local shape and the same
// partial axes.
std::vector<int> permute_sources(const Mesh& mesh, const Layout& from,
                                 const Layout& to);

// Returns, per dimension, the index of the shard that a device holds.
std::vector<int64_t> shard_indices(const Mesh& mesh, const Layout& layout,
                                   int64_t device);

// FactorAxes: what a spec means for the indices that an operation runs over,
// and the reverse.

using FactorAxes = std::vector<AxisNames>;  // per factor, major to minor

// Returns the axes of a tensor's dimensions, by the factor of the rule that
// they cut. Axes that would cut across factors, or cut a factor that may not be
// sharded, are left out.
FactorAxes factor_axes(const Mesh& mesh, const ShardingRule& rule,
                       const std::vector<DimFactors>& dims,
                       const PartitionSpec& spec);

// Returns the spec of a tensor whose factors have these axes. Returns nothing
// if no spec can say it: a minor factor is cut although the major one is not
// cut into single indices.
std::optional<PartitionSpec> spec_of(const Mesh& mesh, const ShardingRule& rule,
                                     const std::vector<DimFactors>& dims,
                                     const FactorAxes& axes);

// Reshard: converts one layout of a value to another by the cheapest list of
// collectives.
//
// A shortest-path search over layouts finds the list. Its moves are gathering
// the minor axes of a dimension, slicing, moving axes from one dimension to
// another (all-to-all), reordering axes (permute), and reduce-scatter and
// all-reduce of partial sums. The cost is the bytes that a device sends, then
// the number of collectives, then that of slices.

struct ReshardStep {
  bool slice = false;  // else a collective of this `kind`
  CollectiveKind kind = CollectiveKind::AllGather;
  AxisNames axes;
  int dim = 0;
  int grown = 0;
  Layout after;
};

struct Reshard {
  std::vector<ReshardStep> steps = {};
  // Bytes that a device sends, in float32. A run in another type moves other
  // bytes, but a common factor changes no choice.
  double bytes = 0;
};

// Returns the cheapest conversion. REQUIRES: `from` covers `to`; both are
// layouts of `shape`.
Reshard plan_reshard(const Mesh& mesh, const Shape& shape, const Layout& from,
                     const Layout& to);

// ReshardCache: remembers conversions, since models repeat their layers.
class ReshardCache {
 public:
  explicit ReshardCache(const Mesh& mesh) : mesh_(&mesh) {}
  const Reshard& find(const Shape& shape, const Layout& from, const Layout& to);

 private:
  // Lookups compare references, so that a hit copies nothing.
  using Key = std::tuple<Shape, Layout, Layout>;
  using Lookup = std::tuple<const Shape&, const Layout&, const Layout&>;
  struct Less {
    using is_transparent = void;
    static Lookup view(const Key& key) {
      return {std::get<0>(key), std::get<1>(key), std::get<2>(key)};
    }
    static Lookup view(const Lookup& lookup) { return lookup; }
    bool operator()(const auto& a, const auto& b) const {
      return view(a) < view(b);
    }
  };

  const Mesh* mesh_;
  std::map<Key, Reshard, Less> known_;
};

}  // namespace shardplan
