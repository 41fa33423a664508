// SPDX-License-Identifier: Apache-2.0
#include "tests/support/whole_values.h"

#include <utility>

#include "base/checked.h"

namespace shardplan {

PerValue<Tensor> evaluate(const Graph& graph, const PerValue<Tensor>& given,
                          Arithmetic arithmetic, int threads) {
  Evaluation run{&graph,
                 [&](ValueId value) {
                   SHARDPLAN_CHECK(given.has(value));
                   return given[value];
                 },
                 arithmetic, threads};
  for (const NodeId n : graph.nodes.ids()) evaluate_node(run, n);
  run.results.resize(graph.values.size());
  for (const ValueId v : graph.values.ids()) {
    if (graph.values[v].kind == Value::Kind::Result) continue;
    run.results[v] = whole_of(run, v);
  }
  return std::move(run.results);
}

std::optional<PerValue<Tensor>> make_values(const Graph& graph,
                                            ValueSource source, int64_t seed,
                                            Diagnostics& diags) {
  const auto read = draw_values(graph, source, seed, diags);
  if (!read) return std::nullopt;
  const Element element =
      source == ValueSource::Field ? Element::F64 : Element::F32;
  PerValue<Tensor> values(graph.values.size());
  for (const ValueId v : values.ids()) {
    if (graph.values[v].kind == Value::Kind::Result) continue;
    values[v] = (*read)(v, element);
  }
  return values;
}

ReadValue read_from(PerValue<Tensor> values) {
  return [values = std::move(values)](ValueId value, Element element) {
    return converted(values[value], element);
  };
}

Simulation simulate(const Program& program, const PerValue<Tensor>& values,
                    const SimulateOptions& options) {
  return simulate(program, read_from(values), options);
}

}  // namespace shardplan
