// SPDX-License-Identifier: Apache-2.0
#include "io/gguf/facts.h"

#include <algorithm>
#include <optional>

#include "base/checked.h"
#include "base/text.h"
#include "base/words.h"

namespace shardplan {
namespace {

struct FactReader {
  const GgufMetadata& metadata;
  std::vector<std::string>& remarks;
  std::string prefix;  // "llama."

  Facts read() {
    Facts facts;
    facts.layers = size("block_count");
    facts.heads = agreed("attention.head_count");
    facts.experts = size("expert_count");
    facts.expert_groups = size("expert_group_count");
    facts.vocab = size("vocab_size");
    if (!facts.vocab) facts.vocab = metadata.length("tokenizer.ggml.tokens");
    if (facts.vocab == 0) facts.vocab.reset();
    size("attention.kv_lora_rank") ? read_latent(facts) : read_heads(facts);
    read_windows(facts);
    if (facts.heads || facts.kv_heads || facts.experts || facts.layers) {
      facts.from = FactsFrom::Manifest;
    }
    return facts;
  }

  // Returns a positive number.
  std::optional<int64_t> size(const std::string& key) const {
    const auto value = metadata.integer(prefix + key);
    return value && *value > 0 ? value : std::nullopt;
  }

  // Returns a value that all layers share. It is given once or per layer, with
  // 0 for layers without attention.
  std::optional<int64_t> agreed(const std::string& key) {
    const auto values = metadata.integers(prefix + key);
    if (!values) return std::nullopt;
    std::optional<int64_t> found;
    for (const int64_t value : *values) {
      if (value < 1) continue;
      if (found && *found != value) {
        remarks.push_back("layers differ in " + in_backticks(prefix + key) +
                          " (" + std::to_string(*found) + " and " +
                          std::to_string(value) +
                          "), so this value is treated as unknown");
        return std::nullopt;
      }
      found = value;
    }
    return found;
  }

  void read_heads(Facts& facts) {
    const bool says_kv =
        metadata.integers(prefix + "attention.head_count_kv").has_value();
    facts.kv_heads = says_kv ? agreed("attention.head_count_kv") : facts.heads;
    facts.head_dim = size("attention.key_length");
    const auto hidden = size("embedding_length");
    if (!facts.head_dim && hidden && facts.heads &&
        *hidden % *facts.heads == 0) {
      facts.head_dim = *hidden / *facts.heads;
    }
    const auto value_dim = size("attention.value_length");
    if (value_dim != facts.head_dim) facts.value_dim = value_dim;
  }

  // Every head projects its own part from the latent. The cache holds the
  // latent and, next to it, the rotated positions.
  void read_latent(Facts& facts) {
    facts.kv_heads = facts.heads;
    facts.value_dim = size("attention.value_length_mla");
    if (!facts.value_dim) facts.value_dim = size("attention.value_length");
    if (const auto rope = size("rope.dimension_count")) {
      facts.kv_latent = checked_add(*size("attention.kv_lora_rank"), *rope);
    }
  }

  void read_windows(Facts& facts) {
    if (!facts.layers) return;
    const size_t layers = to_size(*facts.layers);
    const auto window = size("attention.sliding_window");
    const auto sliding =
        metadata.integers(prefix + "attention.sliding_window_pattern");
    const auto kv = metadata.integers(prefix + "attention.head_count_kv");
    const bool per_layer = kv && kv->size() == layers && layers > 1;
    const bool some_without = per_layer && contains(*kv, 0);
    if (!window && !some_without) return;
    const bool patterned = sliding && sliding->size() == layers && layers > 1;
    // The number of layers is limited, since the file may state any number.
    constexpr size_t kMaxGgufLayers = 100'000;
    if (layers > kMaxGgufLayers) return;
    for (size_t i = 0; i < layers; ++i) {
      int64_t reach = 0;
      if (window) {
        reach = !patterned ? kUnknownWindow : sliding->at(i) != 0 ? *window : 0;
      }
      if (some_without && kv->at(i) == 0) reach = kUnknownWindow;
      facts.windows.push_back(reach);
    }
  }
};

}  // namespace

Facts gguf_facts(const GgufMetadata& metadata,
                 std::vector<std::string>& remarks) {
  const auto name = metadata.text("general.architecture");
  if (!name) return {};
  return FactReader{metadata, remarks, std::string(*name) + "."}.read();
}

}  // namespace shardplan
