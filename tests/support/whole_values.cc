// SPDX-License-Identifier: Apache-2.0
#include "tests/support/whole_values.h"

#include <utility>

#include "base/checked.h"

namespace shardplan {

std::vector<Tensor> evaluate(const Graph& graph, std::span<const Tensor> given,
                             Arithmetic arithmetic, int threads) {
  Evaluation run{&graph,
                 [&](int value) {
                   SHARDPLAN_CHECK(static_cast<size_t>(value) < given.size());
                   return given[static_cast<size_t>(value)];
                 },
                 arithmetic, threads};
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    evaluate_node(run, static_cast<int>(n));
  }
  run.results.resize(graph.values.size());
  for (size_t v = 0; v < graph.values.size(); ++v) {
    if (graph.values[v].kind == Value::Kind::Result) continue;
    run.results[v] = whole_of(run, static_cast<int>(v));
  }
  return std::move(run.results);
}

std::optional<std::vector<Tensor>> make_values(const Graph& graph,
                                               ValueSource source, int64_t seed,
                                               Diagnostics& diags) {
  const auto read = draw_values(graph, source, seed, diags);
  if (!read) return std::nullopt;
  const Element element =
      source == ValueSource::Field ? Element::F64 : Element::F32;
  std::vector<Tensor> values(graph.values.size());
  for (size_t v = 0; v < values.size(); ++v) {
    if (graph.values[v].kind == Value::Kind::Result) continue;
    values[v] = (*read)(static_cast<int>(v), element);
  }
  return values;
}

ReadValue read_from(std::vector<Tensor> values) {
  return [values = std::move(values)](int value, Element element) {
    return converted(values[static_cast<size_t>(value)], element);
  };
}

Simulation simulate(const Program& program, std::span<const Tensor> values,
                    const SimulateOptions& options) {
  return simulate(program,
                  read_from(std::vector<Tensor>(values.begin(), values.end())),
                  options);
}

}  // namespace shardplan
