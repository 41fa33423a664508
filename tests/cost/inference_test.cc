// SPDX-License-Identifier: Apache-2.0
// Times of inference: a token and a prompt by hand, what an engine's schedule
// adds, and what must hold for any mesh, batch and card.
#include <algorithm>
#include <cmath>
#include <string>

#include <doctest/doctest.h>

#include "cli/commands.h"
#include "tests/support/hf_config.h"
#include "tests/support/memory_host.h"
#include "tests/support/words.h"

namespace shardplan::cli {
namespace {

using testing::changed;
using testing::has_text;
using testing::Json;
using testing::MemoryHost;
using testing::Words;

constexpr double kPlainRate = 1e12;
constexpr double kChipBytes = 1024;  // on chip, so as good as nothing

std::string plain_card(double memory_rate = kPlainRate) {
  return R"(name: plain
title: "A card with round numbers and no cache"
vendor: nobody
sources: {made: {title: "made up", read: 2026-11-28}}
devices_per_chip: {value: 1, source: made}
hbm_bytes: {value: 80GiB, source: made}
hbm_bytes_per_second: {value: )" +
         std::to_string(memory_rate) + R"(, source: made}
cache_bytes: {value: 1KiB, source: made}
flops_per_second:
  bf16: {value: 1.0e+14, source: made}
  f8: {value: 2.0e+14, source: made}
links:
  - name: fast
    topology: switch
    bytes_per_second: {value: 1.0e+11, source: made}
    devices: {value: 8, source: made}
)";
}

constexpr double kSmallLayers = 4;
constexpr double kSmallHidden = 1024;
constexpr double kSmallWidth = 2816;
constexpr double kSmallVocab = 8192;
constexpr double kKvNumbers = 2 * 4 * 64;  // of a token in a layer

Json small_llama() {
  return {{"architectures", {"LlamaForCausalLM"}},
          {"model_type", "llama"},
          {"vocab_size", 8192},
          {"hidden_size", 1024},
          {"intermediate_size", 2816},
          {"num_hidden_layers", 4},
          {"num_attention_heads", 16},
          {"num_key_value_heads", 4},
          {"head_dim", 64},
          {"rms_norm_eps", 1e-5},
          {"hidden_act", "silu"},
          {"tie_word_embeddings", false},
          {"torch_dtype", "bfloat16"}};
}
// Numbers of all matrices that a token is multiplied with: the embedding is
// looked up.
double multiplied() {
  const double attention =
      2 * kSmallHidden * kSmallHidden + 2 * kSmallHidden * 256;
  return kSmallLayers * (attention + 3 * kSmallHidden * kSmallWidth) +
         kSmallHidden * kSmallVocab;
}

Json small_experts() {
  Json config =
      changed(small_llama(), {{"architectures", {"Qwen3MoeForCausalLM"}},
                              {"model_type", "qwen3_moe"},
                              {"num_experts", 32},
                              {"num_experts_per_tok", 2},
                              {"moe_intermediate_size", 512},
                              {"decoder_sparse_step", 1},
                              {"norm_topk_prob", true},
                              {"mlp_only_layers", Json::array()},
                              {"max_position_embeddings", 40960}});
  return config;
}
constexpr double kExpertNumbers = 3 * kSmallHidden * 512;

struct Inferred {
  int exit = 0;
  std::string text;
  Json report;

  const Json& summary(const char* key) const {
    return report.at("summary").at(key);
  }
  double token(const char* end = "estimate") const {
    return summary("time_per_output_token").at(end).get<double>();
  }
  double first(const char* end = "estimate") const {
    return summary("time_to_first_token").at(end).get<double>();
  }
  double part(const std::string& name, const char* end = "estimate") const {
    for (const Json& row : report.at("tables").at("step_time")) {
      if (row.at("part") == name) return row.at(end).get<double>();
    }
    return 0;
  }
};

Inferred inferred(const Words& more, const Json& config = small_llama(),
                  const std::string& card = plain_card()) {
  MemoryHost host;
  host.files["config.json"] = config.dump();
  host.files["card.yaml"] = card;
  Words words = {"analyze",     "config.json", "--hardware",
                 "./card.yaml", "--json",      "--exit-zero"};
  words.insert(words.end(), more.begin(), more.end());
  Inferred result;
  result.exit = run(words, host);
  result.text = host.out + host.err;
  if (host.out.starts_with('{')) result.report = Json::parse(host.out);
  return result;
}

Words decoding(int64_t batch, int64_t seq, const std::string& mesh = "tp=1") {
  return {"-r",     "@all_models",      "-m",      mesh,
          "--mode", "decode",           "--batch", std::to_string(batch),
          "--seq",  std::to_string(seq)};
}

bool is_ordered(const Json& bracket) {
  return bracket.at("lower") <= bracket.at("estimate") &&
         bracket.at("estimate") <= bracket.at("upper");
}

TEST_CASE("inference: a token reads all weights and the cache once, by hand") {
  constexpr double kBatch = 8;
  constexpr double kContext = 1000;
  const Inferred token = inferred(decoding(8, 1000));
  const double cache = kBatch * kContext * kSmallLayers * kKvNumbers * 2;
  const double bytes = multiplied() * 2 + cache;
  CHECK(token.token("lower") ==
        doctest::Approx((bytes - kChipBytes) / kPlainRate));
  // Without tables products reach 85 % of the memory's rate; what they write is
  // little.
  CHECK(token.part("products") ==
        doctest::Approx(multiplied() * 2 / (0.85 * kPlainRate)).epsilon(0.02));
  // The cache beside some kernels' starts.
  CHECK(token.part("attention") > cache / (0.85 * kPlainRate));
  CHECK(token.part("attention") <
        cache / (0.85 * kPlainRate) + kSmallLayers * 10e-6);
  const double rate = token.summary("tokens_per_second").get<double>();
  CHECK(rate == doctest::Approx(kBatch / token.token()));
}

TEST_CASE("inference: a prompt is as many products as it has tokens") {
  const Inferred prompt =
      inferred({"-r", "@all_models", "-m", "tp=1", "--mode", "prefill",
                "--batch", "2", "--seq", "2048"});
  // The head is for the last token of each prompt alone.
  const double layers = multiplied() - kSmallHidden * kSmallVocab;
  const double flops = 2 * (2 * 2048 * layers + 2 * kSmallHidden * kSmallVocab);
  CHECK(prompt.part("products", "lower") == doctest::Approx(flops / 1e14));
  // Causal: about half of all pairs, two products each.
  const double pairs = 2048.0 * 2049 / 2;
  const double attention = 2 * 16 * kSmallLayers * pairs * 4 * 64;
  CHECK(prompt.part("attention", "lower") == doctest::Approx(attention / 1e14));
  CHECK(prompt.first() > prompt.first("lower"));
  CHECK(prompt.summary("tokens_per_second").get<double>() ==
        doctest::Approx(2 * 2048 / prompt.first()));
}

TEST_CASE("inference: experts that no token chooses are not read") {
  const auto read = [&](int64_t batch) {
    return inferred(decoding(batch, 64), small_experts());
  };
  const double head = kSmallHidden * kSmallVocab;
  const double attention =
      kSmallLayers * (2 * kSmallHidden * kSmallHidden + 2 * kSmallHidden * 256 +
                      kSmallHidden * 32);
  const auto products = [&](double experts) {
    return 2 * (head + attention + kSmallLayers * experts * kExpertNumbers) /
           (0.85 * kPlainRate);
  };
  // One token goes to two experts of 32, whatever the least, the estimate or
  // the most is.
  CHECK(read(1).part("products") == doctest::Approx(products(2)).epsilon(0.06));
  // Many tokens reach 32 (1 - (30/32)^16) of the experts, by the estimate.
  const double touched = 32 * (1 - std::pow(30.0 / 32, 16));
  CHECK(read(16).part("products") ==
        doctest::Approx(products(touched)).epsilon(0.06));
  const Inferred many = read(16);
  const double least =
      2 * (head + attention + kSmallLayers * 2 * kExpertNumbers) +
      16 * 64 * kSmallLayers * kKvNumbers * 2;
  CHECK(many.token("lower") ==
        doctest::Approx((least - kChipBytes) / kPlainRate).epsilon(0.001));
}

TEST_CASE("inference: weights are read as they are stored") {
  const Json eight =
      changed(small_llama(), {{"quantization_config",
                               {{"quant_method", "fp8"},
                                {"activation_scheme", "dynamic"},
                                {"weight_block_size", {128, 128}},
                                {"modules_to_not_convert", {"lm_head"}}}}});
  const Inferred token = inferred(decoding(1, 16), eight);
  const double head = kSmallHidden * kSmallVocab * 2;
  const double layers = multiplied() - kSmallHidden * kSmallVocab;
  // One scale of four bytes for each block.
  const double scales = layers / 128 / 128 * 4;
  const double cache = 16 * kSmallLayers * kKvNumbers * 2;
  CHECK(token.token("lower") ==
        doctest::Approx((head + layers + scales + cache - kChipBytes) /
                        kPlainRate)
            .epsilon(0.001));
}

TEST_CASE("inference: tensor parallelism sums twice a layer") {
  const Inferred token = inferred(decoding(8, 64, "tp=2"));
  int64_t count = 0;
  for (const Json& row : token.report.at("tables").at("step_collectives")) {
    if (row.at("kind") != "all-reduce" || row.at("where") != "layers.*") {
      continue;
    }
    CHECK(row.at("axis") == "tp");
    count += row.at("count").get<int64_t>();
    // A ring of two sends the payload once.
    CHECK(row.at("bytes_per_device") == 8 * 8 * 1024 * 2);
  }
  CHECK(count == 8);
  CHECK(token.token("lower") < inferred(decoding(8, 64)).token("lower"));
}

TEST_CASE("inference: a token passes all stages") {
  Words words = decoding(8, 64, "pp=2,tp=1");
  words.insert(words.end(), {"--stages", "pp"});
  const Inferred staged = inferred(words);
  const Inferred whole = inferred(decoding(8, 64));
  CHECK(staged.part("permute over pp") > 0);
  CHECK(staged.part("products") ==
        doctest::Approx(whole.part("products")).epsilon(1e-9));
  CHECK(staged.token() > whole.token());
}

TEST_CASE("inference: more work or a slower card never takes less time") {
  struct Case {
    int64_t batch;
    int64_t seq;
    const char* mesh;
    bool experts;
  };
  for (const Case& each :
       {Case{1, 16, "tp=1", false}, Case{4, 640, "dp=2,tp=2", false},
        Case{32, 4096, "tp=4", false}, Case{1, 64, "tp=2", true},
        Case{8, 512, "dp=2,tp=1", true}, Case{256, 64, "dp=4,tp=2", true}}) {
    CAPTURE(each.mesh);
    CAPTURE(each.batch);
    const Json config = each.experts ? small_experts() : small_llama();
    const auto time_of = [&](int64_t batch, int64_t seq, double rate) {
      const Inferred token =
          inferred(decoding(batch, seq, each.mesh), config, plain_card(rate));
      for (const Json& row : token.report.at("tables").at("step_time")) {
        CHECK(is_ordered(row));
      }
      return token.summary("time_per_output_token");
    };
    const Json time = time_of(each.batch, each.seq, kPlainRate);
    CHECK(is_ordered(time));
    const Json larger = time_of(2 * each.batch, each.seq, kPlainRate);
    const Json longer = time_of(each.batch, 2 * each.seq, kPlainRate);
    const Json slower = time_of(each.batch, each.seq, kPlainRate / 2);
    for (const char* end : {"lower", "estimate", "upper"}) {
      // Sums in another order differ in the last digits.
      const double own = time.at(end).get<double>() * (1 - 1e-9);
      CHECK(larger.at(end).get<double>() >= own);
      CHECK(longer.at(end).get<double>() >= own);
      CHECK(slower.at(end).get<double>() >= own);
    }
  }
}

Words served(const std::string& engine, int64_t input, int64_t output,
             int64_t concurrency, const std::string& mesh = "tp=1") {
  return {"-m",
          mesh,
          "--mode",
          "decode",
          "--engine",
          engine,
          "--input-tokens",
          std::to_string(input),
          "--output-tokens",
          std::to_string(output),
          "--concurrency",
          std::to_string(concurrency)};
}

TEST_CASE("inference: an engine's tokens wait for the prompts of others") {
  for (const char* engine : {"vllm", "sglang"}) {
    CAPTURE(engine);
    const Inferred alone = inferred(served(engine, 1000, 1000, 1));
    const Inferred few = inferred(served(engine, 1000, 1000, 8));
    const Inferred short_answers = inferred(served(engine, 1000, 100, 8));
    // The same context, so that prompts alone make the difference.
    const Inferred steady =
        inferred({"-m", "tp=1", "--mode", "decode", "--engine", engine,
                  "--batch", "8", "--seq", "1050"});
    for (const Inferred* each : {&alone, &few, &short_answers}) {
      CHECK(is_ordered(each->summary("time_per_output_token")));
      CHECK(is_ordered(each->summary("time_to_first_token")));
    }
    CHECK(few.token() > alone.token());
    CHECK(short_answers.token() > few.token());
    CHECK(short_answers.token() > steady.token());
    CHECK(short_answers.token("lower") ==
          doctest::Approx(steady.token("lower")));
    // Seven other prompts of 1,000 tokens for each 100 tokens of an answer.
    const double prompt = inferred(served(engine, 1000, 100, 1)).first("lower");
    CHECK(short_answers.token() - steady.token() > 7 * prompt / 100 * 0.5);
    CHECK(few.first() > alone.first());
    CHECK_FALSE(steady.report.at("summary").contains("time_to_first_token"));
  }
}

TEST_CASE("inference: an engine reads its share of the weights on each rank") {
  const double whole = inferred(served("vllm", 64, 64, 1)).token("lower");
  const double halves =
      inferred(served("vllm", 64, 64, 1, "tp=2")).token("lower");
  CHECK(halves == doctest::Approx(whole / 2).epsilon(0.01));
  // Experts whole or cut: as many bytes for one token that goes to two.
  Words dealt = served("vllm", 64, 64, 64, "tp=4");
  const Inferred cut = inferred(dealt, small_experts());
  dealt.push_back("--expert-parallel");
  const Inferred whole_experts = inferred(dealt, small_experts());
  CHECK(whole_experts.token("lower") ==
        doctest::Approx(cut.token("lower")).epsilon(0.01));
}

TEST_CASE(
    "inference: groups of data parallelism share experts and bring tokens") {
  const Inferred one =
      inferred(served("vllm", 64, 64, 64, "dp=1,tp=4"), small_experts());
  Words words = served("vllm", 64, 64, 64, "dp=4,tp=1");
  words.push_back("--expert-parallel");
  const Inferred groups = inferred(words, small_experts());
  bool gathers = false;
  for (const Json& row : groups.report.at("tables").at("step_collectives")) {
    gathers = gathers || row.at("kind") == "all-gather";
    CHECK(row.at("kind") != "all-reduce");
  }
  CHECK(gathers);
  // Attention is whole on each, experts are shared: more is read than by tp=4.
  CHECK(groups.token("lower") > one.token("lower"));
}

TEST_CASE("inference: eager kernels are started one by one") {
  Words words = decoding(1, 64);
  const Inferred graph = inferred(words);
  words.insert(words.end(), {"--kernels", "eager"});
  const Inferred eager = inferred(words);
  CHECK(graph.part("launches") == 0);
  CHECK(eager.part("launches") > 0);
  CHECK(eager.token() > graph.token());
  CHECK(eager.token("upper") == graph.token("upper"));
}

TEST_CASE("inference: what cannot be priced has no time, and says why") {
  SUBCASE("without a profile") {
    MemoryHost host;
    host.files["config.json"] = small_llama().dump();
    CHECK(run({"analyze", "config.json", "-m", "tp=1", "--mode", "decode",
               "--batch", "1", "--seq", "64", "--json", "--exit-zero"},
              host) == 0);
    CHECK_FALSE(
        Json::parse(host.out).at("summary").contains("time_per_output_token"));
  }
  SUBCASE("a model whose forward pass is not known") {
    const Json config = {{"architectures", {"BambaForCausalLM"}},
                         {"model_type", "bamba"}};
    const Inferred token = inferred(
        {"-m", "tp=1", "--mode", "decode", "--batch", "1", "--seq", "64"},
        changed(config, {{"vocab_size", 128}}));
    CHECK(token.summary("time_per_output_token").is_null());
    CHECK(has_text(token.text, "no time: "));
  }
  SUBCASE("half a workload") {
    const Inferred token =
        inferred({"-m", "tp=1", "--mode", "decode", "--engine", "vllm", "--seq",
                  "64", "--input-tokens", "32"});
    CHECK(has_text(token.text,
                   "a workload needs `--input-tokens` and `--output-tokens`"));
  }
  SUBCASE("sequences that are too short for it") {
    Words words = served("vllm", 64, 64, 1);
    words.insert(words.end(), {"--seq", "100"});
    CHECK(has_text(inferred(words).text,
                   "`--seq 100` is shorter than prompt plus output"));
  }
  SUBCASE("a workload without an engine") {
    Words words = decoding(1, 64);
    words.insert(words.end(), {"--concurrency", "2"});
    CHECK(has_text(inferred(words).text, "`--concurrency` needs an engine"));
  }
}

}  // namespace
}  // namespace shardplan::cli
