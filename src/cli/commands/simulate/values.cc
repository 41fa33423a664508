// SPDX-License-Identifier: Apache-2.0
#include "cli/commands/simulate/values.h"

#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/parallel.h"
#include "base/text.h"
#include "cli/options.h"
#include "graph/tensor.h"

namespace shardplan::cli {
namespace {

// Returns the value of the graph that contains token ids, if there is one.
ValueId find_tokens(const Graph& graph) {
  for (const ValueId v : graph.values.ids()) {
    if (graph.values[v].kind == Value::Kind::Input &&
        graph.values[v].integers_below > 0) {
      return v;
    }
  }
  return {};
}

std::optional<Tensor> tokens_tensor(const InputIds& ids, const Value& value,
                                    Diagnostics& diags) {
  std::vector<double> numbers;
  for (const std::vector<int64_t>& row : ids) {
    for (const int64_t id : row) {
      if (id < 0 || id >= value.integers_below) {
        return diags
            .error(Code::Usage, {},
                   "token " + std::to_string(id) + " is not in the vocabulary")
            .fact("valid tokens are 0 to " +
                  count_text(value.integers_below - 1));
      }
      numbers.push_back(static_cast<double>(id));
    }
  }
  return make_tensor(Element::F64, value.shape, numbers);
}

using Weights = std::map<ValueId, StoredTensor>;

std::optional<Weights> open_parameters(Context& context,
                                       const SimulateInput& input) {
  const Manifest& manifest = input.session.model.manifest;
  SHARDPLAN_CHECK(input.weights.has_value());
  std::unordered_map<std::string_view, size_t> index;
  for (size_t i = 0; i < manifest.any_size(); ++i) {
    index.emplace(manifest.any_name(i), i);
  }
  Weights weights;
  for (const ValueId v : input.graph.values.ids()) {
    const Value& value = input.graph.values[v];
    if (value.kind != Value::Kind::Parameter) continue;
    const auto found = index.find(value.parameter);
    if (found == index.end()) continue;  // drawn, as the graph file requires
    const StoredTensor& tensor = (*input.weights)[found->second];
    if (!is_computable(tensor.dtype)) {
      context.diags
          .error(Code::Usage, manifest.any_where(found->second),
                 "cannot compute with " + in_backticks(value.parameter) +
                     ": it is stored as " +
                     std::string(dtype_name(tensor.dtype)))
          .help("`--values random` uses random values instead");
      return std::nullopt;
    }
    weights.emplace(v, tensor);
  }
  return weights;
}

}  // namespace

std::optional<ReadValue> simulation_values(Context& context,
                                           const SimulateInput& input) {
  const bool has_weights = input.source == ValueSource::Checkpoint;
  auto drawn =
      draw_values(input.graph, has_weights ? ValueSource::Random : input.source,
                  context.options.simulate.seed, context.diags,
                  thread_count(context.options.planning.jobs));
  if (!drawn) return std::nullopt;
  auto weights = std::make_shared<Weights>();
  if (has_weights) {
    auto opened = open_parameters(context, input);
    if (!opened) return std::nullopt;
    *weights = *std::move(opened);
  }
  const ValueId tokens =
      input.ids.empty() ? ValueId() : find_tokens(input.graph);
  Tensor ids;
  if (tokens) {
    const auto given =
        tokens_tensor(input.ids, input.graph.values[tokens], context.diags);
    if (!given) return std::nullopt;
    ids = *given;
  }
  return ReadValue([drawn = *std::move(drawn), weights, tokens, ids,
                    given = input.given](ValueId value, Element element) {
    if (value == tokens) return converted(ids, element);
    for (const GivenInput& each : given) {
      if (each.value == value) return load(each, element);
    }
    const auto found = weights->find(value);
    return found == weights->end() ? drawn(value, element)
                                   : load(found->second, element);
  });
}

}  // namespace shardplan::cli
