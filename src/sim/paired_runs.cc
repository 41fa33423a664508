// SPDX-License-Identifier: Apache-2.0
#include "sim/paired_runs.h"

#include <algorithm>
#include <utility>

namespace shardplan {

Tensor as_stored(const Value& value, const Tensor& tensor,
                 const KeptTypes& precision, int threads) {
  if (precision.arithmetic != Arithmetic::F32 || value.integers_below > 0 ||
      precision.storage == Storage::F32) {
    return tensor;
  }
  // What a file or the caller holds is not written to.
  Tensor own = copy(tensor);
  round_to(own, precision.storage, threads);
  return own;
}

Tensor held_value(HeldValues& held, int value, Element element) {
  const auto v = static_cast<size_t>(value);
  held.singles.resize(held.graph->values.size());
  held.doubles.resize(held.graph->values.size());
  Tensor& place = element == Element::F32 ? held.singles[v] : held.doubles[v];
  if (place.storage != nullptr) return place;
  const bool makes_single = !held.exact && element == Element::F64;
  if (!makes_single && held.singles[v].storage == nullptr &&
      held.doubles[v].storage == nullptr) {
    held.present.push_back(v);
  }
  if (held.exact) {
    place = held.read(value, Element::F64);
  } else if (element == Element::F32) {
    place = as_stored(held.graph->values[v], held.read(value, element),
                      {Arithmetic::F32, held.storage}, held.threads);
  } else {
    place = converted(held_value(held, value, Element::F32), Element::F64,
                      held.threads);
  }
  return place;
}

void release_doubles(HeldValues& held, int stretch) {
  if (held.exact) return;
  for (const size_t v : held.present) {
    if (held.doubles[v].storage == nullptr ||
        held.graph->values[v].kind == Value::Kind::Input ||
        is_needed_soon(held.lives->needed[v], stretch)) {
      continue;
    }
    held.doubles[v] = {};
  }
}

void release_values(HeldValues& held, int stretch) {
  std::erase_if(held.present, [&](size_t v) {
    const std::vector<int>& needed = held.lives->needed[v];
    const bool keep = held.graph->values[v].kind == Value::Kind::Input
                          ? is_needed_later(needed, stretch)
                          : is_needed_soon(needed, stretch);
    if (keep) return false;
    held.singles[v] = {};
    held.doubles[v] = {};
    return true;
  });
}

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
