// SPDX-License-Identifier: Apache-2.0
// Views of a mesh (core/mesh.h) as users write them, and the sub-axes that a
// mesh and its views have in common.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/diagnostic.h"
#include "base/source.h"
#include "core/mesh.h"

namespace shardplan {

// The view that shipped rules place experts over.
inline constexpr std::string_view kExpertView = "experts";

struct ViewRequest {
  std::string name;
  std::vector<AxisRequest> axes;
  Span where;  // the axes
  Span name_where;
};

// Reads `NAME:AXES`, such as `experts:ep=8,edp=4`, which is the whole source.
// SP007 where it is not of that form.
std::optional<ViewRequest> parse_view_text(const SourceFile& source,
                                           Diagnostics& diags);

// The mesh with one more view. One size may be -1: the rest of the devices.
// SP007 where the sizes do not have the mesh's product, where an axis of the
// mesh or of another view has this name and other devices, or where the name is
// in use.
std::optional<Mesh> add_view(const Mesh& mesh, const ViewRequest& view,
                             Diagnostics& diags);

// The same views over other axes of the mesh; empty where a view would no
// longer have as many devices, or an axis in common would no longer be the same
// one.
std::optional<Mesh> with_axes(const Mesh& mesh, std::vector<Axis> axes);

// Sub-axes: the coarsest axes that all axes of the mesh and of its views
// consist of. `dp=4,tp=8` with the view `ep=8,edp=4` has the sub-axes 4, 2 and
// 4: dp is the first, tp the other two, ep the first two and edp the last. So a
// program that reshards a value from one view to another runs on one mesh.
//
// A sub-axis that is a whole axis has its name, that of the mesh before that of
// a view. Others are called as in Shardy: `tp:(1)2` is the part of tp of size 2
// that has 1 part before it.

// The mesh whose own axes are the sub-axes; its views are those of `mesh`, and
// the mesh itself where it is cut, under the name "mesh". The same mesh where
// there are no views. Empty where there are none: along `dp=3,tp=2` and
// `ep=2,edp=3` devices are divided in ways that have no common part.
std::optional<Mesh> sub_axes(const Mesh& mesh);
// The own axes of `mesh` that an axis of a view consists of, major to minor:
// the axis itself where it is one of them, none where it is unknown. REQUIRES:
// `mesh` was made by sub_axes.
AxisNames parts_of(const Mesh& mesh, const AxisName& axis);
// The reverse, for reports: runs of sub-axes that are an axis of some view
// become that axis, the longest first; an axis of `view` before others.
AxisNames joined_axes(const Mesh& mesh, const AxisNames& parts,
                      std::string_view view = {});

}  // namespace shardplan
