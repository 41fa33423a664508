// SPDX-License-Identifier: Apache-2.0
// The user syntax for views of a mesh (core/mesh.h), and the sub-axes that a
// mesh and its views are made of.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/diagnostic.h"
#include "base/source.h"
#include "core/mesh.h"

namespace shardplan {

// The view over which shipped rules place experts.
inline constexpr std::string_view kExpertView = "experts";

struct ViewRequest {
  std::string name;
  std::vector<AxisRequest> axes;
  Span where;  // the axes
  Span name_where;
};

// Reads a source of the form `NAME:AXES`, such as `experts:ep=8,edp=4`. SP007
// if it has another form.
std::optional<ViewRequest> parse_view_text(const SourceFile& source,
                                           Diagnostics& diags);

// Returns the mesh with one more view. One size may be -1: the rest of the
// devices. SP007 if the product of the sizes is not that of the mesh, if an
// axis of the mesh or of another view has the same name but different devices,
// or if the view's name is in use.
std::optional<Mesh> add_view(const Mesh& mesh, const ViewRequest& view,
                             Diagnostics& diags);

// Returns the same views over other axes of the mesh. Empty if a view would no
// longer have as many devices as the mesh, or an axis in common would no longer
// be the same one.
std::optional<Mesh> with_axes(const Mesh& mesh, std::vector<Axis> axes);

// Sub-axes: the coarsest axes from which all axes of the mesh and of its views
// can be composed. `dp=4,tp=8` with the view `ep=8,edp=4` has the sub-axes 4, 2
// and 4: dp is the first, tp the other two, ep the first two and edp the last.
// Thus a program that reshards a value from one view to another runs on one
// mesh.
//
// A sub-axis that equals a whole axis has its name, preferably the mesh's
// rather than a view's. Others are named as in Shardy: `tp:(1)2` is the part of
// tp of size 2 that has 1 part before it.

// Returns the mesh whose own axes are the sub-axes. Its views are those of
// `mesh` and, if the mesh is divided, the mesh itself under the name "mesh".
// Returns the same mesh if there are no views. Empty if there are no sub-axes:
// `dp=3,tp=2` and `ep=2,edp=3` divide the devices in ways that have no common
// part.
std::optional<Mesh> sub_axes(const Mesh& mesh);
// Returns the own axes of `mesh` that compose an axis of a view, major to
// minor: the axis itself if it is one of them, nothing if it is unknown.
// REQUIRES: `mesh` was made by sub_axes.
AxisNames parts_of(const Mesh& mesh, const AxisName& axis);
// The inverse, for reports: replaces runs of sub-axes that form an axis of some
// view by that axis, the longest run first and axes of `view` before others.
AxisNames joined_axes(const Mesh& mesh, const AxisNames& parts,
                      std::string_view view = {});

}  // namespace shardplan
