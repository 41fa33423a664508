// SPDX-License-Identifier: Apache-2.0
// From a graph file to a Graph: operations looked up, shapes inferred, those
// that stand for several put together (graph/composites.h).
#pragma once

#include <optional>

#include "base/diagnostic.h"
#include "core/graph_description.h"
#include "core/manifest.h"
#include "graph/composites.h"
#include "graph/graph.h"

namespace shardplan {

// SP015 with the place of every operation that is unknown or does not fit;
// several in one run. A parameter without a shape takes that of the manifest,
// and one with a shape must agree with it where the manifest has it. Outputs
// that the file does not name are the results that nobody reads.
std::optional<Graph> build_graph(const GraphDescription& description,
                                 const Manifest& manifest, Diagnostics& diags);

}  // namespace shardplan
