// SPDX-License-Identifier: Apache-2.0
// Placements of PyTorch's DTensor, one per mesh dimension, as text:
//
//   [Replicate(), Shard(0)]        (_StridedShard(0, split_factor=4), Shard(0))
//
// They are the transpose of a PartitionSpec, which has axes per dimension of
// the tensor. Mesh dimensions that shard one dimension do so from the left to
// the right, so the left one is the major axis. `_StridedShard` at mesh
// dimension i says that the tensor is cut into `split_factor` parts before: by
// later mesh dimensions, which are then more major. Source: PyTorch 2.9,
// torch/distributed/tensor/placement_types.py.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/diagnostic.h"
#include "base/source.h"
#include "core/mesh.h"
#include "core/spec.h"
#include "syntax/python.h"

namespace shardplan {

enum class MeshPlacementKind : uint8_t { Replicate, Shard, Strided };

struct MeshPlacement {
  MeshPlacementKind kind = MeshPlacementKind::Replicate;
  int64_t dim = 0;  // of the tensor; negative: from the last, -1 the last
  int64_t split_factor = 1;
  Span where;
};

// Dimensions beyond this are refused: PyTorch has at most 64.
inline constexpr int64_t kMaxPlacementDim = 64;

// Reads a list or tuple of placements that begins at `tokens[at]`, or a single
// placement, and moves `at` behind it. Names may be qualified and shortened to
// `S` and `R`. Reports SP002; Partial() is SP014: a parameter holds values, not
// summands.
std::optional<std::vector<MeshPlacement>> parse_placements(
    std::span<const PythonToken> tokens, size_t& at, Diagnostics& diags);

struct PlacedSpec {
  PartitionSpec spec;
  bool from_last = false;  // as in Rule
  std::vector<Span> dim_where;
};

// The spec that placements on these mesh dimensions mean, sizes -1 being
// unknown. Reports SP002 where there are not as many placements as dimensions,
// SP014 where no order of axes is that of a `_StridedShard`, or dimensions are
// counted from both ends.
std::optional<PlacedSpec> spec_of_placements(
    std::span<const MeshPlacement> placements,
    std::span<const AxisRequest> mesh, Span where, Diagnostics& diags);

}  // namespace shardplan
