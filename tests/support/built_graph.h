// SPDX-License-Identifier: Apache-2.0
// Graphs from the text of a graph file, for tests.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "graph/build.h"
#include "io/graph/graph_file.h"
#include "tests/support/messages.h"

namespace shardplan::testing {

struct BuiltGraph {
  Diagnostics diags;
  std::optional<Graph> graph;  // empty: `messages` says why
  std::string messages;

  ValueId value(const std::string& name) const {
    for (const ValueId i : graph->values.ids()) {
      if (graph->values[i].name == name) return i;
    }
    return {};
  }
  const Value& at(const std::string& name) const {
    return graph->values[value(name)];
  }
  // "einsum add" without what comes before.
  std::string ops() const {
    std::string text;
    for (const GraphNode& node : graph->nodes) {
      text += (text.empty() ? "" : " ") + std::string(node.op->name);
    }
    return text;
  }
};

inline std::unique_ptr<BuiltGraph> built_graph(const std::string& text,
                                               const DimSizes& dims = {},
                                               const Manifest& manifest = {}) {
  auto built = std::make_unique<BuiltGraph>();
  const auto read =
      read_graph(std::make_shared<SourceFile>("g", text), dims, built->diags);
  if (read) built->graph = build_graph(*read, manifest, built->diags);
  built->messages = messages(built->diags);
  return built;
}

// A shipped graph, `@mlp`.
inline std::unique_ptr<BuiltGraph> shipped_graph(const std::string& name,
                                                 const DimSizes& dims = {}) {
  auto built = std::make_unique<BuiltGraph>();
  const SourcePtr source = find_shipped_graph(name, built->diags);
  if (source != nullptr) {
    const auto read = read_graph(source, dims, built->diags);
    if (read) built->graph = build_graph(*read, {}, built->diags);
  }
  built->messages = messages(built->diags);
  return built;
}

}  // namespace shardplan::testing
