// SPDX-License-Identifier: Apache-2.0
// Small models that an engine serves.
#pragma once

#include <memory>
#include <optional>

#include "model/model.h"
#include "serve/serving.h"
#include "tests/support/hf_config.h"

namespace shardplan::testing {

// 2 layers, 8 heads and 2 KV heads of 32, an MLP of 512, a vocabulary of 1000.
inline Json served_llama() {
  return Json::parse(R"({"model_type": "llama",
    "architectures": ["LlamaForCausalLM"], "dtype": "bfloat16",
    "hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 2,
    "num_attention_heads": 8, "num_key_value_heads": 2, "head_dim": 32,
    "vocab_size": 1000, "tie_word_embeddings": false})");
}

// The same with 4 experts, each a tensor of its own.
inline Json served_mixtral() {
  return Json::parse(R"({"model_type": "mixtral",
    "architectures": ["MixtralForCausalLM"], "dtype": "bfloat16",
    "hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 2,
    "num_attention_heads": 8, "num_key_value_heads": 2, "head_dim": 32,
    "vocab_size": 1000, "tie_word_embeddings": false,
    "num_local_experts": 4, "num_experts_per_tok": 2})");
}

// Latent attention, a dense layer and two of 8 experts, and one that predicts
// a further token.
inline Json served_deepseek() {
  return Json::parse(R"({"model_type": "deepseek_v3",
    "architectures": ["DeepseekV3ForCausalLM"], "dtype": "bfloat16",
    "hidden_size": 256, "intermediate_size": 512, "moe_intermediate_size": 128,
    "num_hidden_layers": 3, "first_k_dense_replace": 1,
    "num_attention_heads": 8, "num_key_value_heads": 8, "q_lora_rank": 64,
    "kv_lora_rank": 128, "qk_nope_head_dim": 32, "qk_rope_head_dim": 16,
    "v_head_dim": 32, "n_routed_experts": 8, "n_shared_experts": 1,
    "num_experts_per_tok": 2, "n_group": 2, "topk_group": 1,
    "vocab_size": 1024, "tie_word_embeddings": false,
    "num_nextn_predict_layers": 1})");
}

// Of a model that is served once.
inline std::optional<Serving> served_once(const Manifest& manifest,
                                          const ServingInput& input,
                                          Diagnostics& diags) {
  const Model model(manifest);
  const auto known = known_weights(model, *input.engine, diags);
  return known ? serve(*known, input, diags) : std::nullopt;
}

}  // namespace shardplan::testing
