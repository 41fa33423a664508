// SPDX-License-Identifier: Apache-2.0
#include "sim/lanes.h"

#include <algorithm>
#include <utility>

namespace shardplan {
namespace {

ReadWhole reader(HeldValues& held, Arithmetic arithmetic) {
  return [&held, arithmetic](int value) {
    return held_value(held, value, element_of(arithmetic));
  };
}

}  // namespace

Lanes::Lanes(const Program& of, const Lifetimes& of_values, HeldValues& values,
             const ExecuteOptions& how)
    : program(of),
      lives(of_values),
      held(values),
      options(how),
      unsharded{of.graph, reader(values, how.arithmetic), how.arithmetic,
                how.threads},
      integers(integer_values(*of.graph)),
      sharded(of, of_values, reader(values, how.arithmetic), how) {}

void advance_unsharded(Lanes& lanes, int stretch) {
  const Graph& graph = *lanes.program.graph;
  const auto n = static_cast<size_t>(stretch);
  if (n >= graph.nodes.size()) return;
  evaluate_node(lanes.unsharded, stretch);
  const auto result = static_cast<size_t>(graph.nodes[n].result);
  if (lanes.integers[result] || lanes.options.storage == Storage::F32) return;
  std::vector<Tensor> operands;
  for (const int operand : graph.nodes[n].operands) {
    operands.push_back(whole_of(lanes.unsharded, operand));
  }
  const Tensor made = std::exchange(lanes.unsharded.results[result], {});
  lanes.unsharded.results[result] =
      kept(made, operands, lanes.options.arithmetic, lanes.options.storage,
           lanes.options.threads);
}

void release_results(Lanes& lanes, int stretch) {
  const std::vector<GraphNode>& nodes = lanes.program.graph->nodes;
  const auto end = std::min(nodes.size(), static_cast<size_t>(stretch) + 1);
  for (; lanes.seen < end; ++lanes.seen) {
    lanes.present.push_back(static_cast<size_t>(nodes[lanes.seen].result));
  }
  std::vector<Tensor>& results = lanes.unsharded.results;
  std::erase_if(lanes.present, [&](size_t v) {
    if (is_needed_later(lanes.lives.needed[v], stretch)) return false;
    results[v] = {};
    return true;
  });
}

}  // namespace shardplan
