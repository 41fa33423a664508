// SPDX-License-Identifier: Apache-2.0
// Devices one by one: what each of them holds, by arithmetic on its number.
//
// The judge of everything that is counted over meshes with views. It knows how
// the axes were drawn and nothing of Mesh: along an axis a device is at its
// number, divided by the sizes of all axes behind it in the same list, modulo
// the axis's size.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/manifest.h"
#include "core/mesh.h"
#include "core/plan.h"
#include "core/rules.h"

namespace shardplan::testing {

// The axes of a mesh and of its views, as they were drawn.
struct ViewedAxes {
  std::vector<Axis> own;
  std::vector<MeshView> views;
  std::string pipeline;  // an axis that all of them have; empty: none
  int64_t stages = 1;

  int64_t devices() const;
  Mesh mesh() const { return Mesh(own, views); }
  // Those of the view; of the mesh where the name is empty.
  const std::vector<Axis>& of(std::string_view view) const;
  // Whether all of them can be cut into axes that they have in common.
  bool have_parts() const;
};

// A mesh and one or two views of at most 72 devices: any factors of their
// number in any order, so that views often have no parts in common.
ViewedAxes draw_viewed_axes(bool pipeline);

// REQUIRES: one of the axes has the name.
int64_t coordinate_of(const std::vector<Axis>& axes, std::string_view name,
                      int64_t device);

// What a device holds of a tensor along one dimension.
struct HeldRows {
  int64_t shard = 0;  // which of the shards
  int64_t begin = 0;
  int64_t end = 0;
  int64_t stored = 0;  // rows, with those beyond the end of the tensor

  bool operator==(const HeldRows&) const = default;
};

// By dimension of `shape`. REQUIRES: the spec names axes of the list.
std::vector<HeldRows> rows_on(const std::vector<Axis>& axes,
                              const PartitionSpec& spec, const Shape& shape,
                              OnIndivisible policy, int64_t device);
// Whether an expert that is dealt out over an axis is on the device.
bool has_expert(const std::vector<Axis>& axes, std::string_view axis,
                int64_t experts, int64_t expert, int64_t device);

// The number after `experts.` in a name; -1 where there is none.
int64_t expert_in(std::string_view name);
// The number after `layers.`; -1 where there is none.
int64_t layer_in(std::string_view name);

// An embedding, layers of attention with stacked and with separate experts,
// and a head. Some layers have other numbers of experts, and some experts a
// tensor that others lack.
Manifest draw_experts_model(int64_t layers);

// Rules for it, whose specs name axes of one list each, other than the
// pipeline's, and which deal separate experts out.
RuleSet draw_view_rules(const ViewedAxes& axes);

}  // namespace shardplan::testing
