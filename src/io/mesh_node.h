// SPDX-License-Identifier: Apache-2.0
// A mesh as a node of a document: `{fsdp: 8, tp: 4}`, or text as the flag takes
// it, `fsdp=8,tp=4`.
#pragma once

#include <optional>
#include <vector>

#include "base/diagnostic.h"
#include "core/mesh.h"
#include "io/document.h"

namespace shardplan {

std::optional<std::vector<AxisRequest>> read_mesh_node(const Node& node,
                                                       Diagnostics& diags);
// One entry of such a map, whose key is the axis.
std::optional<AxisRequest> read_axis_size(const Node& map, size_t index,
                                          Diagnostics& diags);

}  // namespace shardplan
