// SPDX-License-Identifier: Apache-2.0
// The families of models whose checkpoint follows from their config.json.
//
// A family is a row of hf_families() (hf_config.cc) and a function that writes
// its tensors in the order in which the model has them: embedding, layers,
// norm, head. Names and shapes are those of the checkpoints on the Hub, which
// tests compare with recordings of the modules of transformers (tests/data/hf).
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "io/formats/hf_families/config_reader.h"
#include "io/formats/hf_families/tensor_writer.h"

namespace shardplan {

// What a key means where it is absent, and where it is null.
inline constexpr int64_t kDerived = 0;  // from the other sizes
inline constexpr int64_t kRefused = -1;
struct HeadDefault {
  int64_t absent = kDerived;
  int64_t null = kDerived;
};

struct HfFamily {
  std::string_view model_type = {};
  std::string_view architecture = {};  // the one whose checkpoint is meant
  void (*write)(const HfFamily&, ConfigReader&, TensorWriter&) = nullptr;
  bool tied = false;          // where `tie_word_embeddings` is absent
  HeadDefault kv_heads = {};  // derived: as many as heads
  HeadDefault head_dim = {};  // derived: hidden_size over heads
  // The one `quant_method` whose tensors are known; "" for none.
  std::string_view quantization = {};
  int64_t heads = kRefused;  // where `num_attention_heads` is absent
};
std::span<const HfFamily> hf_families();
// The family of a config by `model_type`, of several rows the one that
// `architectures` names; without a `model_type` by `architectures`. Null when
// it is none of ours. Reports nothing.
const HfFamily* find_family(const Node& config);

// dense.cc
void write_llama(const HfFamily&, ConfigReader&, TensorWriter&);
void write_mistral(const HfFamily&, ConfigReader&, TensorWriter&);
void write_qwen2(const HfFamily&, ConfigReader&, TensorWriter&);
void write_qwen3(const HfFamily&, ConfigReader&, TensorWriter&);
// mixtral.cc, qwen3_moe.cc, gemma.cc, ...
void write_mixtral(const HfFamily&, ConfigReader&, TensorWriter&);
void write_qwen3_moe(const HfFamily&, ConfigReader&, TensorWriter&);
void write_gemma2(const HfFamily&, ConfigReader&, TensorWriter&);
void write_gemma3_text(const HfFamily&, ConfigReader&, TensorWriter&);
void write_gemma3(const HfFamily&, ConfigReader&, TensorWriter&);
void write_gpt2(const HfFamily&, ConfigReader&, TensorWriter&);
void write_bert(const HfFamily&, ConfigReader&, TensorWriter&);
void write_bert_masked_lm(const HfFamily&, ConfigReader&, TensorWriter&);
void write_gpt_oss(const HfFamily&, ConfigReader&, TensorWriter&);
void write_deepseek_v3(const HfFamily&, ConfigReader&, TensorWriter&);

}  // namespace shardplan
