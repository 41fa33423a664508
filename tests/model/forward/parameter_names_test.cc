// SPDX-License-Identifier: Apache-2.0
#include "model/forward/parameter_names.h"

#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "tests/support/builders.h"

namespace shardplan {
namespace {

using testing::manifest;

// The place in the manifest, "i" where inputs come first, "s" where stacked.
std::string found(const ParameterNames& names, std::string_view name) {
  const NamedParameter* parameter = names.find(name);
  if (parameter == nullptr) return "none";
  return std::to_string(parameter->index) +
         (parameter->inputs_first ? "i" : "") + (parameter->stacked ? "s" : "");
}

TEST_CASE("parameter names: Hugging Face's, without the outer modules") {
  const Manifest m = manifest(
      {{"model.language_model.embed_tokens.weight", "f32[8, 4]"},
       {"model.language_model.layers.0.self_attn.q_proj.weight", "f32[4, 4]"},
       {"model.language_model.layers.11.self_attn.q_proj.weight", "f32[4, 4]"},
       {"lm_head.weight", "f32[8, 4]"},
       {"model.vision_tower.layers.30.norm.weight", "f32[4]"}});
  const ParameterNames names(m);
  CHECK(found(names, "embed_tokens.weight") == "0");
  CHECK(found(names, "layers.0.self_attn.q_proj.weight") == "1");
  CHECK(found(names, "layers.11.self_attn.q_proj.weight") == "2");
  CHECK(found(names, "layers.1.self_attn.q_proj.weight") == "none");
  CHECK(found(names, "lm_head.weight") == "3");
  CHECK(names.layer_count("layers") == 12);
  CHECK(names.layer_count("h") == 0);
}

TEST_CASE("parameter names: Flax's, whose kernels have inputs first") {
  const Manifest m = manifest(
      {{"params/model/embed_tokens/embedding/value", "f32[8, 4]"},
       {"params/model/layers_0/self_attn/q_proj/kernel/value", "f32[4, 6]"},
       {"params/model/layers/1/self_attn/q_proj/kernel", "f32[4, 6]"},
       {"params/model/layers/1/input_layernorm/scale", "f32[4]"},
       {"params/model/norm/kernel", "f32[4]"},
       {"params/model/layers/1/mlp/experts_3/up_proj/kernel", "f32[4, 6]"}});
  const ParameterNames names(m);
  CHECK(found(names, "embed_tokens.weight") == "0");
  CHECK(found(names, "layers.0.self_attn.q_proj.weight") == "1i");
  CHECK(found(names, "layers.1.self_attn.q_proj.weight") == "2i");
  CHECK(found(names, "layers.1.input_layernorm.weight") == "3");
  CHECK(found(names, "norm.weight") == "4i");
  CHECK(found(names, "layers.1.mlp.experts.3.up_proj.weight") == "5i");
  CHECK(names.layer_count("layers") == 2);
}

TEST_CASE("parameter names: layers and experts that are stacked") {
  const Manifest m =
      manifest({{"model/layers/self_attn/q_proj/kernel", "f32[5, 4, 6]"},
                {"model/layers/mlp/experts/up_proj/kernel", "f32[5, 2, 4, 6]"},
                {"encoder/layer/output/dense/bias", "f32[3, 4]"}});
  const ParameterNames names(m);
  CHECK(found(names, "layers.4.self_attn.q_proj.weight") == "0is");
  CHECK(found(names, "layers.0.mlp.experts.up_proj.weight") == "1is");
  CHECK(found(names, "encoder.layer.2.output.dense.bias") == "2s");
  CHECK(names.layer_count("layers") == 5);
  CHECK(names.layer_count("encoder.layer") == 3);
}

TEST_CASE("parameter names: BERT's old names of norms; tensors of no module") {
  const Manifest m =
      manifest({{"bert.embeddings.LayerNorm.gamma", "f32[4]"},
                {"bert.embeddings.LayerNorm.beta", "f32[4]"},
                {"layers.0.mlp.experts.gate_up_proj", "f32[2, 8, 4]"},
                {"layers.0.mlp.act_fn.beta", "f32[]"},
                {"scale", "f32[]"},
                {"layers.x", "f32[]"}});
  const ParameterNames names(m);
  CHECK(found(names, "embeddings.LayerNorm.weight") == "0");
  CHECK(found(names, "embeddings.LayerNorm.bias") == "1");
  CHECK(found(names, "layers.0.mlp.experts.gate_up_proj") == "2");
  // xIELU's is no bias.
  CHECK(found(names, "layers.0.mlp.act_fn.beta") == "3");
  CHECK(found(names, "scale") == "4");
  // A scalar counts no layers.
  CHECK(names.layer_count("layers") == 1);
}

TEST_CASE("parameter names: folded ones are alike for every scheme") {
  const std::vector<std::string> wanted = {
      "layers.*.mlp.experts.*.up_proj.weight", "norm.weight"};
  CHECK(ParameterNames(
            manifest(
                {{"model.layers.0.mlp.experts.0.up_proj.weight", "f32[4, 4]"},
                 {"model.layers.7.mlp.experts.3.up_proj.weight", "f32[4, 4]"},
                 {"model.norm.weight", "f32[4]"}}))
            .folded() == wanted);
  CHECK(ParameterNames(manifest({{"model/layers/mlp/experts/0/up_proj/kernel",
                                  "f32[8, 4, 4]"},
                                 {"model/norm/scale", "f32[4]"}}))
            .folded() == wanted);
}

TEST_CASE("parameter names: numbers that are no counts") {
  const Manifest m =
      manifest({{"layers.99999999999999999999.w.weight", "f32[4]"},
                {"layers.9223372036854775807.w.weight", "f32[4]"}});
  CHECK(ParameterNames(m).layer_count("layers") == 0);
}

TEST_CASE("parameter names: of other versions, as the architecture has them") {
  const Manifest m =
      manifest({{"model.layers.0.mlp.gate.weight", "f32[4, 8]"},
                {"model.layers.0.mlp.experts.down_proj", "f32[4, 8, 6]"},
                {"model.norm.weight", "f32[8]"}});
  const std::vector<OtherName> others = {{"block_sparse_moe", "mlp"},
                                         {"w2", "down_proj"}};
  const ParameterNames names(m, others);
  CHECK(found(names, "layers.0.block_sparse_moe.gate.weight") == "0");
  CHECK(found(names, "layers.0.block_sparse_moe.experts.w2") == "1");
  CHECK(found(names, "layers.0.mlp.gate.weight") == "none");
  CHECK(found(names, "norm.weight") == "2");
}

TEST_CASE("parameter names: folded, a buffer gives way to a parameter") {
  Manifest m = manifest({{"model.layers.7.gate.bias", "f32[4]"},
                         {"model.layers.8.gate.bias", "f32[4]"}});
  REQUIRE(m.add("model.layers.3.gate.bias", {DType::F32, {4}}, {}, true));
  REQUIRE(m.add("model.layers.3.gate.count", {DType::F32, {4}}, {}, true));
  const ParameterNames names(m);
  CHECK(names.folded() == std::vector<std::string>{"layers.*.gate.bias"});
  const auto tensors = names.folded_tensors();
  REQUIRE(tensors.size() == 2);
  CHECK(tensors.at("layers.*.gate.bias").index < m.size());
  CHECK(tensors.at("layers.*.gate.count").index == 3);
}

}  // namespace
}  // namespace shardplan
