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

Tensor cached_value(ValueCache& cache, int value, Element element) {
  const auto v = static_cast<size_t>(value);
  cache.singles.resize(cache.graph->values.size());
  cache.doubles.resize(cache.graph->values.size());
  Tensor& place = element == Element::F32 ? cache.singles[v] : cache.doubles[v];
  if (place.storage != nullptr) return place;
  const bool makes_single = !cache.exact && element == Element::F64;
  if (!makes_single && cache.singles[v].storage == nullptr &&
      cache.doubles[v].storage == nullptr) {
    cache.present.push_back(v);
  }
  if (cache.exact) {
    place = cache.read(value, Element::F64);
  } else if (element == Element::F32) {
    place = as_stored(cache.graph->values[v], cache.read(value, element),
                      {Arithmetic::F32, cache.storage}, cache.threads);
  } else {
    place = converted(cached_value(cache, value, Element::F32), Element::F64,
                      cache.threads);
  }
  return place;
}

void release_doubles(ValueCache& cache, int phase) {
  if (cache.exact) return;
  for (const size_t v : cache.present) {
    if (cache.doubles[v].storage == nullptr ||
        cache.graph->values[v].kind == Value::Kind::Input ||
        is_needed_soon(cache.lives->needed[v], phase)) {
      continue;
    }
    cache.doubles[v] = {};
  }
}

void release_values(ValueCache& cache, int phase) {
  std::erase_if(cache.present, [&](size_t v) {
    const std::vector<int>& needed = cache.lives->needed[v];
    const bool keep = cache.graph->values[v].kind == Value::Kind::Input
                          ? is_needed_later(needed, phase)
                          : is_needed_soon(needed, phase);
    if (keep) return false;
    cache.singles[v] = {};
    cache.doubles[v] = {};
    return true;
  });
}

namespace {

ReadWhole reader(ValueCache& cache, Arithmetic arithmetic) {
  return [&cache, arithmetic](int value) {
    return cached_value(cache, value, element_of(arithmetic));
  };
}

}  // namespace

PairedRuns::PairedRuns(const Program& of, const Lifetimes& of_values,
                       ValueCache& values, const ExecuteOptions& how)
    : program(of),
      lives(of_values),
      cache(values),
      options(how),
      unsharded{of.graph, reader(values, how.arithmetic), how.arithmetic,
                how.threads},
      integers(integer_values(*of.graph)),
      sharded(of, of_values, reader(values, how.arithmetic), how) {}

void advance_unsharded(PairedRuns& runs, int phase) {
  const Graph& graph = *runs.program.graph;
  const auto n = static_cast<size_t>(phase);
  if (n >= graph.nodes.size()) return;
  evaluate_node(runs.unsharded, phase);
  const auto result = static_cast<size_t>(graph.nodes[n].result);
  if (runs.integers[result] || runs.options.storage == Storage::F32) return;
  std::vector<Tensor> operands;
  for (const int operand : graph.nodes[n].operands) {
    operands.push_back(whole_of(runs.unsharded, operand));
  }
  const Tensor made = std::exchange(runs.unsharded.results[result], {});
  runs.unsharded.results[result] =
      kept(made, operands, runs.options.arithmetic, runs.options.storage,
           runs.options.threads);
}

void release_results(PairedRuns& runs, int phase) {
  const std::vector<GraphNode>& nodes = runs.program.graph->nodes;
  const auto end = std::min(nodes.size(), static_cast<size_t>(phase) + 1);
  for (; runs.seen < end; ++runs.seen) {
    runs.present.push_back(static_cast<size_t>(nodes[runs.seen].result));
  }
  std::vector<Tensor>& results = runs.unsharded.results;
  std::erase_if(runs.present, [&](size_t v) {
    if (is_needed_later(runs.lives.needed[v], phase)) return false;
    results[v] = {};
    return true;
  });
}

}  // namespace shardplan
