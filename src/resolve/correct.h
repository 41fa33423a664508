// SPDX-License-Identifier: Apache-2.0
// Correction: making a spec legal for a shape on a mesh, and saying what that
// took away.
//
// Properties: only removes axes, but for `rows`, which moves some to dimension
// 0; idempotent; a legal spec stays as it was but for its form (padded with
// null to the rank, all-null is `[]`). Source: eformer's
// get_corrected_named_sharding (drop), MaxText's
// adjust_pspec_for_indivisible_shapes (prefix), GSPMD (pad), torch.chunk,
// PyTorch's FSDPParam (rows).
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "core/mesh.h"
#include "core/plan.h"
#include "core/spec.h"
#include "core/types.h"

namespace shardplan {

struct CorrectedSpec {
  PartitionSpec spec;
  std::vector<Correction> corrections;  // by dimension; SP202, SP210 last
};

// Steps, in order: entries beyond the rank go (SP104); declared axes that the
// mesh lacks are left out without a word; a dimension with an unknown axis
// becomes unsharded (SP201); an indivisible one is treated as `policy` says
// (SP203; SP303 for what moves); a mesh axis used before goes, with the
// dimension that repeats it (SP202); a dimension whose axes are of another view
// than those before it becomes unsharded (SP210). `taken` are axes that are
// used already: what the parameter is dealt out over. `view` is the view that
// the spec is for: it names no axis of another (SP210). Where it is empty, the
// spec may be of any view, but a declared axis is one of the mesh, and missing
// where only a view has it.
CorrectedSpec correct(const PartitionSpec& requested, const Shape& shape,
                      const Mesh& mesh, const AxisNames& declared_axes,
                      OnIndivisible policy, const AxisNames& taken = {},
                      std::string_view view = {});

// The view that a placement's spec was asked for, as `view` above: that of its
// rule, else of the axes that it has or lost; empty: the mesh.
std::string_view asked_view(const Plan& plan, const Placement& placement);

// What a parameter of the plan asked for, corrected anew under another policy
// or with other declared axes.
CorrectedSpec corrected_again(const Plan& plan, const Placement& placement,
                              const AxisNames& declared_axes,
                              OnIndivisible policy);

// A spec for an array that no rule mentions: large dimensions get large axes.
//
// Source: eformer's auto_partition_spec. Dimensions are taken by size, largest
// first (or smallest first), and each gets the first axis left that divides it.

struct AutoSpecOptions {
  // What dimensions may get, in order of preference; several names are taken
  // together. Empty: the mesh's axes, largest first.
  std::span<const AxisNames> choices;
  // Arrays of fewer elements are replicated; 0: fewer than there are devices.
  int64_t min_size = 0;
  bool smallest_first = false;
};

// One entry per dimension; P() where the array is too small.
PartitionSpec auto_spec(const Shape& shape, const Mesh& mesh,
                        const AutoSpecOptions& options);

}  // namespace shardplan
