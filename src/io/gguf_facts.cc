// SPDX-License-Identifier: Apache-2.0
#include "io/gguf_facts.h"

#include <algorithm>
#include <optional>

#include "base/checked.h"
#include "base/text.h"

namespace shardplan {
namespace {

class FactReader {
 public:
  FactReader(const GgufMetadata& metadata, std::vector<std::string>& remarks)
      : metadata_(metadata), remarks_(remarks) {
    if (const auto name = metadata.text("general.architecture")) {
      prefix_ = std::string(*name) + ".";
    }
  }

  ModelFacts read() {
    ModelFacts facts;
    if (prefix_.empty()) return facts;
    facts.layers = size("block_count");
    facts.heads = agreed("attention.head_count");
    facts.experts = size("expert_count");
    facts.expert_groups = size("expert_group_count");
    facts.vocab = size("vocab_size");
    if (!facts.vocab) facts.vocab = metadata_.length("tokenizer.ggml.tokens");
    if (facts.vocab == 0) facts.vocab.reset();
    size("attention.kv_lora_rank") ? read_latent(facts) : read_heads(facts);
    read_windows(facts);
    if (facts.heads || facts.kv_heads || facts.experts || facts.layers) {
      facts.from = FactsFrom::Manifest;
    }
    return facts;
  }

 private:
  // A positive number.
  std::optional<int64_t> size(const std::string& key) const {
    const auto value = metadata_.integer(prefix_ + key);
    return value && *value > 0 ? value : std::nullopt;
  }

  // A number for all layers, or one per layer, 0 for those without attention.
  std::optional<int64_t> agreed(const std::string& key) {
    const auto values = metadata_.integers(prefix_ + key);
    if (!values) return std::nullopt;
    std::optional<int64_t> found;
    for (const int64_t value : *values) {
      if (value < 1) continue;
      if (found && *found != value) {
        remarks_.push_back("layers differ in `" + printable(prefix_ + key) +
                           "` (" + std::to_string(*found) + " and " +
                           std::to_string(value) +
                           "), so this fact is taken as unknown");
        return std::nullopt;
      }
      found = value;
    }
    return found;
  }

  void read_heads(ModelFacts& facts) {
    const bool says_kv =
        metadata_.integers(prefix_ + "attention.head_count_kv").has_value();
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

  // Every head has its own part of what the latent is projected to; the cache
  // has the latent and, beside it, the rotated positions.
  void read_latent(ModelFacts& facts) {
    facts.kv_heads = facts.heads;
    facts.value_dim = size("attention.value_length_mla");
    if (!facts.value_dim) facts.value_dim = size("attention.value_length");
    if (const auto rope = size("rope.dimension_count")) {
      facts.kv_latent = checked_add(*size("attention.kv_lora_rank"), *rope);
    }
  }

  void read_windows(ModelFacts& facts) {
    if (!facts.layers) return;
    const auto layers = static_cast<size_t>(*facts.layers);
    const auto window = size("attention.sliding_window");
    const auto sliding =
        metadata_.integers(prefix_ + "attention.sliding_window_pattern");
    const auto kv = metadata_.integers(prefix_ + "attention.head_count_kv");
    const bool per_layer = kv && kv->size() == layers && layers > 1;
    const bool some_without =
        per_layer && std::find(kv->begin(), kv->end(), 0) != kv->end();
    if (!window && !some_without) return;
    const bool patterned = sliding && sliding->size() == layers && layers > 1;
    // Only so many as an array in the file has, or a model may have.
    constexpr size_t kMostLayers = 100'000;
    if (layers > kMostLayers) return;
    for (size_t i = 0; i < layers; ++i) {
      int64_t reach = 0;
      if (window) {
        reach = !patterned ? kUnknownWindow : sliding->at(i) != 0 ? *window : 0;
      }
      if (some_without && kv->at(i) == 0) reach = kUnknownWindow;
      facts.windows.push_back(reach);
    }
  }

  const GgufMetadata& metadata_;
  std::vector<std::string>& remarks_;
  std::string prefix_;  // "llama."
};

}  // namespace

ModelFacts gguf_facts(const GgufMetadata& metadata,
                      std::vector<std::string>& remarks) {
  return FactReader(metadata, remarks).read();
}

}  // namespace shardplan
