// SPDX-License-Identifier: Apache-2.0
#include "io/gguf_facts.h"

#include <doctest/doctest.h>

#include "tests/support/gguf.h"

namespace shardplan {
namespace {

using testing::GgufFile;

struct Told {
  std::string bytes;
  ModelFacts facts;
  std::vector<std::string> remarks;
};

Told told(const GgufFile& file, int pairs) {
  Told result;
  result.bytes = file.header();
  GgufCursor cursor(result.bytes, 24);
  GgufMetadata metadata;
  for (int i = 0; i < pairs; ++i) REQUIRE(metadata.add(cursor).empty());
  REQUIRE(cursor.good());
  result.facts = gguf_facts(metadata, result.remarks);
  return result;
}

TEST_CASE("a model says its layers, heads and vocabulary") {
  const ModelFacts facts = told(testing::llama_gguf(), 7).facts;
  CHECK(facts.from == FactsFrom::Manifest);
  CHECK(facts.layers == 2);
  CHECK(facts.heads == 4);
  CHECK(facts.kv_heads == 2);
  CHECK(facts.head_dim == 64);
  CHECK_FALSE(facts.value_dim);
  CHECK(facts.vocab == 1000);
  CHECK_FALSE(facts.experts);
  CHECK(facts.windows.empty());
}

TEST_CASE("without KV heads of its own a model has as many as heads") {
  GgufFile file;
  file.text("general.architecture", "gpt2")
      .u32("gpt2.attention.head_count", 12)
      .u32("gpt2.attention.key_length", 80)
      .u32("gpt2.attention.value_length", 48)
      .texts("tokenizer.ggml.tokens", {"a", "b", "c"});
  const ModelFacts facts = told(file, 5).facts;
  CHECK(facts.kv_heads == 12);
  CHECK(facts.head_dim == 80);
  CHECK(facts.value_dim == 48);
  CHECK(facts.vocab == 3);
}

TEST_CASE("nothing is told of heads where the metadata says nothing") {
  GgufFile file;
  file.text("general.architecture", "llama").u32("qwen2.block_count", 3);
  CHECK(told(file, 2).facts.from == FactsFrom::None);
  GgufFile none;
  none.u32("llama.block_count", 3);
  CHECK(told(none, 1).facts.from == FactsFrom::None);
}

TEST_CASE("numbers per layer count where layers agree") {
  GgufFile file;
  file.text("general.architecture", "lfm2")
      .u32("lfm2.block_count", 3)
      .u32("lfm2.attention.head_count", 32)
      .u32s("lfm2.attention.head_count_kv", {0, 8, 8});
  const Told agreed = told(file, 4);
  CHECK(agreed.facts.kv_heads == 8);
  CHECK(agreed.facts.windows == std::vector<int64_t>{kUnknownWindow, 0, 0});
  CHECK(agreed.remarks.empty());

  GgufFile differ;
  differ.text("general.architecture", "deci")
      .u32("deci.attention.head_count", 32)
      .u32s("deci.attention.head_count_kv", {4, 8});
  const Told differing = told(differ, 3);
  CHECK_FALSE(differing.facts.kv_heads);
  REQUIRE(differing.remarks.size() == 1);
  CHECK(differing.remarks[0] ==
        "layers differ in `deci.attention.head_count_kv` (4 and 8), so this "
        "fact is taken as unknown");
}

TEST_CASE("latent attention has no head size, but a latent") {
  GgufFile file;
  file.text("general.architecture", "deepseek2")
      .u32("deepseek2.attention.head_count", 16)
      .u32("deepseek2.attention.head_count_kv", 1)
      .u32("deepseek2.attention.kv_lora_rank", 512)
      .u32("deepseek2.attention.key_length", 576)
      .u32("deepseek2.attention.value_length_mla", 128)
      .u32("deepseek2.rope.dimension_count", 64)
      .u32("deepseek2.expert_count", 64)
      .u32("deepseek2.expert_group_count", 8);
  const ModelFacts facts = told(file, 9).facts;
  CHECK(facts.kv_heads == 16);
  CHECK(facts.kv_latent == 576);
  CHECK(facts.value_dim == 128);
  CHECK_FALSE(facts.head_dim);
  CHECK(facts.experts == 64);
  CHECK(facts.expert_groups == 8);
}

TEST_CASE("windows follow the pattern where the file has one") {
  GgufFile file;
  file.text("general.architecture", "gemma3")
      .u32("gemma3.block_count", 3)
      .u32("gemma3.attention.sliding_window", 512);
  CHECK(told(file, 3).facts.windows == std::vector<int64_t>(3, kUnknownWindow));
  file.pair("gemma3.attention.sliding_window_pattern", 9,
            GgufFile::number(7, 4) + GgufFile::number(3, 8) +
                std::string("\1\1\0", 3));
  CHECK(told(file, 4).facts.windows == std::vector<int64_t>{512, 512, 0});
}

TEST_CASE("absurd numbers claim nothing") {
  GgufFile file;
  file.text("general.architecture", "llama")
      .pair("llama.block_count", 10, GgufFile::number(1ULL << 62U, 8))
      .u32("llama.attention.sliding_window", 8)
      .pair("llama.attention.head_count", 5, "\xff\xff\xff\xff")
      .u32("llama.expert_count", 0);
  const ModelFacts facts = told(file, 5).facts;
  CHECK(facts.windows.empty());
  CHECK_FALSE(facts.heads);
  CHECK_FALSE(facts.experts);
}

}  // namespace
}  // namespace shardplan
