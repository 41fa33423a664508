// SPDX-License-Identifier: Apache-2.0

#include <doctest/doctest.h>

#include "tests/support/hf_config.h"

namespace shardplan {
namespace {

using testing::changed;
using testing::has_tensor;
using testing::Json;
using testing::sample_config;
using testing::small_config;
using testing::synthesize;
using testing::type_of;
using testing::without;

const Json kSizes = {{"vocab_size", 96},         {"hidden_size", 48},
                     {"intermediate_size", 64},  {"num_hidden_layers", 2},
                     {"num_attention_heads", 6}, {"head_dim", 8}};

// The rows of q and of k in the first layer, or the problem.
std::string heads(const char* model_type, const Json& changes) {
  Json config = changed(kSizes, changes);
  for (const auto& [key, value] : changes.items()) {
    if (value == "absent") config.erase(key);
  }
  const auto result = synthesize(changed(config, {{"model_type", model_type}}));
  if (!result->manifest) return result->problem();
  const auto rows = [&](const char* name) {
    return std::to_string(
        type_of(*result->manifest,
                "model.layers.0.self_attn." + std::string(name) + ".weight")
            .shape[0]);
  };
  return rows("q_proj") + " " + rows("k_proj");
}

TEST_CASE("KV heads and head_dim: given, absent and null") {
  CHECK(heads("llama", {{"head_dim", "absent"}}) == "48 48");
  CHECK(heads("llama", {{"num_key_value_heads", 2}, {"head_dim", 6}}) ==
        "36 12");
  CHECK(heads("llama", {{"num_key_value_heads", nullptr},
                        {"head_dim", nullptr}}) == "48 48");
  CHECK(heads("mistral", {{"num_attention_heads", 8}}) == "64 64");
  CHECK(heads("mistral", {{"num_key_value_heads", nullptr}}) == "48 48");
  CHECK(heads("gemma2", {{"num_attention_heads", 8}, {"head_dim", "absent"}}) ==
        "2048 1024");
  CHECK(heads("gemma2", {{"num_key_value_heads", 1}, {"head_dim", 2}}) ==
        "12 2");
}

TEST_CASE("sizes that contradict one another are refused") {
  const std::string multiple =
      "SP009 `num_attention_heads` must be a multiple of `num_key_value_heads`";
  CHECK(heads("llama", {{"num_key_value_heads", 4}}) == multiple);
  CHECK(heads("gemma2", Json::object()) == multiple);
  CHECK(heads("llama", {{"hidden_size", 50}, {"head_dim", "absent"}}) ==
        "SP009 `head_dim` is missing, and `hidden / heads` has no value: 50 / "
        "6 leaves a remainder");
  CHECK(heads("llama", {{"hidden_size", 50}, {"head_dim", 8}}) == "48 48");
  CHECK(heads("gemma2", {{"num_key_value_heads", 2}, {"head_dim", nullptr}}) ==
        "SP009 `head_dim` is null");
  CHECK(heads("gemma2", {{"num_key_value_heads", nullptr}}) ==
        "SP009 `num_key_value_heads` is null");
}

TEST_CASE("a size that is wrong does not make others look wrong") {
  const auto result = synthesize(
      changed(kSizes, {{"model_type", "llama"}, {"hidden_size", -4}}));
  CHECK(result->problem() == "SP009 `hidden_size` is -4");
  CHECK(result->diags.all().size() == 1);
}

TEST_CASE("biases are those of the family, whatever the config says") {
  struct Row {
    const char* name;
    Json changes;
    bool query, output, mlp;
  };
  const Json all = {{"attention_bias", true}, {"mlp_bias", true}};
  const Row rows[] = {
      {"llama", Json::object(), false, false, false},
      {"llama", all, true, true, true},
      {"llama", {{"attention_bias", true}}, true, true, false},
      {"llama", {{"mlp_bias", true}}, false, false, true},
      {"mistral", all, false, false, false},
      {"qwen2", Json::object(), true, false, false},
      {"qwen2", {{"attention_bias", false}}, true, false, false},
      {"qwen3", Json::object(), false, false, false},
      {"qwen3", all, true, true, false},
  };
  for (const Row& row : rows) {
    CAPTURE(row.name);
    CAPTURE(row.changes.dump());
    const auto result =
        synthesize(changed(small_config(row.name), row.changes));
    const Manifest& manifest = result->good();
    const std::string at = "model.layers.1.";
    for (const char* name : {"q_proj", "k_proj", "v_proj"}) {
      CHECK(has_tensor(manifest, at + "self_attn." + name + ".bias") ==
            row.query);
    }
    CHECK(has_tensor(manifest, at + "self_attn.o_proj.bias") == row.output);
    for (const char* name : {"gate_proj", "up_proj", "down_proj"}) {
      CHECK(has_tensor(manifest, at + "mlp." + name + ".bias") == row.mlp);
    }
  }
}

TEST_CASE("only qwen3 norms the heads of q and k") {
  for (const char* name : {"llama", "mistral", "qwen2", "qwen3"}) {
    CAPTURE(name);
    const auto result = synthesize(small_config(name));
    CHECK(
        has_tensor(result->good(), "model.layers.0.self_attn.q_norm.weight") ==
        (std::string(name) == "qwen3"));
  }
}

TEST_CASE("a tied head is not stored") {
  const Json config = sample_config("llama-3.2-1b");
  CHECK_FALSE(has_tensor(synthesize(config)->good(), "lm_head.weight"));
  const auto untied =
      synthesize(changed(config, {{"tie_word_embeddings", false}}));
  CHECK(type_of(untied->good(), "lm_head.weight") ==
        TensorType{DType::BF16, {128'256, 2048}});
  const auto absent = synthesize(without(config, "tie_word_embeddings"));
  CHECK(has_tensor(absent->good(), "lm_head.weight"));
}

TEST_CASE("sizes whose product exceeds 63 bits are refused") {
  const auto result = synthesize(
      changed(small_config("llama"), {{"vocab_size", 1 << 30},
                                      {"hidden_size", 1 << 30},
                                      {"intermediate_size", 1 << 30},
                                      {"num_hidden_layers", 100'000}}));
  CHECK(result->problem() == "SP009 the model's size exceeds 63 bits");
  CHECK(result->diags.all().size() == 1);
}

TEST_CASE("gemma ties its head unless the config says otherwise") {
  const Json config = sample_config("gemma-2-9b");
  CHECK_FALSE(has_tensor(synthesize(config)->good(), "lm_head.weight"));
  CHECK(has_tensor(
      synthesize(changed(config, {{"tie_word_embeddings", false}}))->good(),
      "lm_head.weight"));
}

TEST_CASE("gemma2 and gemma3 differ in the norms of the heads") {
  const std::string norm = "model.layers.0.self_attn.q_norm.weight";
  CHECK_FALSE(has_tensor(synthesize(small_config("gemma2"))->good(), norm));
  CHECK(type_of(synthesize(sample_config("gemma-3-1b"))->good(), norm) ==
        TensorType{DType::BF16, {256}});
}

TEST_CASE("what a config leaves out is that of its class, and is said") {
  const Json three =
      without(small_config("gemma3_text"), "num_attention_heads");
  CHECK(type_of(synthesize(three)->good(),
                "model.layers.0.self_attn.q_proj.weight")
            .shape == Shape{2048, 32});
  const auto two =
      synthesize(without(small_config("gemma2"), "num_attention_heads"));
  CHECK(two->good().remarks.back() ==
        "using defaults of Gemma2Config of transformers 5.23.0 for keys "
        "missing from the config: num_attention_heads 8, num_key_value_heads "
        "4, head_dim 256");
}

TEST_CASE("gemma3 with vision names both towers as the Hub does") {
  const auto result = synthesize(sample_config("gemma-3-4b"));
  const Manifest& manifest = result->good();
  CHECK(type_of(manifest, "language_model.model.embed_tokens.weight").shape ==
        Shape{262'208, 2560});
  CHECK(type_of(manifest,
                "vision_tower.vision_model.embeddings.position_embedding"
                ".weight")
            .shape == Shape{4096, 1152});
  CHECK(type_of(manifest, "multi_modal_projector.mm_input_projection_weight")
            .shape == Shape{1152, 2560});
  CHECK(manifest.size() == 883);
  const auto untied = synthesize(
      changed(sample_config("gemma-3-4b"), {{"tie_word_embeddings", false}}));
  CHECK(has_tensor(untied->good(), "language_model.lm_head.weight"));
}

TEST_CASE("a gemma3 has all that its sections say") {
  const Json config = small_config("gemma3");
  // The default of SiglipVisionConfig: 12 layers.
  const auto default_vision = synthesize(without(config, "vision_config"));
  CHECK(has_tensor(
      default_vision->good(),
      "vision_tower.vision_model.encoder.layers.11.layer_norm1.weight"));
  CHECK_FALSE(has_tensor(
      default_vision->good(),
      "vision_tower.vision_model.encoder.layers.12.layer_norm1.weight"));
  Json nothing = config;
  nothing["vision_config"] = 1;
  CHECK(synthesize(nothing)->problem().starts_with("SP0"));
  Json pooled = config;
  pooled["vision_config"]["vision_use_head"] = true;
  CHECK(has_tensor(synthesize(pooled)->good(),
                   "vision_tower.vision_model.head.probe"));
  Json broken = config;
  broken["text_config"]["hidden_size"] = nullptr;
  CHECK(synthesize(broken)->problem() ==
        "SP009 `text_config.hidden_size` is null");
}

TEST_CASE("MXFP4 experts are blocks of bytes and scales, with bf16 biases") {
  const auto result = synthesize(sample_config("gpt-oss-20b"));
  const Manifest& manifest = result->good();
  const std::string at = "model.layers.23.mlp.experts.";
  CHECK(type_of(manifest, at + "gate_up_proj_blocks") ==
        TensorType{DType::U8, {32, 5760, 90, 16}});
  CHECK(type_of(manifest, at + "gate_up_proj_scales") ==
        TensorType{DType::U8, {32, 5760, 90}});
  CHECK(type_of(manifest, at + "gate_up_proj_bias") ==
        TensorType{DType::BF16, {32, 5760}});
  CHECK(type_of(manifest, at + "down_proj_blocks") ==
        TensorType{DType::U8, {32, 2880, 90, 16}});
  CHECK(manifest.buffers().empty());
}

TEST_CASE("everything but the experts is bf16, as the Hub counts it") {
  const auto result = synthesize(sample_config("gpt-oss-20b"));
  const Manifest& manifest = result->good();
  int64_t bf16 = 0;
  int64_t u8 = 0;
  for (size_t i = 0; i < manifest.size(); ++i) {
    const TensorType& type = manifest.type(i);
    (type.dtype == DType::BF16 ? bf16 : u8) += type.elements();
  }
  CHECK(bf16 == 1'804'459'584);
  CHECK(u8 == 9'555'148'800 + 597'196'800);
}

TEST_CASE("without quantisation experts are stored in by out") {
  const Json config =
      changed(without(sample_config("gpt-oss-20b"), "quantization_config"),
              {{"torch_dtype", "bfloat16"}});
  const auto result = synthesize(config);
  const Manifest& manifest = result->good();
  CHECK(type_of(manifest, "model.layers.0.mlp.experts.gate_up_proj") ==
        TensorType{DType::BF16, {32, 2880, 5760}});
  CHECK(manifest.total_elements() == 20'914'757'184);
}

TEST_CASE("a quantisation that the config does not settle is refused") {
  const Json config = small_config("gpt_oss-mxfp4");
  Json kept = config;
  kept["quantization_config"]["modules_to_not_convert"] = {
      "lm_head", "model.layers.0.mlp.experts"};
  CHECK(synthesize(kept)->problem() ==
        "SP009 experts excluded from MXFP4 are not supported");
  CHECK(synthesize(changed(config, {{"intermediate_size", 48}}))->problem() ==
        "SP009 the weight of `model.layers.0.mlp.experts.down_proj` does not "
        "consist of whole MXFP4 blocks of 32");
  Json fp8 = config;
  fp8["quantization_config"] = {{"quant_method", "fp8"},
                                {"weight_block_size", {8, 8}}};
  fp8["transformers_version"] = "5.0.0";
  // Stacked experts in the shape that they have, with a scale per block.
  const auto stacked = synthesize(fp8);
  const std::string experts = "model.layers.0.mlp.experts.gate_up_proj";
  const TensorType whole = type_of(stacked->good(), experts);
  CHECK(whole.dtype == DType::F8E4M3);
  const TensorType scales = type_of(stacked->good(), experts + "_scale_inv");
  CHECK(scales == TensorType{DType::F32,
                             {whole.shape[0], (whole.shape[1] + 7) / 8,
                              (whole.shape[2] + 7) / 8}});
}

TEST_CASE("each expert has w1 and w3 in, w2 out, and a row of the gate") {
  const auto result = synthesize(sample_config("mixtral-8x7b"));
  const Manifest& manifest = result->good();
  const std::string at = "model.layers.31.block_sparse_moe.";
  const TensorType in{DType::BF16, {14'336, 4096}};
  const TensorType out{DType::BF16, {4096, 14'336}};
  CHECK(type_of(manifest, at + "gate.weight") ==
        TensorType{DType::BF16, {8, 4096}});
  CHECK(type_of(manifest, at + "experts.7.w1.weight") == in);
  CHECK(type_of(manifest, at + "experts.7.w2.weight") == out);
  CHECK(type_of(manifest, at + "experts.7.w3.weight") == in);
  CHECK_FALSE(has_tensor(manifest, at + "experts.8.w1.weight"));
  CHECK_FALSE(has_tensor(manifest, "model.layers.31.mlp.up_proj.weight"));
}

TEST_CASE("a mixtral without a number of experts is refused") {
  const Json config = sample_config("mixtral-8x7b");
  CHECK(synthesize(changed(config, {{"num_local_experts", nullptr}}))
            ->problem() == "SP009 `num_local_experts` is null");
  CHECK(synthesize(changed(config, {{"num_local_experts", 0}}))->problem() ==
        "SP009 `num_local_experts` is 0");
}

TEST_CASE("more experts than any model has are refused without making them") {
  const auto result = synthesize(changed(
      sample_config("mixtral-8x7b"),
      {{"num_local_experts", 100'000}, {"num_hidden_layers", 100'000}}));
  CHECK(result->problem() == "SP009 the model has too many tensors");
}

std::string kinds(const Json& changes) {
  const auto result =
      synthesize(changed(small_config("qwen3_moe-some-dense"), changes));
  std::string found;
  for (int layer = 0; layer < 6; ++layer) {
    const std::string at = "model.layers." + std::to_string(layer) + ".mlp.";
    const bool moe = has_tensor(result->good(), at + "gate.weight");
    const bool dense = has_tensor(result->good(), at + "up_proj.weight");
    CHECK(moe != dense);
    found += moe ? 'e' : 'd';
  }
  return found;
}

TEST_CASE("the step and the list of dense layers say which have experts") {
  CHECK(kinds(Json::object()) == "deddde");
  CHECK(kinds({{"mlp_only_layers", Json::array()}}) == "dedede");
  CHECK(kinds({{"mlp_only_layers", nullptr}}) == "dedede");
  CHECK(kinds({{"decoder_sparse_step", 3}}) == "ddedde");
  CHECK(kinds({{"decoder_sparse_step", 1}, {"mlp_only_layers", {0, 5, 9}}}) ==
        "deeeed");
  CHECK(kinds({{"num_experts", 0}}) == "dddddd");
}

TEST_CASE("experts have a size of their own") {
  const auto result = synthesize(sample_config("qwen3-30b-a3b"));
  CHECK(type_of(result->good(),
                "model.layers.47.mlp.experts.127.down_proj.weight") ==
        TensorType{DType::BF16, {2048, 768}});
  const auto taken = synthesize(
      without(sample_config("qwen3-30b-a3b"), "num_key_value_heads"));
  CHECK(type_of(taken->good(), "model.layers.0.self_attn.k_proj.weight") ==
        TensorType{DType::BF16, {512, 2048}});
  CHECK(taken->good().remarks.size() == 1);
}

TEST_CASE("null is not a number of KV heads for qwen3_moe") {
  CHECK(synthesize(changed(small_config("qwen3_moe"),
                           {{"num_key_value_heads", nullptr}}))
            ->problem() == "SP009 `num_key_value_heads` is null");
}

TEST_CASE("the causal masks are f32 buffers, whatever the weights are") {
  const auto result =
      synthesize(changed(sample_config("gpt2"), {{"torch_dtype", "float16"}}));
  const Manifest& manifest = result->good();
  CHECK(manifest.size() == 148);
  CHECK(manifest.total_elements() == 124'439'808);
  CHECK(manifest.total_bytes() == 2 * manifest.total_elements());
  REQUIRE(manifest.buffers().size() == 12);
  for (const auto& buffer : manifest.buffers()) {
    CHECK(buffer.type == TensorType{DType::F32, {1, 1, 1024, 1024}});
    CHECK(is_known_buffer(buffer.name, buffer.type));
  }
  CHECK(manifest.total_elements() + manifest.buffer_elements() == 137'022'720);
}

TEST_CASE("Conv1D weights are stored in by out") {
  const auto result = synthesize(sample_config("gpt2"));
  CHECK(type_of(result->good(), "h.11.attn.c_attn.weight").shape ==
        Shape{768, 2304});
  CHECK(type_of(result->good(), "h.11.mlp.c_proj.weight").shape ==
        Shape{3072, 768});
  CHECK_FALSE(has_tensor(result->good(), "lm_head.weight"));
}

TEST_CASE("n_inner counts unless it is null") {
  const Json config = sample_config("gpt2");
  const auto inner = [](const Json& changed_config) {
    return type_of(synthesize(changed_config)->good(), "h.0.mlp.c_fc.weight")
        .shape;
  };
  CHECK(inner(changed(config, {{"n_inner", nullptr}})) == Shape{768, 3072});
  CHECK(inner(changed(config, {{"n_inner", 100}})) == Shape{768, 100});
}

// Those of the Hub are older than the prefix, and hold masks.
TEST_CASE("a gpt2 has the names of the version that wrote it") {
  const Json config = small_config("gpt2");
  const auto old = synthesize(config);
  CHECK(has_tensor(old->good(), "h.0.attn.c_attn.weight"));
  CHECK(has_tensor(old->good(), "h.0.attn.bias"));
  for (const char* version : {"4.57.6", "5.23.0"}) {
    const auto saved =
        synthesize(changed(config, {{"transformers_version", version}}));
    const Manifest& manifest = saved->good();
    CHECK(has_tensor(manifest, "transformer.h.0.attn.c_attn.weight"));
    CHECK(has_tensor(manifest, "transformer.ln_f.bias"));
    CHECK_FALSE(has_tensor(manifest, "transformer.h.0.attn.bias"));
    CHECK(manifest.buffers().empty());
  }
}

TEST_CASE("a gpt2 whose names are uncertain is refused") {
  const Json config = sample_config("gpt2");
  CHECK(synthesize(changed(config, {{"tie_word_embeddings", false}}))
            ->problem() ==
        "SP009 a `gpt2` with an untied head is not supported");
  CHECK(
      synthesize(changed(config, {{"add_cross_attention", true}}))->problem() ==
      "SP009 cross attention is not supported");
  CHECK(synthesize(changed(config, {{"n_embd", nullptr}}))->problem() ==
        "SP009 `n_embd` is null");
}

TEST_CASE("the architecture tells the bare encoder from the one with a head") {
  const auto bare = synthesize(small_config("bert"));
  CHECK(has_tensor(bare->good(), "pooler.dense.weight"));
  CHECK_FALSE(has_tensor(bare->good(), "cls.predictions.bias"));
  const auto head = synthesize(small_config("bert-masked-lm"));
  CHECK(has_tensor(head->good(), "cls.predictions.bias"));
  CHECK(has_tensor(head->good(), "bert.encoder.layer.1.output.dense.weight"));
  CHECK_FALSE(has_tensor(head->good(), "bert.pooler.dense.weight"));
  // Without one it is the encoder.
  const auto none = synthesize(without(small_config("bert"), "architectures"));
  CHECK(has_tensor(none->good(), "pooler.dense.weight"));
  CHECK(type_of(none->good(), "embeddings.token_type_embeddings.weight")
            .shape[0] == 2);
}

TEST_CASE("a class of another type, and what nobody described, are told so") {
  const auto facts = [](const testing::Json& config) {
    const auto result = synthesize(config);
    CHECK_FALSE(result->manifest);
    std::string all;
    for (const std::string& fact : result->diags.all().front().facts) {
      all += fact + "\n";
    }
    return all;
  };
  const std::string other =
      facts({{"model_type", "qwen3_5_moe_text"},
             {"architectures", {"Qwen3_5MoeForConditionalGeneration"}}});
  CHECK(other.find("it is a class of `qwen3_5_moe`, whose tensors have "
                   "different names") != other.npos);
  CHECK(facts({{"model_type", "deepseek_ref"}}).find("SGLang") !=
        std::string::npos);
  CHECK(facts({{"model_type", "step3p7"},
               {"architectures", {"Step3p7FlashForCausalLM"}}})
            .find("no public code") != std::string::npos);
}

TEST_CASE("LocateAnything is Qwen 2 beside MoonViT, as its own code has it") {
  const testing::Json config = {
      {"model_type", "locateanything"},
      {"architectures", {"LocateAnythingForConditionalGeneration"}},
      {"torch_dtype", "bfloat16"},
      {"text_config",
       {{"model_type", "qwen2"},
        {"hidden_size", 64},
        {"intermediate_size", 96},
        {"num_attention_heads", 4},
        {"num_key_value_heads", 2},
        {"num_hidden_layers", 2},
        {"tie_word_embeddings", true},
        {"vocab_size", 50}}},
      {"vision_config",
       {{"model_type", "moonvit"},
        {"hidden_size", 32},
        {"init_pos_emb_height", 8},
        {"init_pos_emb_width", 6},
        {"intermediate_size", 40},
        {"num_attention_heads", 2},
        {"num_hidden_layers", 3},
        {"patch_size", 14}}}};
  const auto result = synthesize(config);
  const Manifest& manifest = result->good();
  CHECK(type_of(manifest, "vision_model.patch_embed.pos_emb.weight").shape ==
        Shape{8, 6, 32});
  CHECK(type_of(manifest, "vision_model.patch_embed.proj.weight").shape ==
        Shape{32, 3, 14, 14});
  CHECK(type_of(manifest, "vision_model.encoder.blocks.2.wqkv.weight").shape ==
        Shape{96, 32});
  CHECK(type_of(manifest, "mlp1.0.weight").shape == Shape{128});
  CHECK(type_of(manifest, "mlp1.1.weight").shape == Shape{64, 128});
  CHECK(type_of(manifest, "mlp1.3.bias").shape == Shape{64});
  CHECK(
      has_tensor(manifest, "language_model.model.layers.1.mlp.up_proj.weight"));
  CHECK_FALSE(has_tensor(manifest, "language_model.lm_head.weight"));
  CHECK(synthesize(changed(config, {{"use_llm_lora", 8}}))->problem() ==
        "SP009 LoRA adapters are not supported here");
}

TEST_CASE(
    "Logics is Qwen 3 beside ConvNeXt and all of SigLIP but its last layer") {
  // The sizes of the released one.
  const testing::Json config = {
      {"model_type", "logics"},
      {"architectures", {"LogicsForConditionalGeneration"}},
      {"torch_dtype", "bfloat16"},
      {"attention_bias", false},
      {"head_dim", 128},
      {"hidden_size", 4096},
      {"intermediate_size", 12288},
      {"mm_hidden_size", 4224},
      {"mm_patch_merge_type", "spatial_unpad"},
      {"mm_projector_type", "mlp2x_gelu"},
      {"mm_vision_tower", "convnext-1024,siglip2-384"},
      {"num_attention_heads", 32},
      {"num_hidden_layers", 36},
      {"num_key_value_heads", 8},
      {"sliding_window", nullptr},
      {"tie_word_embeddings", false},
      {"vocab_size", 151936},
      {"siglip_config",
       {{"model_type", "siglip_vision_model"},
        {"hidden_size", 1152},
        {"image_size", 384},
        {"intermediate_size", 4304},
        {"num_attention_heads", 16},
        {"num_hidden_layers", 27},
        {"patch_size", 14}}}};
  const auto result = synthesize(config);
  const Manifest& manifest = result->good();
  int64_t bytes = 0;
  for (size_t i = 0; i < manifest.size(); ++i) {
    int64_t elements = 1;
    for (const int64_t dim : manifest.type(i).shape) elements *= dim;
    bytes += byte_count(elements, manifest.type(i).dtype).value();
  }
  // As the index beside its weights says.
  CHECK(bytes == 18'938'237'760);
  const std::string towers = "model.vision_tower.vision_towers.";
  CHECK(
      type_of(manifest, towers + "0.vision_tower.stages.3.downsample.1.weight")
          .shape == Shape{3072, 1536, 2, 2});
  CHECK(type_of(manifest, towers + "0.vision_tower.stages.2.blocks.29.weight")
            .shape == Shape{1536});
  const std::string siglip = towers + "1.vision_tower.vision_model.";
  CHECK(has_tensor(manifest, siglip + "encoder.layers.25.mlp.fc1.weight"));
  CHECK_FALSE(
      has_tensor(manifest, siglip + "encoder.layers.26.mlp.fc1.weight"));
  CHECK_FALSE(has_tensor(manifest, siglip + "head.probe"));
  CHECK(synthesize(changed(config, {{"mm_hidden_size", 4225}}))->problem() ==
        "SP009 it must be the sum of both encoders' output widths");
}

TEST_CASE(
    "what released configs of MiniMax M1, Step 3.5, Phi 3.5 MoE and Kimi "
    "K2.5 say in their own way is read") {
  const testing::Json sizes = {{"hidden_size", 32},
                               {"vocab_size", 96},
                               {"num_attention_heads", 4},
                               {"num_key_value_heads", 2},
                               {"head_dim", 8},
                               {"intermediate_size", 48},
                               {"num_hidden_layers", 3},
                               {"torch_dtype", "bfloat16"},
                               {"tie_word_embeddings", false}};
  // Which layers are linear, as numbers.
  const auto minimax =
      synthesize(changed(sizes, {{"model_type", "minimax_m1"},
                                 {"architectures", {"MiniMaxM1ForCausalLM"}},
                                 {"num_local_experts", 2},
                                 {"attn_type_list", {0, 1, 0}}}));
  const std::string qkv = ".self_attn.qkv_proj.weight";
  CHECK(has_tensor(minimax->good(), "model.layers.0" + qkv));
  CHECK_FALSE(has_tensor(minimax->good(), "model.layers.1" + qkv));
  // Which layers have experts, as a text.
  const testing::Json step = {
      {"model_type", "step3p5"},   {"architectures", {"Step3p5ForCausalLM"}},
      {"num_attention_groups", 2}, {"sliding_window", 16},
      {"attention_bias", false},   {"mlp_bias", false},
      {"moe_num_experts", 2},      {"moe_intermediate_size", 20},
      {"moe_layers_enum", "1, 2"}};
  const auto experts = synthesize(changed(sizes, step));
  CHECK(has_tensor(experts->good(), "model.layers.0.mlp.up_proj.weight"));
  CHECK(type_of(experts->good(), "model.layers.2.moe.up_proj.weight").shape ==
        Shape{2, 20, 32});
  for (const char* wrong : {"1,", "1,,2", ",1", "1;2", "one"}) {
    CAPTURE(wrong);
    const auto refused =
        synthesize(changed(changed(sizes, step), {{"moe_layers_enum", wrong}}));
    CHECK_FALSE(refused->manifest);
  }
  // A class by another name than transformers has.
  const auto phi =
      synthesize(changed(sizes, {{"model_type", "phimoe"},
                                 {"architectures", {"PhiMoEForCausalLM"}},
                                 {"num_local_experts", 2}}));
  CHECK(has_tensor(phi->good(),
                   "model.layers.0.block_sparse_moe.experts.1.w2.weight"));
  // A norm of the encoder's size, whatever the class in transformers takes.
  testing::Json kimi = {{"model_type", "kimi_k25"},
                        {"architectures", {"KimiK25ForConditionalGeneration"}},
                        {"torch_dtype", "bfloat16"},
                        {"tie_word_embeddings", false}};
  kimi["vision_config"] = {{"vt_hidden_size", 16},
                           {"vt_intermediate_size", 24},
                           {"vt_num_attention_heads", 2},
                           {"vt_num_hidden_layers", 1},
                           {"mm_hidden_size", 16}};
  kimi["text_config"] = changed(sizes, {{"model_type", "kimi_k2"},
                                        {"kv_lora_rank", 8},
                                        {"q_lora_rank", 10},
                                        {"qk_nope_head_dim", 6},
                                        {"qk_rope_head_dim", 4},
                                        {"v_head_dim", 5},
                                        {"moe_intermediate_size", 20},
                                        {"n_routed_experts", 2},
                                        {"n_shared_experts", 1},
                                        {"first_k_dense_replace", 1},
                                        {"num_key_value_heads", 4}});
  CHECK(
      type_of(synthesize(kimi)->good(), "mm_projector.pre_norm.weight").shape ==
      Shape{16});
}

TEST_CASE("what a bert cannot be is refused") {
  const auto problem = [](const testing::Json& changes) {
    return synthesize(changed(small_config("bert"), changes))->problem();
  };
  CHECK(problem({{"architectures", {"BertForImageClassification"}}}) ==
        "SP009 architecture `BertForImageClassification` is not supported");
  CHECK(problem({{"tie_word_embeddings", false}}) ==
        "SP009 a `bert` with an untied head is not supported");
  CHECK(problem({{"add_cross_attention", true}}) ==
        "SP009 cross attention is not supported");
}

}  // namespace

}  // namespace shardplan
