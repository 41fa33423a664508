// SPDX-License-Identifier: Apache-2.0
// Meshes as EasyDeL's configurations give them: a list of names and the sizes
// that belong to it, `1,-1,1,1,1`, or sizes by name, `dp:2,tp:4`, that use all
// of the names, in the order of the text.
//
// Source: eformer's create_mesh and parse_mesh_from_string. As there, blanks
// may stand around numbers, and any negative size is the rest of the devices.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/diagnostic.h"
#include "base/source.h"
#include "core/mesh.h"

namespace shardplan {

// For make_mesh. SP007 when there are not as many sizes as names.
std::optional<std::vector<AxisRequest>> axes_of_dims(
    std::span<const int64_t> dims, const AxisNames& names, Span where,
    Diagnostics& diags);

// SP007 when a size is no number, or a name is not one of `names`, or one of
// them is not used.
std::optional<std::vector<AxisRequest>> parse_mesh_dims(
    const SourceFile& source, const AxisNames& names, Diagnostics& diags);

}  // namespace shardplan
