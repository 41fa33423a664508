// SPDX-License-Identifier: Apache-2.0
// The config of a Llama whose steps are quick to partition.
#pragma once

#include "tests/support/hf_config.h"

namespace shardplan::testing {

inline Json tiny_llama() {
  return {{"architectures", {"LlamaForCausalLM"}},
          {"model_type", "llama"},
          {"vocab_size", 512},
          {"hidden_size", 64},
          {"intermediate_size", 160},
          {"num_hidden_layers", 4},
          {"num_attention_heads", 8},
          {"num_key_value_heads", 2},
          {"rms_norm_eps", 1e-5},
          {"hidden_act", "silu"},
          {"torch_dtype", "bfloat16"}};
}

}  // namespace shardplan::testing
