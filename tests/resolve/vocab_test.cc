// SPDX-License-Identifier: Apache-2.0
#include "resolve/vocab.h"

#include <string>

#include <doctest/doctest.h>

#include "tests/support/builders.h"

namespace shardplan {
namespace {

// "0", or "" where there is none.
std::string dim_of(const char* name, const char* type,
                   std::optional<int64_t> vocab = std::nullopt) {
  ModelFacts facts;
  facts.vocab = vocab;
  const auto dim = vocab_dim(name, testing::type(type), facts);
  return dim ? std::to_string(*dim) : "";
}

TEST_CASE("embeddings and heads have the vocabulary where their layout says") {
  CHECK(dim_of("model.embed_tokens.weight", "bf16[1000, 64]") == "0");
  CHECK(dim_of("model/embed_tokens/embedding", "bf16[1000, 64]") == "0");
  CHECK(dim_of("wte.weight", "bf16[1000, 64]") == "0");
  CHECK(dim_of("transformer.word_embeddings.weight", "f16[1000, 64]") == "0");
  CHECK(dim_of("lm_head.weight", "bf16[1000, 64]") == "0");
  CHECK(dim_of("lm_head/kernel", "bf16[64, 1000]") == "1");
  CHECK(dim_of("token_embd.weight", "q6_k[1000, 256]") == "0");
  CHECK(dim_of("lm_head.bias", "bf16[1000]") == "0");
  CHECK(dim_of("layers.61.shared_head.head.weight", "bf16[1000, 64]") == "0");
}

TEST_CASE("the size that the facts give decides") {
  CHECK(dim_of("output.weight", "bf16[1000, 64]", 1000) == "0");
  CHECK(dim_of("decoder/logits_dense/kernel", "bf16[64, 1000]", 1000) == "1");
  CHECK(dim_of("lm_head.weight", "bf16[1000, 64]", 999).empty());
  CHECK(dim_of("lm_head/kernel", "bf16[64, 64]", 64) == "1");
}

TEST_CASE("nothing else has a vocabulary") {
  CHECK(dim_of("wpe.weight", "bf16[1000, 64]").empty());
  CHECK(dim_of("attention.output.weight", "bf16[1000, 64]").empty());
  CHECK(dim_of("vision.embed_tokens.weight", "bf16[1000, 64]").empty());
  CHECK(dim_of("model.layers.0.mlp.up_proj.weight", "bf16[1000, 64]", 1000)
            .empty());
  CHECK(dim_of("lm_head.weight", "bf16[]").empty());
  CHECK(dim_of("lm_head.weight", "bf16[2, 3, 4]").empty());
}

TEST_CASE("a table and a head are told by their names") {
  CHECK(vocab_use("model.embed_tokens.weight") == VocabUse::Table);
  CHECK(vocab_use("model/embed_tokens/embedding") == VocabUse::Table);
  CHECK(vocab_use("lm_head/kernel") == VocabUse::Head);
  CHECK(vocab_use("model/layers/0/mlp/up_proj/kernel") == std::nullopt);
}

}  // namespace
}  // namespace shardplan
