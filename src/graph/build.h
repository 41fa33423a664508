// SPDX-License-Identifier: Apache-2.0
// From a graph file to a Graph: operations looked up, shapes inferred, those
// that stand for several (linear, rms_norm, layer_norm, softmax, split) put
// together from the operations of graph/op.h.
#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "base/diagnostic.h"
#include "core/graph_description.h"
#include "core/manifest.h"
#include "graph/graph.h"

namespace shardplan {

// SP015 with the place of every operation that is unknown or does not fit;
// several in one run. A parameter without a shape takes that of the manifest,
// and one with a shape must agree with it where the manifest has it.
std::optional<Graph> build_graph(const GraphDescription& description,
                                 const Manifest& manifest, Diagnostics& diags);

// What a graph file may write besides the names of ops().
struct CompositeDef {
  std::string_view name;
  std::string_view summary;
};
std::span<const CompositeDef> composites();

}  // namespace shardplan
