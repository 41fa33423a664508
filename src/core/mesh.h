// SPDX-License-Identifier: Apache-2.0
// Mesh: a grid of devices with named axes, listed major to minor, and the views
// of that grid.
//
// A device id is the row-major index of the device's coordinates: on
// `fsdp=4,tp=2`, device 3 is fsdp=1, tp=1. A view gives the same devices, in
// the same order, other axis names and sizes: on `dp=4,tp=2` with the view
// `ep=4,edp=2`, device 3 is ep=1, edp=1. Mixture-of-experts models shard
// attention over the mesh and experts over a view (Megatron's parallel folding,
// torchtitan's and vLLM's expert parallelism). The mesh itself counts as a
// view, and the axes of a spec all belong to one view.
//
// Invariant: at least one axis, unique names in each view, sizes >= 1, at most
// 2^40 devices; the sizes of every view have the same product. An axis name
// shared by several views has the same size and the same devices in each of
// them.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/diagnostic.h"
#include "base/source.h"
#include "core/axis_name.h"

namespace shardplan {

struct Axis {
  AxisName name;
  int64_t size = 1;

  bool operator==(const Axis&) const = default;
};

inline constexpr int64_t kMaxDevices = int64_t{1} << 40;

// Returns whether the text matches [A-Za-z_][A-Za-z0-9_.-]*.
bool is_axis_name(std::string_view text);

struct MeshView {
  std::string name;
  std::vector<Axis> axes;

  bool operator==(const MeshView&) const = default;
};

class Mesh {
 public:
  // REQUIRES: the invariant above; make_mesh and add_view check users' axes.
  explicit Mesh(std::vector<Axis> axes, std::vector<MeshView> views = {});

  // The mesh's own axes, without those of its views.
  const std::vector<Axis>& axes() const { return parts_->axes; }
  const std::vector<MeshView>& views() const { return parts_->views; }
  // The mesh's own axes, then the axes that exist only in views.
  const std::vector<Axis>& all_axes() const { return parts_->all_axes; }
  int64_t devices() const { return parts_->devices; }
  // The index of an axis in all_axes().
  std::optional<size_t> find(const AxisName& name) const;
  // Returns 1 for an axis that is in neither the mesh nor a view.
  int64_t size_of(const AxisName& name) const;
  // The distance between the ids of neighbours along an axis: the product of
  // the sizes of the axes after it. REQUIRES: an index in all_axes().
  int64_t stride(size_t axis) const { return parts_->strides[axis]; }
  // The coordinates of a device, one per axis of all_axes(). REQUIRES: 0 <=
  // device < devices().
  std::vector<int64_t> coordinates(int64_t device) const;

  // The axes of the view with this name; the mesh's own for an empty name.
  // REQUIRES: has_view(view).
  const std::vector<Axis>& axes_of(std::string_view view) const;
  bool has_view(std::string_view view) const;  // an empty name is the mesh
  // Returns whether the view has the axis. REQUIRES: has_view(view).
  bool has(std::string_view view, const AxisName& axis) const;
  // The first view that has all of these axes. The mesh, named "", comes first.
  // Axes that no view has are ignored. No value if no single view has them all.
  std::optional<std::string_view> view_of(const AxisNames& axes) const;

  bool operator==(const Mesh& other) const {
    return parts_ == other.parts_ ||
           (axes() == other.axes() && views() == other.views());
  }

 private:
  // Shared by copies, since every plan and candidate has one.
  struct Parts {
    std::vector<Axis> axes;
    std::vector<MeshView> views;
    std::vector<Axis> all_axes;
    std::vector<int64_t> strides;  // per axis of all_axes
    int64_t devices = 1;
  };
  std::shared_ptr<const Parts> parts_;
};

// An axis as a user wrote it; size -1 means "the rest of the devices".
struct AxisRequest {
  AxisName name;
  int64_t size = 1;
  Span where;  // the whole entry
  Span name_where;
  Span size_where;
};

// Reads `fsdp=4,tp=2` (or `fsdp:4,tp:2`) from `begin` to the end of the source.
std::optional<std::vector<AxisRequest>> parse_mesh_text(
    const SourceFile& source, uint64_t begin, Diagnostics& diags);
inline std::optional<std::vector<AxisRequest>> parse_mesh_text(
    const SourceFile& source, Diagnostics& diags) {
  return parse_mesh_text(source, 0, diags);
}

// Checks names, sizes and their product, and resolves one -1 from `devices`
// (SP007). Reports SP205 if a mesh without a -1 does not have `devices`
// devices.
std::optional<Mesh> make_mesh(const std::vector<AxisRequest>& axes,
                              std::optional<int64_t> devices, Span where,
                              Diagnostics& diags);

std::string axes_text(std::span<const Axis> axes);  // "fsdp=4,tp=2"
std::string mesh_text(const Mesh& mesh);  // the mesh's own axes, as above

// EasyDeL's mesh syntax: a list of sizes for a fixed list of names,
// `1,-1,1,1,1`, or sizes by name, `dp:2,tp:4`, that use every name, in the
// order of the text.
//
// Source: eformer's create_mesh and parse_mesh_from_string. As there, blanks
// may surround numbers, and any negative size means the rest of the devices.

// Prepares axes for make_mesh. SP007 if the number of sizes differs from the
// number of names.
std::optional<std::vector<AxisRequest>> axes_of_dims(
    std::span<const int64_t> dims, const AxisNames& names, Span where,
    Diagnostics& diags);

// SP007 if a size is not a number, a name is not one of `names`, or one of
// `names` is missing.
std::optional<std::vector<AxisRequest>> parse_mesh_dims(
    const SourceFile& source, const AxisNames& names, Diagnostics& diags);

// Slices: equal parts of a mesh that are connected by a slower network (DCN).
// Within a slice, a faster network (ICI) connects the devices.
//
// Every axis is divided into as many pieces as the slices it crosses, so the
// product of these numbers is the number of slices. There are two ways to
// specify sizes: sizes within a slice and sizes over slices, which are
// multiplied per axis (MaxText's ici_ and dcn_ parallelism; jax's
// create_hybrid_device_mesh); or sizes of the whole mesh, where the first axis
// that is divisible by the number of slices is divided (eformer's create_mesh
// under MEGASCALE_NUM_SLICES).

struct Slices {
  // Per axis of the mesh, the number of slices that it crosses; 1: it stays
  // within a slice.
  std::vector<int64_t> crossed;

  int64_t count() const;
  bool operator==(const Slices&) const = default;
};

struct SlicedMesh {
  Mesh mesh;                     // over all slices
  std::optional<Slices> slices;  // if several are known or requested
};

// Combines `axes`, sizes within a slice, with `dcn`, sizes over slices: empty,
// or one per axis in the same order. Each list may have one size of -1: in
// `axes` it is resolved from `devices` and the other sizes, in `dcn` from
// `slices`. Without `slices` their number is the product of `dcn`, where -1
// counts as 1. Without `dcn`, `axes` are sizes of the whole mesh. Reports SP007
// with the numbers if a division leaves a remainder, and the problems that
// make_mesh finds.
std::optional<SlicedMesh> make_sliced_mesh(const std::vector<AxisRequest>& axes,
                                           const std::vector<AxisRequest>& dcn,
                                           std::optional<int64_t> devices,
                                           std::optional<int64_t> slices,
                                           Span where, Diagnostics& diags);

// Returns "2 slices (fsdp crosses 2)".
std::string slices_text(const Mesh& mesh, const Slices& slices);

}  // namespace shardplan
