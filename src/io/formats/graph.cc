// SPDX-License-Identifier: Apache-2.0
// A graph file as a model: its parameters.
#include <optional>

#include "io/formats/formats.h"
#include "io/graph_file.h"

namespace shardplan {
namespace {

std::optional<Manifest> read(const ModelSource& model, Host& /*host*/,
                             Diagnostics& diags) {
  const auto graph = read_graph(model.file, {}, diags);
  if (!graph) return std::nullopt;
  return graph_manifest(*graph, diags);
}

}  // namespace

const ManifestFormat kGraph = {
    "graph", "the parameters of a graph file, or of a shipped graph (@NAME)",
    looks_like_graph, read};

}  // namespace shardplan
