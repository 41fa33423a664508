// SPDX-License-Identifier: Apache-2.0
// A graph file's nodes as a GraphDescription.
#pragma once

#include <optional>

#include "base/diagnostic.h"
#include "core/graph_description.h"
#include "io/graph_dims.h"

namespace shardplan {

// `outputs` is left empty where the file names none. Stops at twenty errors.
std::optional<GraphDescription> read_graph_node(const Node& root,
                                                const DimSizes& dims,
                                                Diagnostics& diags);

}  // namespace shardplan
