// SPDX-License-Identifier: Apache-2.0
// model.safetensors.index.json beside one shard (named `a`), and, by the first
// bit, a config.
#include "tests/fuzz/fuzz_manifest.h"

FUZZ_TARGET(index) {
  using namespace shardplan;
  if (size == 0) return 0;
  const std::string header =
      R"({"x":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";
  std::string shard(8, '\0');
  shard[0] = static_cast<char>(header.size());
  testing::MemoryHost host;
  host.files["a"] = shard + header;
  if ((data[0] & 1U) != 0) {
    host.files["config.json"] =
        R"({"model_type":"llama","hidden_size":8,"num_hidden_layers":1,)"
        R"("num_attention_heads":2,"intermediate_size":4,"vocab_size":5})";
  }
  host.files["model.safetensors.index.json"] =
      std::string(fuzz::text_of(data + 1, size - 1));
  fuzz::load_and_check("model.safetensors.index.json", host);
  return 0;
}
