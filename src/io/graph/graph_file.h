// SPDX-License-Identifier: Apache-2.0
// Graph files: a model's forward pass, written by hand (docs/formats/graph.md).
//
//   graph: mlp
//   dims: {batch: 4, embed: 16, mlp: 64}
//   inputs:
//     x: {shape: [batch, embed], axes: [BATCH, null]}
//   parameters:
//     up: {name: mlp/up/kernel, shape: [embed, mlp], init: lecun_normal}
//   ops:
//     - {op: linear, in: [x, up], out: h}
//   outputs: [h]
//
// Read here: names, sizes, labels and specs. What operations mean, and whether
// their operands fit, is found when the graph is built (graph/build.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/diagnostic.h"
#include "base/host.h"
#include "base/source.h"
#include "core/graph_description.h"
#include "core/manifest.h"
#include "io/load.h"

namespace shardplan {

// The folder of shipped graphs (base/shipped.h), each known as `@name`.
inline constexpr std::string_view kGraphFolder = "graphs";

// Whether a text begins as a graph file does: `graph` is a text, and there are
// `ops`, or, where the head is full before they come, what stands before them.
// Looks at the first kHeadBytes.
bool looks_like_graph(std::string_view head);

// `dims` takes the place of sizes that the file has. Several errors in one run:
// SP002 and SP004 for what is not a graph file, SP015 for sizes and names.
std::optional<GraphDescription> read_graph(SourcePtr source,
                                           const DimSizes& dims,
                                           Diagnostics& diags);

// A file, `-`, or a shipped graph (`@mlp`). `head` is read_head() of it, where
// that was called.
std::optional<GraphDescription> load_graph(const std::string& path,
                                           const DimSizes& dims, Host& host,
                                           Diagnostics& diags,
                                           const SourcePtr& head = nullptr);
// `@mlp` as a source; null, with the reason reported, when there is none.
SourcePtr find_shipped_graph(std::string_view name, Diagnostics& diags);

// Its parameters as a model; SP015 for one without a shape.
std::optional<Manifest> graph_manifest(const GraphDescription& description,
                                       Diagnostics& diags);

}  // namespace shardplan
