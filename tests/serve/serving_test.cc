// SPDX-License-Identifier: Apache-2.0
// What an engine does with a device as a whole.
#include "serve/serving.h"

#include <memory>
#include <string>

#include <doctest/doctest.h>

#include "tests/serve/models.h"
#include "tests/support/builders.h"

namespace shardplan {
namespace {

using testing::changed;
using testing::Json;
using testing::served_llama;
using testing::served_mixtral;
using testing::synthesize;

constexpr int64_t kGiB = int64_t{1} << 30;

ServingInput input_of(const char* engine, int64_t gib, int64_t tp) {
  ServingInput input;
  input.engine = find_engine(engine);
  input.mesh.tp = tp;
  input.device = {"--memory", gib * kGiB, gib * kGiB, false};
  input.seq = 1024;
  return input;
}

Serving served(const Json& config, const ServingInput& input) {
  const auto made = synthesize(config);
  Diagnostics diags;
  const auto answer = testing::served_once(made->good(), input, diags);
  REQUIRE(answer);
  return *answer;
}

Bracket sum_of_part(const Serving& serving, MemoryPart part) {
  Bracket sum;
  for (const Overhead& row : serving.overheads) {
    if (row.part == part) sum = sum + row.bytes;
  }
  return sum;
}

}  // namespace

TEST_CASE("vLLM: share of the total, less weights and the step") {
  ServingInput input = input_of("vllm", 40, 2);
  input.share = 0.5;
  const Serving s = served(served_llama(), input);
  CHECK(s.share_bytes == Bracket{20 * kGiB, 20 * kGiB, 20 * kGiB});
  const Bracket step = sum_of_part(s, MemoryPart::InShare);
  const ServedStage& stage = s.stage();
  CHECK(stage.available.estimate ==
        20 * kGiB - stage.weights.total - step.estimate);
  CHECK(stage.available.lower == 20 * kGiB - stage.weights.total - step.upper);
  CHECK(stage.available.upper == 20 * kGiB - stage.weights.total - step.lower);
  REQUIRE(stage.pools[1]);
  // One KV head of 32, keys and values in bf16, in two layers.
  CHECK(stage.pools[1]->block_bytes == 16 * 2 * (2 * 32 * 2));
  CHECK(s.missing_at_start == 0);
  CHECK(s.problems.empty());
}

TEST_CASE("SGLang: share of what is free, less weights") {
  ServingInput input = input_of("sglang", 40, 2);
  input.share = 0.5;
  const Serving s = served(served_llama(), input);
  const Bracket before = sum_of_part(s, MemoryPart::Before);
  CHECK(s.share_bytes.estimate == (40 * kGiB - before.estimate) / 2);
  CHECK(sum_of_part(s, MemoryPart::InShare) == Bracket{});
  CHECK(s.stage().available.estimate ==
        s.share_bytes.estimate - s.stage().weights.total);
}

TEST_CASE("a share that is not free at the start") {
  ServingInput input = input_of("vllm", 40, 2);
  input.share = 1.0;
  CHECK(served(served_llama(), input).missing_at_start > 0);
  input.share = 0.9;
  CHECK(served(served_llama(), input).missing_at_start == 0);
}

TEST_CASE("a share that leaves less than a step takes") {
  ServingInput input = input_of("sglang", 4, 1);
  input.share = 0.99;
  CHECK(served(served_llama(), input).missing_for_steps > 0);
  input.share = 0.5;
  CHECK(served(served_llama(), input).missing_for_steps == 0);
}

TEST_CASE("brackets are in order, and more devices leave no less") {
  for (const char* engine : {"vllm", "sglang"}) {
    CAPTURE(engine);
    int64_t least = 0;
    for (const int64_t tp : {1, 2, 4}) {
      ServingInput input = input_of(engine, 40, tp);
      input.share = 0.8;
      const Serving s = served(served_llama(), input);
      for (const Overhead& row : s.overheads) {
        CAPTURE(row.name);
        CHECK(row.bytes.lower <= row.bytes.estimate);
        CHECK(row.bytes.estimate <= row.bytes.upper);
        CHECK(row.bytes.lower >= 0);
        CHECK_FALSE(row.source.empty());
      }
      const ServedStage& stage = s.stage();
      REQUIRE(stage.pools[0]);
      REQUIRE(stage.pools[2]);
      CHECK(stage.pools[0]->sequences <= stage.pools[1]->sequences);
      CHECK(stage.pools[1]->sequences <= stage.pools[2]->sequences);
      CHECK(stage.weights.total > 0);
      if (least > 0) CHECK(stage.weights.total < least);
      least = stage.weights.total;
    }
  }
}

TEST_CASE("stages: the one with the fewest sequences decides") {
  const Json config = changed(served_llama(), {{"num_hidden_layers", 5}});
  const Mesh devices = testing::mesh("pp=2,tp=2");
  ServingInput input = input_of("vllm", 8, 2);
  input.mesh.pp = 2;
  input.devices = &devices;
  input.stages = Stages{"pp", {}};
  const Serving s = served(config, input);
  REQUIRE(s.stages.size() == 2);
  CHECK(s.stages[0].layers.size() == 3);
  CHECK(s.stages[1].layers.size() == 2);
  CHECK(s.decides == 0);
}

TEST_CASE("a longer step takes more, more sequences do not take less") {
  ServingInput input = input_of("vllm", 40, 1);
  input.batched_tokens = 1024;
  input.sequences = 64;
  const int64_t base =
      sum_of_part(served(served_mixtral(), input), MemoryPart::InShare)
          .estimate;
  input.batched_tokens = 8192;
  const int64_t longer =
      sum_of_part(served(served_mixtral(), input), MemoryPart::InShare)
          .estimate;
  CHECK(longer > base);
  input.sequences = 8192;
  CHECK(sum_of_part(served(served_mixtral(), input), MemoryPart::InShare)
            .estimate >= longer);
}

TEST_CASE("what is not known is refused") {
  Manifest manifest;
  REQUIRE(manifest.add("w", {DType::F32, {4, 4}}, {}));
  Diagnostics diags;
  CHECK_FALSE(testing::served_once(manifest, input_of("vllm", 40, 1), diags));
  REQUIRE(diags.all().size() == 1);
  CHECK(diags.all().front().code == Code::MissingFacts);
}

TEST_CASE("a cache that is not counted is left out, and the rest answered") {
  const Json config = {
      {"model_type", "deepseek_v4"},
      {"architectures", {"DeepseekV4ForCausalLM"}},
      {"compress_rates",
       {{"compressed_sparse_attention", 4},
        {"heavily_compressed_attention", 128}}},
      {"layer_types",
       {"heavily_compressed_attention", "compressed_sparse_attention"}},
      {"mlp_layer_types", {"moe", "moe"}},
      {"head_dim", 8},
      {"hidden_size", 32},
      {"index_head_dim", 10},
      {"index_n_heads", 2},
      {"moe_intermediate_size", 16},
      {"n_routed_experts", 4},
      {"num_attention_heads", 4},
      {"num_hidden_layers", 2},
      {"num_key_value_heads", 1},
      {"o_groups", 2},
      {"o_lora_rank", 8},
      {"q_lora_rank", 16},
      {"qk_rope_head_dim", 4},
      {"vocab_size", 64}};
  const Serving answer = served(config, input_of("vllm", 40, 2));
  CHECK(answer.uncounted ==
        "the cache of layers that merge several tokens into one");
  CHECK(answer.stage().weights.total > 0);
  CHECK_FALSE(answer.limits_sequences());
  CHECK_FALSE(answer.without_cache);
  // Whether it holds a sequence is not known, either way.
  CHECK_FALSE(answer.holds(0));
  CHECK(answer.holds(2));
  ServingInput small = input_of("vllm", 40, 2);
  small.device = {"--memory", 4096, 4096, false};
  CHECK_FALSE(served(config, small).holds(2));
}

// `draft` stays until the answer is there.
Serving served_with(const Json& config, const Json& draft, ServingInput input) {
  const auto made = synthesize(config);
  const auto small = synthesize(draft);
  Diagnostics diags;
  const Model drafting(small->good());
  const auto model = known_weights(drafting, *input.engine, diags);
  REQUIRE(model);
  input.draft = &*model;
  const auto answer = testing::served_once(made->good(), input, diags);
  REQUIRE(answer);
  return *answer;
}

TEST_CASE("vLLM: a draft has weights of its own and layers in the pool") {
  const ServingInput input = input_of("vllm", 40, 2);
  // One layer, one KV head of 32: half of what a layer of the model keeps, so
  // that its pages hold twice as many tokens.
  const Json small = changed(
      served_llama(), {{"num_hidden_layers", 1}, {"intermediate_size", 256}});
  const Serving without = served(served_llama(), input);
  const Serving with = served_with(served_llama(), small, input);
  const int64_t own = served(small, input).stage().weights.total;
  CHECK(with.stage().weights.draft == own);
  CHECK(with.stage().weights.total == without.stage().weights.total + own);
  CHECK(with.stage().layers.size() == 3);
  CHECK(with.stage().available.estimate ==
        without.stage().available.estimate - own);
  // Three layers in place of two share what is left.
  CHECK(with.sequences(1) ==
        doctest::Approx(without.sequences(1) * 2 / 3).epsilon(0.01));
  CHECK(with.problems.empty());
}

TEST_CASE(
    "vLLM: a draft of another vocabulary is refused, one that it cannot cut "
    "too") {
  const ServingInput input = input_of("vllm", 40, 2);
  const Serving other = served_with(
      served_llama(), changed(served_llama(), {{"vocab_size", 2000}}), input);
  REQUIRE(other.problems.size() == 1);
  CHECK(other.problems[0].find("vocabulary of 2,000, the model one of 1,000") !=
        std::string::npos);
  const Serving uncut =
      served_with(served_llama(),
                  changed(served_llama(), {{"intermediate_size", 511}}), input);
  REQUIRE(uncut.problems.size() == 1);
  CHECK(uncut.problems[0].find("the MLP width (511)") != std::string::npos);
  // 511 is 7 times 73, and 8 heads are not.
  for (const DegreeVerdict& verdict : uncut.verdicts) {
    CHECK(verdict.legal == (verdict.degree == 1));
    CHECK(verdict.legal == verdict.reasons.empty());
  }
}

TEST_CASE("vLLM: the last stage runs the draft") {
  const Mesh devices = testing::mesh("pp=2,tp=2");
  ServingInput input = input_of("vllm", 8, 2);
  input.mesh.pp = 2;
  input.devices = &devices;
  input.stages = Stages{"pp", {}};
  const Serving s = served_with(served_llama(), served_llama(), input);
  REQUIRE(s.stages.size() == 2);
  CHECK(s.stages[0].weights.draft == 0);
  CHECK(s.stages[1].weights.draft > 0);
  CHECK(s.stages[1].layers.size() == 1 + 2);
  CHECK(s.decides == 1);
}

TEST_CASE("SGLang: a layer of the draft is sized as one of the model") {
  const ServingInput input = input_of("sglang", 40, 1);
  // Keeps a quarter of what a layer of the model does.
  const Json small =
      changed(served_llama(), {{"num_hidden_layers", 1}, {"head_dim", 8}});
  const Serving without = served(served_llama(), input);
  const Serving with = served_with(served_llama(), small, input);
  const auto bytes = [](const Serving& s) {
    return s.stage().pools[1]->block_bytes;
  };
  CHECK(bytes(with) * 2 == bytes(without) * 3);
  REQUIRE_FALSE(with.remarks.empty());
  CHECK(with.remarks[0].find("sized like the model's layers") !=
        std::string::npos);
  ServingInput grouped = input;
  grouped.mesh.dp = 2;
  grouped.mesh.dp_attention = true;
  CHECK_FALSE(
      served_with(served_llama(), served_llama(), grouped).problems.empty());
}

TEST_CASE("how many sequences are asked for decides whether a cache holds") {
  ServingInput input = input_of("vllm", 40, 2);
  const Serving one = served(served_llama(), input);
  CHECK(one.holds(0));
  input.batch = static_cast<int64_t>(one.sequences(2)) + 1;
  CHECK_FALSE(served(served_llama(), input).holds(2));
  input.mesh.dp = 2;
  CHECK(served(served_llama(), input).holds(0));
}

// Where a group holds a little more than half of a sequence, two hold none.
TEST_CASE("groups do not share a sequence") {
  ServingInput input = input_of("vllm", 40, 2);
  const Serving once = served(served_llama(), input);
  input.seq = static_cast<int64_t>(static_cast<double>(input.seq) *
                                   once.group_sequences(2) * 1.5);
  input.mesh.dp = 2;
  const Serving none = served(served_llama(), input);
  CHECK(none.group_sequences(2) < 1);
  CHECK(none.group_sequences(2) > 0.5);
  CHECK(none.sequences(2) == 0);
  CHECK_FALSE(none.holds(2));
  // Five sequences are three of one group and two of the other.
  ServingInput five = input_of("vllm", 40, 2);
  five.mesh.dp = 2;
  five.batch = 5;
  five.seq = static_cast<int64_t>(static_cast<double>(five.seq) *
                                  once.group_sequences(0) / 2.8);
  const Serving asked = served(served_llama(), five);
  CHECK(asked.group_sequences(0) * 2 > 5);
  CHECK(asked.sequences(0) == 4);
  CHECK_FALSE(asked.holds(0));
  five.batch = 4;
  CHECK(served(served_llama(), five).holds(0));
}

}  // namespace shardplan
