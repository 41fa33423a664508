// SPDX-License-Identifier: Apache-2.0
#include "evaluate/stacked_experts.h"

#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "core/fold.h"
#include "model/forward/parameter_names.h"

namespace shardplan {
namespace {

constexpr std::string_view kExperts = "experts";

// A parameter of one expert. Its name omits the expert's number, which follows
// the layer's number and "experts".
struct OfExpert {
  std::string name;
  int64_t expert = -1;  // -1: not a parameter of an expert
};

OfExpert of_expert(std::string_view name) {
  const NumberIn layer = first_number(name);
  if (layer.number < 0) return {};
  const NumberIn at = first_number(name.substr(layer.end));
  if (at.number < 0) return {};
  const size_t begin = layer.end + at.begin;
  const size_t end = layer.end + at.end;
  // The name has "experts" between two dots, then the number and a dot.
  if (begin < kExperts.size() + 2 || end >= name.size()) return {};
  const std::string_view before = name.substr(0, begin - 1);
  if (!before.ends_with(kExperts) ||
      before[before.size() - kExperts.size() - 1] != '.' || name[end] != '.') {
    return {};
  }
  return {std::string(before) + std::string(name.substr(end)), at.number};
}

// The parts of one stack, in order.
struct Stack {
  std::vector<uint32_t> parts;
  bool is_alike = true;
};

}  // namespace

std::optional<StackedExperts> stacked_experts(const Manifest& manifest,
                                              const std::vector<bool>& frozen,
                                              int64_t fewest) {
  const auto is_frozen = [&](size_t i) { return !frozen.empty() && frozen[i]; };
  std::unordered_map<std::string, Stack> stacks;
  std::vector<std::string> stack_of(manifest.size());
  for (size_t i = 0; i < manifest.size(); ++i) {
    OfExpert of = of_expert(manifest.name(i));
    if (of.expert < 0) continue;
    // Adapters of single experts cannot be stacked.
    if (!adapter_part(manifest.name(i)).empty()) return std::nullopt;
    Stack& stack = stacks[of.name];
    stack.is_alike = stack.is_alike && of.expert == std::ssize(stack.parts) &&
                     (stack.parts.empty() ||
                      (manifest.type_number(stack.parts.front()) ==
                           manifest.type_number(i) &&
                       is_frozen(stack.parts.front()) == is_frozen(i)));
    stack.parts.push_back(static_cast<uint32_t>(i));
    stack_of[i] = std::move(of.name);
  }
  bool is_worth_it = false;
  for (const auto& [name, stack] : stacks) {
    if (!stack.is_alike) return std::nullopt;
    is_worth_it = is_worth_it || std::ssize(stack.parts) >= fewest;
  }
  if (!is_worth_it) return std::nullopt;
  StackedExperts result;
  result.manifest = Manifest(manifest.head());
  result.part_of.resize(manifest.size());
  for (size_t i = 0; i < manifest.size(); ++i) {
    const bool is_part = !stack_of[i].empty();
    const Stack* stack = is_part ? &stacks.at(stack_of[i]) : nullptr;
    if (is_part && stack->parts.front() != i) continue;
    TensorType type = manifest.type(i);
    const auto number = static_cast<uint32_t>(result.manifest.size());
    int64_t experts = 0;
    if (is_part) {
      experts = std::ssize(stack->parts);
      type.shape.insert(type.shape.begin(), experts);
      for (const uint32_t part : stack->parts) result.part_of[part] = number;
    }
    result.part_of[i] = number;
    const std::string_view name = is_part ? stack_of[i] : manifest.name(i);
    if (!result.manifest.add(name, type, manifest.where(i))) {
      return std::nullopt;
    }
    result.first.push_back(static_cast<uint32_t>(i));
    result.experts.push_back(experts);
    if (!frozen.empty()) result.frozen.push_back(frozen[i]);
  }
  if (result.manifest.find_duplicate()) return std::nullopt;
  for (const Manifest::Buffer& buffer : manifest.buffers()) {
    result.manifest.add(buffer.name, buffer.type, buffer.where, true);
  }
  return result;
}

std::optional<Plan> stacked_plan(const StackedExperts& stacked,
                                 const Plan& plan) {
  for (size_t i = 0; i < stacked.part_of.size(); ++i) {
    const uint32_t first = stacked.first[stacked.part_of[i]];
    if (plan.placement_of[first] != plan.placement_of[i]) return std::nullopt;
  }
  // Reports name the rule that decided, so the rules are copied.
  Plan result = plan;
  result.placements.clear();
  result.placement_of.clear();
  std::map<std::pair<uint32_t, int64_t>, uint32_t> known;
  for (size_t s = 0; s < stacked.first.size(); ++s) {
    const int64_t experts = stacked.experts[s];
    const uint32_t number = plan.placement_of[stacked.first[s]];
    const auto [at, is_new] =
        known.emplace(std::pair(number, experts),
                      static_cast<uint32_t>(result.placements.size()));
    result.placement_of.push_back(at->second);
    if (!is_new) continue;
    const Placement& part = plan.placements[number];
    if (experts == 0) {
      result.placements.push_back(part);
      continue;
    }
    Placement& whole = result.placements.emplace_back();
    whole.type = part.type;
    whole.type.shape.insert(whole.type.shape.begin(), experts);
    whole.spec = part.spec;
    whole.spec.dims.resize(part.type.shape.size());
    whole.spec.dims.emplace(whole.spec.dims.begin());
    if (part.dealt) whole.spec.dims.front().push_back(part.dealt->axis);
    whole.rule = part.rule;
    whole.stored_dims = part.stored_dims;
    for (StoredDim& dim : whole.stored_dims) ++dim.dim;
    measure(whole, plan.mesh, plan.on_indivisible);
  }
  return result;
}

std::vector<int64_t> of_parts(const StackedExperts& stacked,
                              const std::vector<int64_t>& of_stacks) {
  std::vector<int64_t> result;
  result.reserve(stacked.part_of.size());
  for (const uint32_t stack : stacked.part_of) {
    result.push_back(of_stacks[stack]);
  }
  return result;
}

}  // namespace shardplan
