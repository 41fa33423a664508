// SPDX-License-Identifier: Apache-2.0
#include "core/views.h"

#include <algorithm>
#include <memory>
#include <set>
#include <utility>

#include "base/checked.h"
#include "base/text.h"
#include "base/words.h"

namespace shardplan {
namespace {

// Returns the product of the sizes other than -1, or nothing beyond
// kMaxDevices.
std::optional<int64_t> product_of(const std::vector<AxisRequest>& axes) {
  int64_t product = 1;
  for (const AxisRequest& axis : axes) {
    if (axis.size == -1) continue;
    const auto next = checked_mul(product, axis.size);
    if (!next || *next > kMaxDevices) return std::nullopt;
    product = *next;
  }
  return product;
}

// Returns "ep=8,edp=4".
std::string requested_text(const std::vector<AxisRequest>& axes) {
  return joined_of(axes, ",", [](const AxisRequest& axis) {
    return axis.name + "=" + std::to_string(axis.size);
  });
}

// Returns the view to suggest if the given one has too few devices: with the
// first axes of the mesh, such as that of a pipeline, in front. Empty if no
// such prefix has the missing factor.
std::string with_leading_axes(const Mesh& mesh, const ViewRequest& view,
                              int64_t product) {
  std::string before;
  for (const Axis& axis : mesh.axes()) {
    before += axis.name + "=" + std::to_string(axis.size) + ",";
    product *= axis.size;
    if (product == mesh.devices()) {
      return view.name + ":" + before + requested_text(view.axes);
    }
    if (product > mesh.devices()) break;
  }
  return {};
}

bool report_product(const Mesh& mesh, const ViewRequest& view, int64_t product,
                    Diagnostics& diags) {
  auto problem = diags.error(
      Code::InvalidMesh, view.where,
      "view `" + view.name + "` has " + std::to_string(product) +
          " devices, but the mesh has " + std::to_string(mesh.devices()));
  problem.fact("the mesh is " + mesh_text(mesh));
  problem.fact("a view renames the same devices");
  const std::string longer = with_leading_axes(mesh, view, product);
  if (!longer.empty()) {
    problem.help("write `--view " + longer + "`");
  } else {
    problem.help("make the product of its sizes " +
                 std::to_string(mesh.devices()) + "; one size may be -1");
  }
  return false;
}

// Returns the axes with a -1 resolved, or reports what is wrong with them.
std::optional<std::vector<Axis>> sized(const Mesh& mesh,
                                       const ViewRequest& view,
                                       Diagnostics& diags) {
  Diagnostics found;
  // Names, sizes and their product have the same requirements as those of a
  // mesh.
  const auto made = make_mesh(view.axes, mesh.devices(), view.where, found);
  bool good = true;
  for (const Diagnostic& problem : found.all()) {
    if (problem.code == Code::DeviceCountMismatch) {
      return report_product(mesh, view, *product_of(view.axes), diags),
             std::nullopt;
    }
    good = false;
  }
  if (!good) diags.add_all(found);
  if (!made) return std::nullopt;
  return made->axes();
}

// Inserts, for each axis, the product of the sizes up to and including it.
void add_ends(const std::vector<Axis>& axes, std::set<int64_t>& ends) {
  int64_t before = 1;
  for (const Axis& axis : axes) ends.insert(before *= axis.size);
}

constexpr std::string_view kMeshView = "mesh";

}  // namespace

std::optional<ViewRequest> parse_view_text(const SourceFile& source,
                                           Diagnostics& diags) {
  const std::string_view text = source.text();
  const size_t colon = text.find(':');
  const Span all{&source, 0, text.size()};
  if (colon == std::string_view::npos || !is_axis_name(text.substr(0, colon))) {
    return diags
        .error(Code::InvalidMesh, all, in_backticks(text) + " is not a view")
        .help("write `NAME:AXES`, e.g. `--view experts:ep=8,edp=4`");
  }
  ViewRequest view{std::string(text.substr(0, colon)),
                   {},
                   {&source, colon + 1, text.size()},
                   {&source, 0, colon}};
  auto axes = parse_mesh_text(source, colon + 1, diags);
  if (!axes) return std::nullopt;
  view.axes = *std::move(axes);
  return view;
}

std::optional<Mesh> add_view(const Mesh& mesh, const ViewRequest& view,
                             Diagnostics& diags) {
  if (std::ranges::find(mesh.views(), view.name, &MeshView::name) !=
      mesh.views().end()) {
    return diags
        .error(Code::InvalidMesh, view.name_where,
               "view `" + view.name + "` is given twice")
        .help("give each view a unique name");
  }
  auto axes = sized(mesh, view, diags);
  if (!axes) return std::nullopt;
  int64_t before = 1;
  for (const Axis& axis : *axes) {
    before *= axis.size;
    const auto known = mesh.find(axis.name);
    if (!known) continue;
    const Axis& other = mesh.all_axes()[*known];
    const bool same_place =
        axis.size == 1 || mesh.stride(*known) == mesh.devices() / before;
    if (other.size == axis.size && same_place) continue;
    return diags
        .error(Code::InvalidMesh, view.where,
               "axis `" + axis.name + "` of view `" + view.name +
                   "` differs from the existing axis of that name")
        .fact("here it has size " + std::to_string(axis.size) + " and stride " +
              std::to_string(mesh.devices() / before))
        .fact("the existing axis has size " + std::to_string(other.size) +
              " and stride " + std::to_string(mesh.stride(*known)))
        .help("rename it, e.g. `" + view.name + "_" + axis.name +
              "`, or give both the same size and stride");
  }
  std::vector<MeshView> views = mesh.views();
  views.push_back({view.name, *std::move(axes)});
  return Mesh(mesh.axes(), std::move(views));
}

std::optional<Mesh> with_axes(const Mesh& mesh, std::vector<Axis> axes) {
  Mesh changed(std::move(axes));
  Diagnostics quiet;
  for (const MeshView& view : mesh.views()) {
    ViewRequest request{view.name, {}, {}, {}};
    for (const Axis& axis : view.axes) {
      request.axes.push_back({axis.name, axis.size, {}, {}, {}});
    }
    auto with_view = add_view(changed, request, quiet);
    if (!with_view) return std::nullopt;
    changed = *std::move(with_view);
  }
  return changed;
}

std::optional<Mesh> sub_axes(const Mesh& mesh) {
  if (mesh.views().empty()) return mesh;
  std::set<int64_t> ends;
  add_ends(mesh.axes(), ends);
  for (const MeshView& view : mesh.views()) add_ends(view.axes, ends);
  std::vector<Axis> parts;
  int64_t before = 1;
  for (const int64_t end : ends) {
    if (end % before != 0) return std::nullopt;
    if (end == before) continue;
    const int64_t size = end / before;
    const int64_t stride = mesh.devices() / end;
    // The axis that equals the part or, if none does, the first that contains
    // it.
    std::string part_name;
    for (size_t i = 0; i < mesh.all_axes().size(); ++i) {
      const Axis& axis = mesh.all_axes()[i];
      const int64_t inner = mesh.stride(i);
      if (inner > stride || stride * size > inner * axis.size) continue;
      if (axis.size == size) {
        part_name = axis.name;
        break;
      }
      if (!part_name.empty()) continue;
      const int64_t major = inner * axis.size / (stride * size);
      part_name =
          axis.name + ":(" + std::to_string(major) + ")" + std::to_string(size);
    }
    SHARDPLAN_CHECK(!part_name.empty());
    parts.push_back({part_name, size});
    before = end;
  }
  if (parts.empty()) parts = {mesh.axes().front()};
  std::vector<MeshView> views = {{std::string(kMeshView), mesh.axes()}};
  views.insert(views.end(), mesh.views().begin(), mesh.views().end());
  return Mesh(std::move(parts), std::move(views));
}

AxisNames parts_of(const Mesh& mesh, const AxisName& axis) {
  const auto found = mesh.find(axis);
  if (!found) return {};
  if (*found < mesh.axes().size()) return {axis};
  AxisNames parts;
  const int64_t inner = mesh.stride(*found);
  const int64_t outer = inner * mesh.all_axes()[*found].size;
  for (size_t i = 0; i < mesh.axes().size(); ++i) {
    if (mesh.axes()[i].size > 1 && mesh.stride(i) >= inner &&
        mesh.stride(i) < outer) {
      parts.push_back(mesh.axes()[i].name);
    }
  }
  return parts;
}

AxisNames joined_axes(const Mesh& mesh, const AxisNames& parts,
                      std::string_view view) {
  if (mesh.views().empty()) return parts;
  AxisNames joined;
  for (size_t begin = 0; begin < parts.size();) {
    AxisName best = parts[begin];
    size_t length = 1;
    bool best_in_view = false;
    for (const Axis& axis : mesh.all_axes()) {
      const AxisNames own = parts_of(mesh, axis.name);
      if (own.empty() || own.size() > parts.size() - begin ||
          !std::equal(own.begin(), own.end(),
                      parts.begin() + static_cast<ptrdiff_t>(begin))) {
        continue;
      }
      const bool in_view = !view.empty() && mesh.has(view, axis.name);
      if (std::pair(own.size(), in_view) > std::pair(length, best_in_view)) {
        best = axis.name;
        length = own.size();
        best_in_view = in_view;
      }
    }
    joined.push_back(best);
    begin += length;
  }
  return joined;
}

}  // namespace shardplan
