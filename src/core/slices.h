// SPDX-License-Identifier: Apache-2.0
// Slices: equal parts of a mesh that are joined by a slower network (DCN), each
// joined in itself by a faster one (ICI).
//
// Every axis is cut into as many pieces as it crosses slices, so the product of
// these numbers is the number of slices. Sizes come in two ways: sizes within a
// slice beside those over slices, which are multiplied axis by axis (MaxText's
// ici_ and dcn_ parallelism; jax's create_hybrid_device_mesh), or sizes of the
// whole mesh, of which the first axis that N divides is cut (eformer's
// create_mesh under MEGASCALE_NUM_SLICES).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/diagnostic.h"
#include "core/mesh.h"

namespace shardplan {

struct Slices {
  // Per axis of the mesh, how many slices it crosses; 1: it stays within one.
  std::vector<int64_t> crossed;

  int64_t count() const;
  bool operator==(const Slices&) const = default;
};

struct SlicedMesh {
  Mesh mesh;                     // over all slices
  std::optional<Slices> slices;  // where several are known or asked for
};

// Combines sizes within a slice with `dcn`, sizes over slices: empty, or one
// per axis of `axes` in the same order. One size of each may be -1: the former
// takes what `devices` and the others leave, the latter what `slices` leaves;
// without `slices` there are as many as the sizes over them say, a -1 counting
// as 1. Without `dcn`, `axes` are sizes of the whole mesh. SP007 with the
// numbers when a division leaves a rest, and what make_mesh reports.
std::optional<SlicedMesh> make_sliced_mesh(const std::vector<AxisRequest>& axes,
                                           const std::vector<AxisRequest>& dcn,
                                           std::optional<int64_t> devices,
                                           std::optional<int64_t> slices,
                                           Span where, Diagnostics& diags);

// "2 slices (fsdp crosses 2)"
std::string slices_text(const Mesh& mesh, const Slices& slices);

}  // namespace shardplan
