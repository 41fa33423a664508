// SPDX-License-Identifier: Apache-2.0
#include "resolve/layout_hints.h"

#include <algorithm>
#include <array>
#include <vector>

#include "resolve/tensor_name.h"

namespace shardplan {
namespace {

struct Siblings {
  std::string_view up;
  std::string_view down;
};
constexpr std::array<Siblings, 8> kSiblings = {{
    {"gate_up_proj", "down_proj"},
    {"dense_h_to_4h", "dense_4h_to_h"},  // ChatGLM, old Megatron
    {"linear_fc1", "linear_fc2"},        // Megatron
    {"w13", "w2"},                       // vLLM
    {"w13_weight", "w2_weight"},         // vLLM, experts
    {"ffn_up", "ffn_down"},              // GGUF; packed in Phi-3
    {"gate_up_proj_bias", "down_proj"},
    {"w13_bias", "w2_weight"},
}};

bool is_down(std::string_view module) {
  return std::any_of(kSiblings.begin(), kSiblings.end(),
                     [&](const Siblings& s) { return s.down == module; });
}

bool is_number(std::string_view component) {
  return !component.empty() &&
         component.find_first_not_of("0123456789") == component.npos;
}

bool names_layers(std::string_view component) {
  return component == "layers" || component == "blocks" || component == "h" ||
         component == "layer" || component == "block" ||
         component.ends_with("_layers");
}

void note_down(const TensorName& tail, const TensorType& type, bool experts,
               LayoutHints& hints) {
  const Shape& shape = type.shape;
  if (tail.leaf == "bias" || !is_down(tail.module)) return;
  if (experts && shape.size() == 3) {
    hints.expert_downs.emplace(shape[1], shape[2]);
  }
  if (shape.size() != 2) return;
  const size_t in = tail.leaf == "kernel" ? 0 : 1;
  const auto known = hints.down_inputs.find(tail.module);
  if (known == hints.down_inputs.end()) {
    hints.down_inputs[std::string(tail.module)].insert(shape[in]);
  } else {
    known->second.insert(shape[in]);
  }
}

void agree(std::optional<int64_t>& value, int64_t seen, bool is_first) {
  if (is_first) {
    value = seen;
  } else if (value != seen) {
    value.reset();
  }
}

// `tensors` tensors of that shape in one stack.
void note_stack(std::string_view stack, const Shape& shape, int64_t tensors,
                LayoutHints& hints) {
  auto known = hints.stacks.find(stack);
  if (known == hints.stacks.end()) {
    known = hints.stacks.emplace(std::string(stack), StackEvidence()).first;
  }
  StackEvidence& seen = known->second;
  const bool is_first = seen.tensors == 0;
  seen.tensors += tensors;
  seen.least_rank = std::min(seen.least_rank, shape.size());
  seen.most_rank = std::max(seen.most_rank, shape.size());
  agree(seen.first, shape.empty() ? -1 : shape[0], is_first);
  agree(seen.second, shape.size() < 2 ? -1 : shape[1], is_first);
}

}  // namespace

std::string_view down_module(std::string_view up_module) {
  for (const Siblings& siblings : kSiblings) {
    if (siblings.up == up_module) return siblings.down;
  }
  return "";
}

std::string_view stack_of(std::string_view name) {
  size_t begin = 0;
  while (true) {
    const size_t end = name.find_first_of("./", begin);
    if (end == name.npos) return "";
    const size_t next =
        std::min(name.find_first_of("./", end + 1), name.size());
    if (names_layers(name.substr(begin, end - begin))) {
      const std::string_view after = name.substr(end + 1, next - end - 1);
      return is_number(after) ? "" : name.substr(0, end);
    }
    begin = end + 1;
  }
}

std::optional<StackedLayers> stacked_layers(const StackEvidence& stack,
                                            std::optional<int64_t> layers) {
  if (stack.least_rank == 0) return std::nullopt;
  // Without facts: norms are stacked to rank 2 and matrices to 3, and nothing
  // else gives every tensor of a name the same size in one place.
  constexpr int64_t kEnough = 3;
  const bool is_plain =
      stack.tensors >= kEnough && stack.least_rank == 2 && stack.most_rank > 2;
  const auto agrees = [&](std::optional<int64_t> size) {
    return size && *size > 1 && (is_plain || size == layers);
  };
  const bool first = agrees(stack.first);
  const bool second = stack.least_rank > 1 && agrees(stack.second);
  if (first == second) {
    // Both are alike everywhere: the one that the facts tell, if only one is.
    if (!first || stack.first == stack.second) return std::nullopt;
    if (stack.first == layers) return StackedLayers{0, *layers};
    if (stack.second == layers) return StackedLayers{1, *layers};
    return std::nullopt;
  }
  return first ? StackedLayers{0, *stack.first}
               : StackedLayers{1, *stack.second};
}

LayoutHints layout_hints(const Manifest& manifest, const Folding& folding) {
  LayoutHints hints;
  hints.blocks = quant_blocks(manifest, folding);
  // Classes whose members lie in several stacks.
  std::vector<bool> apart(folding.classes.size(), false);
  bool any_apart = false;
  for (size_t number = 0; number < folding.classes.size(); ++number) {
    const ParameterClass& c = folding.classes[number];
    const std::string_view name = manifest.name(c.first);
    const TensorType& type = manifest.type(c.first);
    const TensorName tail = split_name(name);
    const bool experts = expert_name(name).stacked;
    note_down(tail, type, experts, hints);
    if (experts && (tail.module == "gate_up_proj_bias" ||
                    tail.module == "gate_up_proj_blocks")) {
      hints.alternating_experts = true;
    }
    const std::string_view stack = stack_of(name);
    if (stack.empty()) continue;
    if (has_number(stack)) {
      apart[number] = any_apart = true;
    } else {
      note_stack(stack, type.shape, c.count, hints);
    }
  }
  if (!any_apart) return hints;
  for (size_t i = 0; i < manifest.size(); ++i) {
    if (!apart[folding.class_of[i]]) continue;
    note_stack(stack_of(manifest.name(i)), manifest.type(i).shape, 1, hints);
  }
  return hints;
}

LayoutHints layout_hints(const Manifest& manifest) {
  return layout_hints(manifest, fold_by_type(manifest));
}

}  // namespace shardplan
