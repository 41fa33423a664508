// SPDX-License-Identifier: Apache-2.0
// The facts that a config states, whatever its family and spelling.
#include <initializer_list>

#include "base/checked.h"
#include "io/formats/formats.h"
#include "io/formats/hf_families/family.h"
#include "io/formats/hf_families/windows.h"

namespace shardplan {
namespace {

// The first of the keys that holds a positive integer.
std::optional<int64_t> find_size(const Node& config,
                                 std::initializer_list<const char*> keys) {
  for (const char* key : keys) {
    const auto value = config.find(key);
    if (!value) continue;
    const std::optional<int64_t> number = value->integer();
    if (number && *number > 0) return number;
  }
  return std::nullopt;
}

bool is_null(const Node& config, const char* key) {
  const auto value = config.find(key);
  return value && value->is_null();
}

// What the family's class takes where the key holds no number; `derived` is
// what the other sizes give.
std::optional<int64_t> default_of(const HeadDefault& rule, bool null,
                                  std::optional<int64_t> derived) {
  const int64_t taken = null ? rule.null : rule.absent;
  if (taken == kRefused) return std::nullopt;
  return taken == kDerived ? derived : taken;
}

std::optional<int64_t> find_kv_heads(const Node& config, const HfFamily* family,
                                     std::optional<int64_t> heads) {
  if (const auto count = find_size(
          config, {"num_key_value_heads", "num_kv_heads", "n_kv_heads"})) {
    return count;
  }
  if (family != nullptr) {
    return default_of(family->kv_heads, is_null(config, "num_key_value_heads"),
                      heads);
  }
  // Falcon and GPTBigCode say it with a switch, each in its own way.
  if (config.find("multi_query")) return std::nullopt;
  return heads;
}

std::optional<int64_t> find_head_dim(const Node& config, const HfFamily* family,
                                     std::optional<int64_t> heads) {
  if (const auto size = find_size(config, {"head_dim", "kv_channels"})) {
    return size;
  }
  const auto hidden = find_size(config, {"hidden_size", "n_embd", "d_model"});
  std::optional<int64_t> derived;
  if (hidden && heads && *hidden % *heads == 0) derived = *hidden / *heads;
  if (family == nullptr) return derived;
  return default_of(family->head_dim, is_null(config, "head_dim"), derived);
}

// The quantisation block: FP8 says it as [rows, columns], MXFP4 has 32 values
// of a row share a scale (OCP Microscaling Formats v1.0, 5.3).
void read_quantization(const Node& config, ModelFacts& facts) {
  const auto section = config.find("quantization_config");
  if (!section || !section->is_map()) return;
  const auto method = section->find("quant_method");
  if (method && method->text() == "mxfp4") {
    facts.quant_rows = 1;
    facts.quant_columns = 32;
    return;
  }
  const auto block = section->find("weight_block_size");
  if (!block || !block->is_list() || block->size() != 2) return;
  const auto rows = block->item(0).integer();
  const auto columns = block->item(1).integer();
  if (!rows || !columns || *rows < 1 || *columns < 1) return;
  facts.quant_rows = rows;
  facts.quant_columns = columns;
}

}  // namespace

ModelFacts config_facts(const Node& config) {
  const auto inner = config.find("text_config");
  const bool nested = inner && inner->is_map();
  const Node map = nested ? *inner : config;
  // gemma3's text_config may not say what it is: ask the whole config then.
  const HfFamily* family = find_family(map);
  if (family == nullptr) family = find_family(config);

  ModelFacts facts;
  facts.heads =
      find_size(map, {"num_attention_heads", "n_head", "n_heads", "num_heads"});
  if (!facts.heads && family != nullptr && family->heads != kRefused) {
    facts.heads = family->heads;
  }
  facts.experts =
      find_size(map, {"num_local_experts", "n_routed_experts", "num_experts"});
  facts.expert_groups = find_size(map, {"n_group"});
  facts.vocab = find_size(map, {"vocab_size"});
  read_quantization(nested && map.find("quantization_config") ? map : config,
                    facts);
  facts.layers = find_size(
      map, {"num_hidden_layers", "n_layer", "n_layers", "num_layers"});
  if (const auto rank = find_size(map, {"kv_lora_rank"})) {
    // Latent attention: each head has its own part of kv_b_proj, and heads of
    // q, of k with v, and of the output differ in size. Positions are rotated
    // beside the latent.
    facts.kv_heads = facts.heads;
    facts.value_dim = find_size(map, {"v_head_dim"});
    if (const auto rope = find_size(map, {"qk_rope_head_dim"})) {
      facts.kv_latent = checked_add(*rank, *rope);
    }
  } else {
    facts.kv_heads = find_kv_heads(map, family, facts.heads);
    facts.head_dim = find_head_dim(map, family, facts.heads);
  }
  if (facts.layers) facts.windows = layer_windows(map, family, *facts.layers);
  if (facts.heads || facts.kv_heads || facts.experts || facts.layers) {
    facts.from = FactsFrom::Config;
  }
  return facts;
}

}  // namespace shardplan
