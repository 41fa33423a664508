// SPDX-License-Identifier: Apache-2.0
// Graph files: what is read and built keeps what the headers promise.
#include <memory>
#include <string>

#include "findings/program_findings.h"
#include "graph/build.h"
#include "io/graph/graph_file.h"
#include "tests/fuzz/fuzz.h"

namespace {

using shardplan::Graph;
using shardplan::Value;

void check_graph(const Graph& graph) {
  using shardplan::fuzz::require;
  std::vector<bool> known(graph.values.size());
  for (size_t i = 0; i < graph.values.size(); ++i) {
    const Value& value = graph.values[i];
    known[i] = value.kind != Value::Kind::Result;
    require(shardplan::element_count(value.shape).has_value(),
            "elements of every value fit 63 bits");
    require(value.axes.empty() || value.axes.size() == value.shape.size(),
            "labels are of dimensions");
    require(!value.spec || value.spec->dims.size() <= value.shape.size(),
            "specs are no longer than shapes");
  }
  for (const auto& node : graph.nodes) {
    require(node.rule.operands.size() == node.operands.size(),
            "every operand has factors");
    for (const int operand : node.operands) {
      require(known[static_cast<size_t>(operand)],
              "operands are made before they are read");
    }
    known[static_cast<size_t>(node.result)] = true;
  }
  require(!graph.outputs.empty(), "a graph computes something");
}

}  // namespace

FUZZ_TARGET(graph) {
  using namespace shardplan;
  Diagnostics diags;
  auto source = std::make_shared<SourceFile>(
      "g.yaml", std::string(fuzz::text_of(data, size)));
  const auto described = read_graph(source, {}, diags);
  fuzz::require(described.has_value() == !diags.has_errors(),
                "a refusal has a reason, and only a refusal");
  if (!described) return 0;
  Diagnostics of_model;
  const auto manifest = graph_manifest(*described, of_model);
  fuzz::require(manifest.has_value() == !of_model.has_errors(),
                "a model that is none has a reason");
  const auto graph = build_graph(*described, {}, diags);
  fuzz::require(graph.has_value() == !diags.has_errors(),
                "a graph that is none has a reason");
  if (!graph) return 0;
  check_graph(*graph);
  repeated_biases(*graph);
  return 0;
}
