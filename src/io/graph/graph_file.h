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
// Reading a file checks its names, sizes, labels and specs. Building the graph
// (graph/build.h) finds out what operations mean and whether their operands
// fit.
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

// The folder of the shipped graphs (base/shipped.h), each known as `@name`.
inline constexpr std::string_view kGraphFolder = "graphs";

// Returns whether a text begins like a graph file: `graph` is a string, and
// there are `ops` or, if the head ends before them, the sections that precede
// them. Looks at the first kHeadBytes.
bool looks_like_graph(std::string_view head);

// Reads a graph file; `dims` overrides sizes in the file. Reports several
// errors per run: SP002 and SP004 for a text that is not a graph file, SP015
// for sizes and names.
std::optional<GraphDescription> read_graph(SourcePtr source,
                                           const DimSizes& dims,
                                           Diagnostics& diags);

// Loads a file, `-`, or a shipped graph (`@mlp`). `head` is the result of
// read_head() for the path, if it was called.
std::optional<GraphDescription> load_graph(const std::string& path,
                                           const DimSizes& dims, Host& host,
                                           Diagnostics& diags,
                                           const SourcePtr& head = nullptr);
// Returns the source of `@mlp`; null, with the reason reported, if there is
// none.
SourcePtr find_shipped_graph(std::string_view name, Diagnostics& diags);

// Returns the graph's parameters as a model; SP015 for one without a shape.
std::optional<Manifest> graph_manifest(const GraphDescription& description,
                                       Diagnostics& diags);

}  // namespace shardplan
