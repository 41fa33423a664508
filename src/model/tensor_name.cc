// SPDX-License-Identifier: Apache-2.0
#include "model/tensor_name.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "base/words.h"

namespace shardplan {
namespace {

// Equals name.find_last_of("./"), which searches a set for every character and
// is slower.
size_t last_separator(std::string_view name) {
  for (size_t i = name.size(); i > 0; --i) {
    if (name[i - 1] == '.' || name[i - 1] == '/') return i - 1;
  }
  return std::string_view::npos;
}

// Removes the last component of `name` and returns it.
std::string_view pop_component(std::string_view& name) {
  const size_t cut = last_separator(name);
  const std::string_view last = name.substr(cut + 1);  // npos + 1 is 0
  name = cut == name.npos ? "" : name.substr(0, cut);
  return last;
}

// Skips modules that PEFT adds around the module that it adapts:
// `q_proj.base_layer`, `lm_head.modules_to_save.default`,
// `lm_head.original_module`.
void skip_wrappers(std::string_view& name, std::string_view& module) {
  if (module == "base_layer" || module == "original_module") {
    module = pop_component(name);
    return;
  }
  std::string_view above = name;
  if (pop_component(above) == "modules_to_save") {
    name = above;
    module = pop_component(name);
  }
}

bool is_number(std::string_view component) {
  return !component.empty() &&
         component.find_first_not_of("0123456789") == component.npos;
}

// Returns whether the name is like `blk.0.attn_q.weight`, below a layer's
// number.
bool is_gguf_attention(const TensorName& name) {
  return name.module.starts_with("attn_") && is_number(name.parent);
}

// Returns whether this name below one of MaxText's blocks is a stack of
// experts, not the router or another tensor next to it.
bool holds_experts(std::string_view block, std::string_view below) {
  if (block.starts_with("MoeBlock")) return below != "gate";
  return (block == "moe_block" || block == "routed_experts") &&
         (below == "wi_0" || below == "wi_1" || below == "wo");
}

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
  return std::ranges::find(kSiblings, module, &Siblings::down) !=
         kSiblings.end();
}

bool names_layers(std::string_view component) {
  return component == "layers" || component == "blocks" || component == "h" ||
         component == "layer" || component == "block" ||
         component.ends_with("_layers");
}

void note_down(const TensorName& tail, const Shape& shape, bool experts,
               LayoutHints& hints) {
  if (tail.leaf == "bias" || !is_down(tail.module)) return;
  if (experts && shape.size() == 3) {
    hints.expert_downs.emplace(shape[1], shape[2]);
  }
  if (shape.size() != 2) return;
  const size_t in = tail.leaf == "kernel" ? 0 : 1;
  hints.down_inputs[std::string(tail.module)].insert(shape[in]);
}

void agree(std::optional<int64_t>& value, int64_t seen, bool is_first) {
  if (is_first) {
    value = seen;
  } else if (value != seen) {
    value.reset();
  }
}

// Records `tensors` tensors of that shape in one stack.
void note_stack(std::string_view stack, const Shape& shape, int64_t tensors,
                LayoutHints& hints) {
  StackEvidence& seen = hints.stacks[std::string(stack)];
  const bool is_first = seen.tensors == 0;
  seen.tensors += tensors;
  seen.least_rank = std::min(seen.least_rank, shape.size());
  seen.most_rank = std::max(seen.most_rank, shape.size());
  agree(seen.first, shape.empty() ? -1 : shape[0], is_first);
  agree(seen.second, shape.size() < 2 ? -1 : shape[1], is_first);
}

bool is_embedding(std::string_view module) {
  static constexpr std::array<std::string_view, 9> kNames = {
      "embed_tokens",   "wte",      "word_embeddings", "tok_embeddings",
      "token_embedder", "embed_in", "input_embedding", "token_embedding",
      "token_embd"};
  return contains(kNames, module);
}

constexpr std::array<std::string_view, 5> kVocabHeads = {
    "lm_head", "embed_out", "output_layer", "logits_dense", "output"};

}  // namespace

TensorName split_name(std::string_view name) {
  TensorName tail;
  tail.leaf = pop_component(name);
  const bool named = tail.leaf == "weight" || tail.leaf == "kernel" ||
                     tail.leaf == "bias" || tail.leaf == "scale";
  tail.module = named ? pop_component(name) : tail.leaf;
  if (named) skip_wrappers(name, tail.module);
  tail.parent = pop_component(name);
  return tail;
}

bool is_attention(std::string_view component) {
  static constexpr std::array<std::string_view, 8> kNames = {
      "self_attn",
      "attn",
      "attention",
      "self_attention",
      "cross_attn",
      "crossattention",
      "self_attention_local",
      "self_attention_global"};
  return contains(kNames, component);
}

bool in_attention(const TensorName& name) {
  return is_attention(name.parent) || is_gguf_attention(name);
}

bool in_other_tower(std::string_view name) {
  return contains(name, "vision") || contains(name, "visual") ||
         contains(name, "audio");
}

std::optional<Role> role_of(const TensorName& name) {
  static constexpr std::array<std::pair<std::string_view, Role>, 18> kRoles = {{
      {"q_proj", Role::Query},
      {"wq", Role::Query},
      {"query", Role::Query},
      {"k_proj", Role::Key},
      {"wk", Role::Key},
      {"key", Role::Key},
      {"v_proj", Role::Value},
      {"wv", Role::Value},
      {"value", Role::Value},
      {"q_b_proj", Role::LatentUp},
      {"kv_b_proj", Role::LatentUp},
      {"o_proj", Role::Output},
      {"wo", Role::Output},
      {"out", Role::Output},
      {"out_proj", Role::Output},
      {"dense", Role::Output},        // NeoX, BLOOM, Falcon
      {"linear_proj", Role::Output},  // Megatron
      {"c_proj", Role::ConvOutput},
  }};
  static constexpr std::array<std::pair<std::string_view, Role>, 6> kGgufRoles =
      {{{"attn_q", Role::Query},
        {"attn_k", Role::Key},
        {"attn_v", Role::Value},
        {"attn_q_b", Role::LatentUp},
        {"attn_kv_b", Role::LatentUp},
        {"attn_output", Role::Output}}};
  const auto find = [&](const auto& roles) -> std::optional<Role> {
    for (const auto& [module, role] : roles) {
      if (name.module == module) return role;
    }
    return std::nullopt;
  };
  if (is_gguf_attention(name)) return find(kGgufRoles);
  return is_attention(name.parent) ? find(kRoles) : std::nullopt;
}

std::optional<TensorKind> tensor_kind(const TensorName& name) {
  if (name.leaf == "weight") return TensorKind::Weight;
  if (name.leaf == "kernel") return TensorKind::Kernel;
  if (name.leaf == "bias") return TensorKind::Bias;
  return std::nullopt;
}

ExpertName expert_name(std::string_view name) {
  const std::string_view module = split_name(name).module;
  if (module.starts_with("ffn_") && module.ends_with("_exps")) {
    return {.stacked = true};
  }
  while (!name.empty()) {
    const std::string_view after = pop_component(name);
    const std::string_view last = name.substr(last_separator(name) + 1);
    if (last != "experts" && last != "expert" && !holds_experts(last, after)) {
      continue;
    }
    if (!after.empty() && !is_number(after)) return {.stacked = true};
    // A number that is too large still means one expert, not a stack.
    return {false, parse_integer(after), after};
  }
  return {};
}

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
  // Without facts: norms are stacked to rank 2 and matrices to rank 3. No other
  // layout gives every tensor of a name the same size in one place.
  constexpr int64_t kEnough = 3;
  const bool is_plain =
      stack.tensors >= kEnough && stack.least_rank == 2 && stack.most_rank > 2;
  const auto agrees = [&](std::optional<int64_t> size) {
    return size && *size > 1 && (is_plain || size == layers);
  };
  const bool first = agrees(stack.first);
  const bool second = stack.least_rank > 1 && agrees(stack.second);
  if (first == second) {
    // Both sizes agree everywhere: use the one in the facts, if it is only one.
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
  hints.kinds = manifest.kinds;
  // Classes whose members are in several stacks.
  std::vector<bool> separate(folding.classes.size(), false);
  bool any_separate = false;
  for (size_t number = 0; number < folding.classes.size(); ++number) {
    const ParameterClass& c = folding.classes[number];
    const std::string_view name = manifest.name(c.first);
    const Shape& shape = manifest.type(c.first).shape;
    const TensorName tail = split_name(name);
    const bool experts = expert_name(name).stacked;
    note_down(tail, shape, experts, hints);
    if (experts && (tail.module == "gate_up_proj_bias" ||
                    tail.module == "gate_up_proj_blocks")) {
      hints.alternating_experts = true;
    }
    const std::string_view stack = stack_of(name);
    if (stack.empty()) continue;
    if (has_number(stack)) {
      separate[number] = any_separate = true;
    } else {
      note_stack(stack, shape, c.count, hints);
    }
  }
  if (!any_separate) return hints;
  for (size_t i = 0; i < manifest.size(); ++i) {
    if (!separate[folding.class_of[i]]) continue;
    note_stack(stack_of(manifest.name(i)), manifest.type(i).shape, 1, hints);
  }
  return hints;
}

LayoutHints layout_hints(const Manifest& manifest) {
  return layout_hints(manifest, fold_by_type(manifest));
}

std::optional<VocabUse> vocab_use(std::string_view name) {
  if (in_other_tower(name)) return std::nullopt;
  const TensorName tail = split_name(name);
  if (is_embedding(tail.module) ||
      (tail.module == "embedding" && is_embedding(tail.parent))) {
    return VocabUse::Table;
  }
  if (contains(kVocabHeads, tail.module) ||
      (tail.module == "head" && tail.parent == "shared_head")) {
    return VocabUse::Head;
  }
  return std::nullopt;
}

std::optional<size_t> vocab_dim(std::string_view name, const TensorType& type,
                                const Facts& facts) {
  const std::optional<VocabUse> use = vocab_use(name);
  if (!use) return std::nullopt;
  const Shape& shape = type.shape;
  if (shape.empty() || shape.size() > 2) return std::nullopt;
  if (facts.vocab) {
    const auto found = std::ranges::find(shape, *facts.vocab);
    if (found == shape.end()) return std::nullopt;
    if (std::ranges::count(shape, *facts.vocab) == 1) {
      return to_size(found - shape.begin());
    }
  }
  const TensorName tail = split_name(name);
  // A module named `output` may be anything.
  if (tail.module == "output" && !facts.vocab) return std::nullopt;
  return use == VocabUse::Head && tail.leaf == "kernel" ? shape.size() - 1 : 0;
}

}  // namespace shardplan
