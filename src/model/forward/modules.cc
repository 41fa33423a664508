// SPDX-License-Identifier: Apache-2.0
#include "model/forward/modules.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/text.h"
#include "model/forward/parameter_names.h"

namespace shardplan {
namespace {

std::string write_norm(ForwardWriter& out, const ValueScope& scope,
                       const ModuleUse& use, const Shape& shape, bool biased) {
  if (use.epsilon == nullptr || !use.epsilon->is_number()) {
    return "a norm has no `epsilon`";
  }
  const bool is_layer_norm = use.step.kind == ModuleStep::Kind::LayerNorm;
  std::string weight = out.parameter(use.name + use.step.weight_name, shape);
  // Gemma stores norm weights as their difference from 1.
  if (use.step.offset) {
    const auto offset = scope.value(*use.step.offset);
    if (!offset || !offset->is_number()) {
      return "the offset of a norm's weight is not a number";
    }
    if (offset->as_real() != 0) {
      weight = out.op("shift", {weight}, use.result + ":weight",
                      {{"by", offset->as_real()}});
    }
  }
  std::vector<std::string> operands = {use.x, std::move(weight)};
  if (is_layer_norm && biased) {
    operands.push_back(out.parameter(use.name + use.step.bias_name, shape));
  }
  out.op(is_layer_norm ? "layer_norm" : "rms_norm", std::move(operands),
         use.result, {{"epsilon", use.epsilon->as_real()}}, use.axes);
  return "";
}

}  // namespace

std::optional<FoundModule> find_module(const std::vector<ModuleStep>& steps,
                                       const ValueScope& scope,
                                       std::string_view name, bool& good) {
  using Kind = ModuleStep::Kind;
  for (const ModuleStep& each : steps) {
    if (each.kind == Kind::Switch) {
      for (const ModuleCase& one : each.cases) {
        const auto used = scope.flag(one.when);
        if (!used) {
          good = false;
          return std::nullopt;
        }
        if (!*used) continue;
        if (auto found = find_module(one.steps, scope, name, good)) {
          return found;
        }
        break;
      }
      continue;
    }
    const bool fits =
        each.name == name ||
        (each.kind == Kind::Block && each.name.empty() && each.what == name);
    if (!fits) continue;
    const auto used = scope.flag(each.when);
    if (!used) good = false;
    if (used.value_or(false)) return FoundModule{&each, scope};
  }
  return std::nullopt;
}

std::string weight_name(const ModuleStep& step, std::string_view module) {
  const bool plain = step.kind == ModuleStep::Kind::Parameter ||
                     step.kind == ModuleStep::Kind::Buffer;
  return without_outer_modules(module) + (plain ? "" : step.weight_name);
}

std::string missing_weight(const ForwardWriter& out,
                           const Architecture& architecture,
                           const std::vector<ModuleStep>& steps,
                           const ValueScope& scope, const std::string& prefix,
                           int depth) {
  const bool of_blocks = std::ranges::all_of(steps, [](const ModuleStep& step) {
    return step.kind == ModuleStep::Kind::Block;
  });
  std::string first;
  for (const ModuleStep& each : steps) {
    if (!scope.flag(each.when).value_or(false)) continue;
    if (of_blocks) {
      const auto block = architecture.blocks.find(each.what);
      if (block == architecture.blocks.end() || depth == kMaxBlockDepth) {
        return "";
      }
      const auto within = scope.within(block->second.takes,
                                       block->second.shared, each.arguments);
      if (!within) return "";
      return missing_weight(out, architecture, block->second.steps, *within,
                            joined_name(prefix, each.name), depth + 1);
    }
    const std::string name = weight_name(each, joined_name(prefix, each.name));
    if (out.has(name)) return "";
    if (first.empty()) first = name;
  }
  return first;
}

std::optional<Shape> module_shape(const ModuleStep& step,
                                  const ValueScope& scope) {
  Shape shape;
  for (const DimTree& dim : step.dims) {
    const auto size = scope.size(dim);
    if (!size) return std::nullopt;
    shape.push_back(*size);
  }
  return shape;
}

std::optional<RepeatedModule> find_repeated(
    const std::vector<ModuleStep>& steps, std::string_view name) {
  for (const ModuleStep& each : steps) {
    const bool fits = each.kind == ModuleStep::Kind::Repeat && !each.stacked &&
                      name.starts_with(each.name + ".");
    if (!fits) continue;
    const std::string_view inner = name.substr(each.name.size() + 1);
    for (const ModuleStep& module : each.steps) {
      if (module.name == inner) return RepeatedModule{&each, &module};
    }
  }
  return std::nullopt;
}

std::string write_repeated(ForwardWriter& out, const RepeatedModule& module,
                           const ValueScope& scope, const std::string& prefix,
                           int64_t count, std::string result) {
  const ModuleStep& repeat = *module.repeat;
  std::vector<std::string> rows;
  for (int64_t i = 0; i < count; ++i) {
    ValueScope own = scope;
    own.own.emplace_back(repeat.index, ConfigValue::of(i));
    const auto shape = module_shape(*module.module, own);
    if (!shape) return "";
    const bool plain = module.module->kind == ModuleStep::Kind::Parameter;
    const std::string name = without_outer_modules(joined_name(
        joined_name(prefix, numbered_name(repeat.name, repeat.index, i)),
        module.module->name));
    const std::string weight =
        out.parameter(name + (plain ? "" : module.module->weight_name), *shape);
    Shape row = *shape;
    row.insert(row.begin(), 1);
    rows.push_back(
        out.reshaped(weight, std::move(row), result + ":" + std::to_string(i)));
  }
  if (rows.size() == 1) return rows.front();
  return out.op("concatenate", std::move(rows), std::move(result),
                {{"dim", 0.0}});
}

std::string write_module(ForwardWriter& out, const ValueScope& scope,
                         const ModuleUse& use) {
  using Kind = ModuleStep::Kind;
  const auto shape = module_shape(use.step, scope);
  const auto biased =
      scope.flag(use.step.bias, use.step.kind == ModuleStep::Kind::LayerNorm);
  if (!shape || !biased) return "a module's shape is unknown";
  switch (use.step.kind) {
    case Kind::Linear:
      out.linear({.x = use.x,
                  .parameter = use.name,
                  .in = (*shape)[1],
                  .out = (*shape)[0],
                  .result = use.result,
                  .axes = use.axes,
                  .biased = *biased,
                  .conv1d = use.step.inputs_first,
                  .weight_name = use.step.weight_name,
                  .bias_name = use.step.bias_name});
      return "";
    case Kind::Embedding:
      out.op("embedding",
             {out.parameter(use.name + use.step.weight_name, *shape), use.x},
             use.result, {}, use.axes);
      return "";
    case Kind::RmsNorm:
    case Kind::LayerNorm:
      return write_norm(out, scope, use, *shape, *biased);
    default:
      return in_backticks(use.step.name) + " cannot be applied";
  }
}

}  // namespace shardplan
