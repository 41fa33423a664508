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

std::optional<size_t> vocab_dim(std::string_view name, const TensorType& type,
                                const ModelFacts& facts) {
  if (in_other_tower(name)) return std::nullopt;
  const TensorName tail = split_name(name);
  const bool table = is_embedding(tail.module) ||
                     (tail.module == "embedding" && is_embedding(tail.parent));
  const bool head = is_head(tail.module) ||
                    (tail.module == "head" && tail.parent == "shared_head");
  if (!table && !head) return std::nullopt;
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
  return head && tail.leaf == "kernel" ? shape.size() - 1 : 0;
}

}  // namespace shardplan
