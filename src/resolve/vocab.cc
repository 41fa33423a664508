// SPDX-License-Identifier: Apache-2.0
#include "resolve/vocab.h"

#include <algorithm>
#include <array>

#include "resolve/tensor_name.h"

namespace shardplan {
namespace {

bool is_embedding(std::string_view module) {
  static constexpr std::array<std::string_view, 9> kNames = {
      "embed_tokens",   "wte",      "word_embeddings", "tok_embeddings",
      "token_embedder", "embed_in", "input_embedding", "token_embedding",
      "token_embd"};
  return std::find(kNames.begin(), kNames.end(), module) != kNames.end();
}

bool is_head(std::string_view module) {
  static constexpr std::array<std::string_view, 5> kNames = {
      "lm_head", "embed_out", "output_layer", "logits_dense", "output"};
  return std::find(kNames.begin(), kNames.end(), module) != kNames.end();
}

}  // namespace

std::optional<VocabUse> vocab_use(std::string_view name) {
  if (in_other_tower(name)) return std::nullopt;
  const TensorName tail = split_name(name);
  if (is_embedding(tail.module) ||
      (tail.module == "embedding" && is_embedding(tail.parent))) {
    return VocabUse::Table;
  }
  if (is_head(tail.module) ||
      (tail.module == "head" && tail.parent == "shared_head")) {
    return VocabUse::Head;
  }
  return std::nullopt;
}

std::optional<size_t> vocab_dim(std::string_view name, const TensorType& type,
                                const ModelFacts& facts) {
  const std::optional<VocabUse> use = vocab_use(name);
  if (!use) return std::nullopt;
  const TensorName tail = split_name(name);
  const Shape& shape = type.shape;
  if (shape.empty() || shape.size() > 2) return std::nullopt;
  if (facts.vocab) {
    const auto found = std::find(shape.begin(), shape.end(), *facts.vocab);
    if (found == shape.end()) return std::nullopt;
    if (std::count(shape.begin(), shape.end(), *facts.vocab) == 1) {
      return static_cast<size_t>(found - shape.begin());
    }
  }
  // A module called `output` may be anything.
  if (tail.module == "output" && !facts.vocab) return std::nullopt;
  return use == VocabUse::Head && tail.leaf == "kernel" ? shape.size() - 1 : 0;
}

}  // namespace shardplan
