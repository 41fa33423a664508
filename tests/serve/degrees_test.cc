// SPDX-License-Identifier: Apache-2.0
// Which degrees an engine runs a model at.
#include "serve/degrees.h"

#include <algorithm>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "base/text.h"
#include "tests/serve/models.h"

namespace shardplan {
namespace {

using testing::changed;
using testing::Json;
using testing::served_llama;
using testing::served_mixtral;
using testing::synthesize;

struct Judged {
  std::vector<int64_t> legal;  // of tensor parallelism
  std::vector<DegreeVerdict> verdicts;

  std::string reasons(DegreeOf of, int64_t degree) const {
    for (const DegreeVerdict& v : verdicts) {
      if (v.of == of && v.degree == degree) {
        return (v.legal ? "runs " : "no ") + joined(v.reasons, "; ");
      }
    }
    return "not there";
  }
};

Judged judged(const Json& config, const char* engine, EngineMesh mesh = {}) {
  const auto made = synthesize(config);
  const Model of(made->good());
  const auto model = served_weights(of);
  REQUIRE(model);
  Judged result;
  result.verdicts = degree_verdicts(*model, *find_engine(engine), mesh);
  for (const DegreeVerdict& v : result.verdicts) {
    if (v.of == DegreeOf::Tensor && v.legal) result.legal.push_back(v.degree);
  }
  return result;
}

}  // namespace

TEST_CASE("heads, KV heads, MLP and vocabulary must divide") {
  const Judged llama = judged(served_llama(), "vllm");
  CHECK(llama.legal == std::vector<int64_t>{1, 2, 4, 8});
  CHECK(llama.reasons(DegreeOf::Tensor, 2) == "runs ");
  CHECK(llama.reasons(DegreeOf::Tensor, 8) ==
        "runs 2 KV heads: each is replicated on 4 ranks");
  CHECK(llama.reasons(DegreeOf::Tensor, 16)
            .find("8 heads are not divisible by 16") != std::string::npos);
  CHECK(llama.reasons(DegreeOf::Tensor, 3)
            .find("a vocabulary of 1,000, padded to 1,024, is not divisible by "
                  "3") != std::string::npos);

  // The 28 heads and 4 KV heads of Qwen2 7B.
  const Json qwen = changed(served_llama(), {{"num_attention_heads", 28},
                                             {"num_key_value_heads", 4},
                                             {"hidden_size", 896},
                                             {"intermediate_size", 18944}});
  const Judged judged_qwen = judged(qwen, "sglang");
  CHECK(judged_qwen.legal == std::vector<int64_t>{1, 2, 4});
  CHECK(judged_qwen.reasons(DegreeOf::Tensor, 8) ==
        "no 28 heads are not divisible by 8");
  CHECK(judged_qwen.reasons(DegreeOf::Tensor, 7)
            .find("7 is not a multiple of 4 KV heads") != std::string::npos);
}

TEST_CASE("a shard must not cut a quantisation block") {
  const Json config =
      changed(served_mixtral(), {{"model_type", "qwen3_moe"},
                                 {"architectures", {"Qwen3MoeForCausalLM"}},
                                 {"num_experts", 4},
                                 {"moe_intermediate_size", 384},
                                 {"num_key_value_heads", 4},
                                 {"head_dim", 128},
                                 {"decoder_sparse_step", 1},
                                 {"mlp_only_layers", Json::array()},
                                 {"norm_topk_prob", true},
                                 {"quantization_config",
                                  {{"quant_method", "fp8"},
                                   {"activation_scheme", "dynamic"},
                                   {"weight_block_size", {128, 128}},
                                   {"modules_to_not_convert",
                                    {"lm_head", "model.layers.0.mlp.gate",
                                     "model.layers.1.mlp.gate"}}}}});
  const Judged cut = judged(config, "vllm");
  CHECK(cut.legal == std::vector<int64_t>{1});
  CHECK(cut.reasons(DegreeOf::Tensor, 2)
            .starts_with("no a rank's 192 of 384 elements split quantisation "
                         "blocks of 128"));
  EngineMesh dealt;
  dealt.expert_parallel = true;
  CHECK(judged(config, "vllm", dealt).legal == std::vector<int64_t>{1, 2, 4});
}

TEST_CASE("stacked experts of four bits are cut, though no label says so") {
  const auto made = synthesize(testing::sample_config("gpt-oss-20b"));
  const Model of(made->good());
  const auto model = served_weights(of);
  REQUIRE(model);
  const std::vector<bool> all(model->groups.groups.size(), true);
  const auto bytes_at = [&](int64_t tp) {
    WeightsInput input;
    input.layout = layout_of(*find_engine("vllm"), {.tp = tp});
    const auto weights = rank_weights(*model, all, input);
    REQUIRE(weights);
    return weights->bytes[static_cast<size_t>(WeightPart::Experts)];
  };
  // Biases of what rows give are whole.
  CHECK(bytes_at(2) > bytes_at(1) / 2);
  CHECK(bytes_at(2) < bytes_at(1) / 2 + bytes_at(1) / 1000);
  // Of the 90 groups that the last product reads four ranks have 23 each.
  CHECK(bytes_at(4) > bytes_at(1) / 4 + bytes_at(1) / 1000);
  CHECK(bytes_at(4) < bytes_at(1) / 4 * 93 / 90);
}

TEST_CASE("stacked experts of four bits are padded, whatever the degree") {
  const Json config = testing::sample_config("gpt-oss-20b");
  for (const char* engine : {"vllm", "sglang"}) {
    const Judged judged_by = judged(config, engine);
    CHECK(judged_by.legal == std::vector<int64_t>{1, 2, 4, 8, 16, 32, 64});
  }
}

TEST_CASE("experts are dealt out evenly, or not") {
  EngineMesh three;
  three.tp = 3;
  three.expert_parallel = true;
  const Judged vllm = judged(served_mixtral(), "vllm", three);
  CHECK(vllm.reasons(DegreeOf::Experts, 3) ==
        "runs the fullest rank has 2 of 4 experts");
  CHECK(vllm.reasons(DegreeOf::Experts, 8) ==
        "no 4 experts are fewer than 8 ranks");
  const Judged sglang = judged(served_mixtral(), "sglang", three);
  CHECK(sglang.reasons(DegreeOf::Experts, 3) ==
        "no 4 experts are not divisible by 3");
  CHECK(sglang.reasons(DegreeOf::Experts, 4) == "runs ");
  // A dense model has none.
  CHECK(judged(served_llama(), "vllm").reasons(DegreeOf::Experts, 2) ==
        "not there");
}

TEST_CASE("the degree of the mesh is marked") {
  EngineMesh mesh;
  mesh.tp = 4;
  const Judged marked = judged(served_llama(), "vllm", mesh);
  CHECK(std::count_if(marked.verdicts.begin(), marked.verdicts.end(),
                      [](const DegreeVerdict& v) { return v.asked; }) == 1);
}

}  // namespace shardplan
