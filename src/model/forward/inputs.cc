// SPDX-License-Identifier: Apache-2.0
#include "model/forward/inputs.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <string>
#include <vector>

#include "model/forward/class_steps.h"

namespace shardplan {

void add_pass_sizes(const ForwardPass& pass, ValueScope& scope) {
  const int64_t sizes[] = {pass.batch, pass.length,
                           pass.target_length.value_or(pass.length)};
  static_assert(std::size(sizes) == std::size(kPassSizes));
  for (size_t i = 0; i < std::size(sizes); ++i) {
    scope.own.emplace_back(kPassSizes[i], ConfigValue::of(sizes[i]));
  }
}

bool reads_tokens(const ForwardDefinition& model) {
  const std::vector<ModuleStep>& steps = model.model_class->steps;
  const ModuleBlock* const block =
      steps.empty() ? nullptr
                    : computed_block(*model.architecture, steps.front());
  if (block == nullptr) return false;
  return std::ranges::any_of(
      block->forward->takes, [&](const std::string& name) {
        const InputRule* const rule = model.architecture->find_input(name);
        return rule != nullptr && rule->below;
      });
}

bool write_input(const InputRule& rule, ValueScope scope, ForwardWriter& out) {
  add_pass_sizes(out.pass(), scope);
  Shape shape;
  for (const Expression& each : rule.shape) {
    const auto size = scope.integer(each, 1, kMaxDim);
    if (!size) return false;
    shape.push_back(*size);
  }
  int64_t below = 0;
  if (rule.below) {
    const auto limit = scope.integer(*rule.below, 1, kMaxDim);
    if (!limit) return false;
    below = *limit;
  }
  out.input(rule.name, std::move(shape), rule.axes, below);
  return true;
}

void set_pass_sizes(const Architecture& architecture,
                    std::span<const std::pair<std::string, Shape>> inputs,
                    ForwardPass& pass) {
  for (const auto& [name, shape] : inputs) {
    const InputRule* const rule = architecture.find_input(name);
    if (rule == nullptr || rule->shape.size() != shape.size()) continue;
    for (size_t dim = 0; dim < shape.size(); ++dim) {
      const std::string& size = rule->shape[dim].text;
      if (size == "batch") pass.batch = shape[dim];
      if (size == "length") pass.length = shape[dim];
      if (size == "target_length") pass.target_length = shape[dim];
    }
  }
}

}  // namespace shardplan
