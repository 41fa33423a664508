// SPDX-License-Identifier: Apache-2.0
// Mesh: devices as a grid with named axes, listed major to minor, and the views
// of it.
//
// Device ids are the row-major index of the coordinates: on `fsdp=4,tp=2`,
// device 3 is fsdp=1, tp=1. A view has other names and sizes for the same
// devices in the same order: on `dp=4,tp=2` with the view `ep=4,edp=2`, device
// 3 is ep=1, edp=1. Mixture-of-experts models shard attention over the mesh and
// experts over a view (Megatron's parallel folding, torchtitan's and vLLM's
// expert parallelism). Every spec names axes of one view; the mesh itself is
// one.
//
// Invariant: at least one axis, unique names in each view, sizes >= 1, at most
// 2^40 devices; the sizes of every view have the same product. An axis that
// several views name has the same size and the same devices in each of them.
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

// Matches [A-Za-z_][A-Za-z0-9_.-]*.
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

  // The mesh's own axes, without those of views.
  const std::vector<Axis>& axes() const { return parts_->axes; }
  const std::vector<MeshView>& views() const { return parts_->views; }
  // The mesh's own axes, then those that only views have.
  const std::vector<Axis>& all_axes() const { return parts_->all_axes; }
  int64_t devices() const { return parts_->devices; }
  // Index of an axis in all_axes().
  std::optional<size_t> find(const AxisName& name) const;
  // 1 for an axis that neither the mesh nor a view has.
  int64_t size_of(const AxisName& name) const;
  // How far apart the ids of neighbours along an axis are: the product of the
  // sizes of the axes after it. REQUIRES: an index in all_axes().
  int64_t stride(size_t axis) const { return parts_->strides[axis]; }
  // Coordinates of a device, one per axis of all_axes(). REQUIRES: 0 <= device
  // < devices().
  std::vector<int64_t> coordinates(int64_t device) const;

  // The axes of the view with this name; of the mesh where it is empty.
  // REQUIRES: there is such a view.
  const std::vector<Axis>& axes_of(std::string_view view) const;
  bool has_view(std::string_view view) const;  // true for the mesh: empty
  // Whether the view (empty: the mesh) has the axis. REQUIRES: as above.
  bool has(std::string_view view, const AxisName& axis) const;
  // The first view that has all of these axes, the mesh first: empty. Axes that
  // nobody has are left out. No value where no single view has them all.
  std::optional<std::string_view> view_of(const AxisNames& axes) const;

  bool operator==(const Mesh& other) const {
    return parts_ == other.parts_ ||
           (axes() == other.axes() && views() == other.views());
  }

 private:
  // Shared by copies, of which every plan and candidate has one.
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

// Checks names, sizes and their product, and resolves one -1 with `devices`
// (SP007). A full mesh with another number of devices is SP205.
std::optional<Mesh> make_mesh(const std::vector<AxisRequest>& axes,
                              std::optional<int64_t> devices, Span where,
                              Diagnostics& diags);

std::string axes_text(std::span<const Axis> axes);  // "fsdp=4,tp=2"
std::string mesh_text(const Mesh& mesh);  // the mesh's own axes, as above

// Meshes as EasyDeL's configurations give them: a list of names and the sizes
// that belong to it, `1,-1,1,1,1`, or sizes by name, `dp:2,tp:4`, that use all
// of the names, in the order of the text.
//
// Source: eformer's create_mesh and parse_mesh_from_string. As there, blanks
// may stand around numbers, and any negative size is the rest of the devices.

// For make_mesh. SP007 when there are not as many sizes as names.
std::optional<std::vector<AxisRequest>> axes_of_dims(
    std::span<const int64_t> dims, const AxisNames& names, Span where,
    Diagnostics& diags);

// SP007 when a size is not a number, or a name is not one of `names`, or one of
// them is not used.
std::optional<std::vector<AxisRequest>> parse_mesh_dims(
    const SourceFile& source, const AxisNames& names, Diagnostics& diags);

// Slices: equal parts of a mesh that are joined by a slower network (DCN), each
// joined in itself by a faster one (ICI).
//
// Every axis is cut into as many pieces as it crosses slices, so the product of
// these numbers is the number of slices. Sizes come in two ways: sizes within a
// slice beside those over slices, which are multiplied axis by axis (MaxText's
// ici_ and dcn_ parallelism; jax's create_hybrid_device_mesh), or sizes of the
// whole mesh, of which the first axis that N divides is cut (eformer's
// create_mesh under MEGASCALE_NUM_SLICES).

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
