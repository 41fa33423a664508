// SPDX-License-Identifier: Apache-2.0
// Placements of PyTorch's DTensor, one per mesh dimension, as text:
//
//   [Replicate(), Shard(0)]        (_StridedShard(0, split_factor=4), Shard(0))
//
// They are the transpose of a PartitionSpec, which has axes per dimension of
// the tensor. Mesh dimensions that shard the same dimension do so from left to
// right, so the leftmost is the major axis. `_StridedShard` at mesh dimension i
// means that later mesh dimensions, which are then more major, have already
// split the tensor into `split_factor` parts. Source: PyTorch 2.9,
// torch/distributed/tensor/placement_types.py.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
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
  int64_t dim = 0;  // tensor dimension; if negative, -1 is the last
  int64_t split_factor = 1;
  Span where;
};

// Dimensions beyond this are refused: PyTorch has at most 64.
inline constexpr int64_t kMaxPlacementDim = 64;

// Reads a list or tuple of placements that begins at `tokens[at]`, or a single
// placement, and moves `at` past it. Names may be qualified, or shortened to
// `S` and `R`. Reports SP002. Partial() is SP014: a parameter stores values,
// not partial sums.
std::optional<std::vector<MeshPlacement>> parse_placements(
    std::span<const PythonToken> tokens, size_t& at, Diagnostics& diags);

// Reads a dotted name that begins at `tokens[at]`, moves `at` past it, and
// returns its last word: "Shard" for `dt.Shard`.
std::string read_last_name(std::span<const PythonToken> tokens, size_t& at);

struct PlacedSpec {
  PartitionSpec spec;
  bool from_last = false;  // see Rule::from_last
  std::vector<Span> dim_where;
};

// Returns the spec that is equivalent to placements on these mesh dimensions; a
// size of -1 is unknown. Reports SP002 if the numbers of placements and
// dimensions differ, SP014 if no order of axes is equivalent to a
// `_StridedShard`, or if dimensions are counted from both ends.
std::optional<PlacedSpec> spec_of_placements(
    std::span<const MeshPlacement> placements,
    std::span<const AxisRequest> mesh, Span where, Diagnostics& diags);

// Returns the placement on one mesh dimension: "Shard(0)" or "Replicate()".
std::string placement_text(const PartitionSpec& spec, const AxisName& axis);

}  // namespace shardplan
