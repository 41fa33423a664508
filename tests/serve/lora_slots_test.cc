// SPDX-License-Identifier: Apache-2.0
// Slots of adapters, against the engines' own classes
// (tests/data/lora_slots.jsonl, record_lora_slots.py).
#include "serve/lora_slots.h"

#include <fstream>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "serve/weights.h"
#include "tests/serve/models.h"
#include "tests/support/source_dir.h"

namespace shardplan {
namespace {

using testing::Json;

const Json& slotted(const std::string& model) {
  static const Json kLlama = Json::parse(R"({"model_type": "llama",
    "architectures": ["LlamaForCausalLM"], "dtype": "bfloat16",
    "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32,
    "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128,
    "vocab_size": 128256, "tie_word_embeddings": false})");
  static const Json kQwen3 = Json::parse(R"({"model_type": "qwen3_moe",
    "architectures": ["Qwen3MoeForCausalLM"], "dtype": "bfloat16",
    "hidden_size": 2048, "intermediate_size": 6144,
    "moe_intermediate_size": 768, "num_hidden_layers": 48,
    "num_experts": 128, "num_experts_per_tok": 8, "decoder_sparse_step": 1,
    "mlp_only_layers": [], "num_attention_heads": 32,
    "num_key_value_heads": 4, "head_dim": 128, "vocab_size": 151936,
    "tie_word_embeddings": false})");
  return model == "llama" ? kLlama : kQwen3;
}

struct Served {
  explicit Served(const Json& config)
      : made(testing::synthesize(config)),
        of(made->good()),
        model(*served_weights(of)) {}

  int64_t slots(std::string_view engine, const EngineMesh& mesh,
                const LoraSlots& slots, std::vector<bool> held = {}) const {
    WeightsInput input;
    input.engine = find_engine(engine);
    input.layout = layout_of(*input.engine, mesh);
    input.vocab_multiple = 64;
    input.slots = slots;
    if (held.empty()) held.assign(model.groups.groups.size(), true);
    const auto weights = rank_weights(model, held, input);
    REQUIRE(weights);
    return weights->bytes[static_cast<size_t>(WeightPart::Slots)];
  }

  decltype(testing::synthesize(Json())) made;
  Model of;
  ServedWeights model;
};

TEST_CASE("slots of adapters are those of the engines' own classes") {
  std::ifstream lines(source_dir() / "tests/data/lora_slots.jsonl");
  REQUIRE(lines.good());
  const Served llama(slotted("llama"));
  const Served qwen(slotted("qwen3_moe"));
  int rows = 0;
  for (std::string line; std::getline(lines, line);) {
    CAPTURE(line);
    const Json row = Json::parse(line);
    const bool of_experts = row["model"] == "qwen3_moe";
    const Served& model = of_experts ? qwen : llama;
    EngineMesh mesh;
    mesh.tp = row["tp"].get<int64_t>();
    mesh.expert_parallel = row["ep"].get<int64_t>() > 1;
    LoraSlots slots;
    slots.count = 4;
    slots.rank = row["rank"].get<int64_t>();
    slots.fully_sharded = row["fully_sharded"].get<bool>();
    const std::string engine = row["engine"].get<std::string>();
    // vLLM counts with five numbers in each layer which slots are filled.
    const int64_t filled =
        of_experts && engine == "vllm" ? int64_t{48} * 5 * 4 : 0;
    slots.targets = {"all-linear"};
    CHECK(model.slots(engine, mesh, slots) ==
          row["linear"].get<int64_t>() - filled);
    if (engine == "vllm") {
      slots.targets.clear();
    } else {
      slots.targets = {"q_proj",    "o_proj",       "gate_proj",
                       "down_proj", "embed_tokens", "lm_head"};
    }
    CHECK(model.slots(engine, mesh, slots) ==
          row["all"].get<int64_t>() - filled);
    ++rows;
  }
  CHECK(rows == 44);
}

TEST_CASE("slots of adapters: a tied head has some, a router of SGLang none") {
  Json tied = slotted("llama");
  const LoraSlots slots = {1, 8};
  const int64_t untied = Served(tied).slots("vllm", {}, slots);
  tied["tie_word_embeddings"] = true;
  CHECK(Served(tied).slots("vllm", {}, slots) == untied);
  // Qwen2's class in vLLM adapts neither.
  Json qwen2 = slotted("llama");
  qwen2["model_type"] = "qwen2";
  qwen2["architectures"] = {"Qwen2ForCausalLM"};
  CHECK(Served(qwen2).slots("vllm", {}, slots) ==
        untied - 2 * 8 * (128256 + 4096) * 2);
}

TEST_CASE("slots of adapters: SGLang's stages have those of all layers") {
  const Served model(slotted("llama"));
  const LoraSlots slots = {2, 8, false, {"all-linear"}};
  std::vector<bool> half(model.model.groups.groups.size(), false);
  for (size_t i = 0; i < half.size() / 2; ++i) half[i] = true;
  CHECK(model.slots("sglang", {}, slots, half) ==
        model.slots("sglang", {}, slots));
  CHECK(model.slots("vllm", {}, slots, half) < model.slots("vllm", {}, slots));
}

TEST_CASE("slots of adapters: what vLLM refuses") {
  const Engine& vllm = *find_engine("vllm");
  CHECK(slot_problems({1, 16}, vllm, {.tp = 4}, false).empty());
  CHECK(slot_problems({1, 8, true}, vllm, {.tp = 16}, false).size() == 1);
  const EngineMesh dealt = {.tp = 2, .expert_parallel = true};
  CHECK(slot_problems({1, 8, true}, vllm, dealt, true).size() == 1);
  CHECK(slot_problems({1, 8, false}, vllm, dealt, true).empty());
  CHECK(slot_rank(vllm, 24) == 32);
  CHECK(slot_rank(vllm, 1000) == 512);
  // SGLang takes any.
  CHECK(slot_rank(*find_engine("sglang"), 24) == 24);
  CHECK(slot_problems({}, vllm, {}, false).empty());
}

}  // namespace
}  // namespace shardplan
