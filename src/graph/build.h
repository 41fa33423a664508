// SPDX-License-Identifier: Apache-2.0
// Building: turns a graph file into a Graph. It looks up operations, infers
// shapes and expands composites (graph/composites.h).
#pragma once

#include <optional>

#include "base/diagnostic.h"
#include "core/graph_description.h"
#include "core/manifest.h"
#include "graph/composites.h"
#include "graph/graph.h"

namespace shardplan {

// Returns the graph. Reports SP015 with the place of every operation that is
// unknown or does not fit, several in one run. A parameter without a shape has
// that of the manifest; one with a shape must agree with the manifest if it is
// listed there. If the file names no outputs, they are the results that no
// operation reads.
std::optional<Graph> build_graph(const GraphDescription& description,
                                 const Manifest& manifest, Diagnostics& diags);

}  // namespace shardplan
