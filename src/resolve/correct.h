// SPDX-License-Identifier: Apache-2.0
// Correction: makes a spec legal for a shape on a mesh and reports what that
// removed.
//
// Properties: correction only removes axes, except under `rows`, which moves
// some to dimension 0; it is idempotent; a legal spec changes only in form (it
// is padded with null to the rank, and a spec of nulls only becomes `[]`).
// Sources: eformer's get_corrected_named_sharding (drop), MaxText's
// adjust_pspec_for_indivisible_shapes (prefix), GSPMD (pad), torch.chunk,
// PyTorch's FSDPParam (rows).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/mesh.h"
#include "core/plan.h"
#include "core/spec.h"
#include "core/types.h"

namespace shardplan {

// Returns "fsdp=4,tp=2".
std::string sizes_text(const Mesh& mesh, const AxisNames& axes);
// Returns "the mesh" or "view `experts`".
std::string named_view(std::string_view view);
// Returns whether the shards over these axes divide the size.
bool is_divisible(int64_t size, const AxisNames& axes, const Mesh& mesh);
// Returns the axis over which the parameter is placed whole, if there is one.
AxisNames dealt_axes(const Placement& placement);

struct CorrectedSpec {
  PartitionSpec spec;
  std::vector<Correction> corrections;  // by dimension; SP202 and SP210 last
};

// Corrects `requested` in these steps: removes entries beyond the rank (SP104);
// removes declared axes that the mesh lacks, without a correction; unshards a
// dimension with an unknown axis (SP201); handles an indivisible dimension as
// `policy` says (SP203; SP303 for an axis that moves to dimension 0); removes a
// repeated mesh axis and unshards the dimension that repeats it (SP202);
// unshards a dimension whose axes belong to another view than those before it
// (SP210). `taken` are axes that are already in use because the parameter is
// placed whole over them. `view` is the view that the spec is for, so it may
// name no axis of another view (SP210). If `view` is empty, the spec may be of
// any view, but a declared axis is then an axis of the mesh, and is missing if
// only a view has it.
CorrectedSpec correct(const PartitionSpec& requested, const Shape& shape,
                      const Mesh& mesh, const AxisNames& declared_axes,
                      OnIndivisible policy, const AxisNames& taken = {},
                      std::string_view view = {});

// Returns the view that a placement's spec was requested for, in the form of
// `view` above: that of its rule, else that of the axes that it has or lost;
// empty means the mesh.
std::string_view requested_view(const Plan& plan, const Placement& placement);

// Corrects a parameter's requested spec again, under another policy or with
// other declared axes.
CorrectedSpec corrected_again(const Plan& plan, const Placement& placement,
                              const AxisNames& declared_axes,
                              OnIndivisible policy);

// Automatic specs for arrays that no rule mentions: large dimensions get large
// axes.
//
// Source: eformer's auto_partition_spec. It goes through the dimensions by
// size, largest first (or smallest first), and gives each the first remaining
// axis that divides it.

struct AutoSpecOptions {
  // The axes that a dimension may get, in order of preference; several names in
  // one choice shard a dimension together. Empty: the mesh's axes, largest
  // first.
  std::span<const AxisNames> choices = {};
  // Arrays of fewer elements are replicated; 0 stands for the number of
  // devices.
  int64_t min_size = 0;
  bool smallest_first = false;
};

// Returns one entry per dimension, or P() if the array is too small.
PartitionSpec auto_spec(const Shape& shape, const Mesh& mesh,
                        const AutoSpecOptions& options);

}  // namespace shardplan
