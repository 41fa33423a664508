// SPDX-License-Identifier: Apache-2.0
#include "resolve/tensor_name.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

namespace shardplan {
namespace {

// name.find_last_of("./"), which searches a set for every character.
size_t last_separator(std::string_view name) {
  for (size_t i = name.size(); i > 0; --i) {
    if (name[i - 1] == '.' || name[i - 1] == '/') return i - 1;
  }
  return std::string_view::npos;
}

// Removes the last component of `name` and returns it.
std::string_view pop_component(std::string_view& name) {
  const size_t cut = last_separator(name);
  const std::string_view last =
      cut == std::string_view::npos ? name : name.substr(cut + 1);
  name = cut == std::string_view::npos ? "" : name.substr(0, cut);
  return last;
}

// `blk.0.attn_q.weight`: below a layer's number.
bool is_gguf_attention(const TensorName& name) {
  return name.module.starts_with("attn_") && !name.parent.empty() &&
         name.parent.find_first_not_of("0123456789") == std::string_view::npos;
}

}  // namespace

TensorName split_name(std::string_view name) {
  TensorName tail;
  tail.leaf = pop_component(name);
  const bool named = tail.leaf == "weight" || tail.leaf == "kernel" ||
                     tail.leaf == "bias" || tail.leaf == "scale";
  tail.module = named ? pop_component(name) : tail.leaf;
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
  return std::find(kNames.begin(), kNames.end(), component) != kNames.end();
}

bool in_attention(const TensorName& name) {
  return is_attention(name.parent) || is_gguf_attention(name);
}

bool in_other_tower(std::string_view name) {
  return name.find("vision") != std::string_view::npos ||
         name.find("visual") != std::string_view::npos ||
         name.find("audio") != std::string_view::npos;
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
    return {true, std::nullopt, {}};
  }
  while (!name.empty()) {
    const std::string_view after = pop_component(name);
    const std::string_view last = name.substr(last_separator(name) + 1);
    if (last != "experts" && last != "expert" &&
        !last.starts_with("MoeBlock")) {
      continue;
    }
    if (after.find_first_not_of("0123456789") != std::string_view::npos) {
      return {true, std::nullopt, {}};
    }
    int64_t number = 0;
    const char* end = after.data() + after.size();
    // A number too large to hold is one all the same: not stacked.
    if (std::from_chars(after.data(), end, number).ec != std::errc()) {
      return {false, std::nullopt, after};
    }
    return {false, number, after};
  }
  return {};
}

}  // namespace shardplan
