// SPDX-License-Identifier: Apache-2.0
// Layout: how a value lies on the devices while a program runs: which mesh axes
// shard which dimension, and over which axes devices hold parts of a sum.
//
// Invariants: `spec` has one entry per dimension; no axis occurs twice, in
// `spec` or in `partial`; axes of size 1 do not occur; every dimension is
// divisible by the product of its axes.
#pragma once

#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

#include "core/mesh.h"
#include "core/spec.h"
#include "core/types.h"

namespace shardplan {

enum class Reduction : uint8_t { Sum, Max };

struct Layout {
  PartitionSpec spec;
  AxisNames partial;  // in mesh order
  Reduction reduction = Reduction::Sum;

  bool operator==(const Layout&) const = default;
  auto tie() const { return std::tie(spec.dims, partial, reduction); }
  bool operator<(const Layout& other) const { return tie() < other.tie(); }
};

bool contains(const AxisNames& axes, const AxisName& axis);

// Unsharded, of a rank.
Layout replicated(size_t rank);
// A spec padded to the rank, without axes of size 1.
Layout layout_of(const Mesh& mesh, const PartitionSpec& spec, size_t rank);
Shape local_shape(const Mesh& mesh, const Layout& layout, const Shape& shape);
// Every axis that shards a dimension or along which parts are held.
std::vector<AxisName> axes_in_use(const Layout& layout);
// Whether every part of a sum that `to` has is there in `from`.
bool covers(const Layout& from, const Layout& to);
// Those axes, major to minor.
AxisNames in_mesh_order(const Mesh& mesh, const AxisNames& axes);
// "P(fsdp, None) partial over tp"
std::string layout_text(const Layout& layout);

}  // namespace shardplan
