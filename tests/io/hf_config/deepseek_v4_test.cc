// SPDX-License-Identifier: Apache-2.0
// DeepSeek V4 as it was released: FP8 beside experts of 4 bits. The numbers are
// those of the headers of DeepSeek-V4-Flash and DeepSeek-V4-Pro, as others have
// published them.
#include <map>
#include <string>

#include <doctest/doctest.h>

#include "model/quant_scales.h"
#include "model/units.h"
#include "tests/support/hf_config.h"

namespace shardplan {
namespace {

using testing::changed;
using testing::has_tensor;
using testing::Json;
using testing::synthesize;
using testing::type_of;
using testing::without;

Json flash_config() {
  Json ratios = {0, 0};
  for (int i = 2; i < 43; ++i) ratios.push_back(i % 2 == 0 ? 4 : 128);
  ratios.push_back(0);
  return {{"architectures", {"DeepseekV4ForCausalLM"}},
          {"model_type", "deepseek_v4"},
          {"expert_dtype", "fp4"},
          {"hc_mult", 4},
          {"head_dim", 512},
          {"hidden_act", "silu"},
          {"hidden_size", 4096},
          {"index_head_dim", 128},
          {"index_n_heads", 64},
          {"moe_intermediate_size", 2048},
          {"n_routed_experts", 256},
          {"n_shared_experts", 1},
          {"num_attention_heads", 64},
          {"num_experts_per_tok", 6},
          {"num_hash_layers", 3},
          {"num_hidden_layers", 43},
          {"num_key_value_heads", 1},
          {"num_nextn_predict_layers", 1},
          {"o_groups", 8},
          {"o_lora_rank", 1024},
          {"q_lora_rank", 1024},
          {"qk_rope_head_dim", 64},
          {"quantization_config",
           {{"activation_scheme", "dynamic"},
            {"fmt", "e4m3"},
            {"quant_method", "fp8"},
            {"scale_fmt", "ue8m0"},
            {"weight_block_size", {128, 128}}}},
          {"tie_word_embeddings", false},
          {"torch_dtype", "bfloat16"},
          {"transformers_version", "4.57.1"},
          {"vocab_size", 129280},
          {"compress_ratios", ratios}};
}

Json pro_config() {
  Json ratios = {128, 128};
  for (int i = 2; i < 61; ++i) ratios.push_back(i % 2 == 0 ? 4 : 128);
  ratios.push_back(0);
  return changed(flash_config(), {{"hidden_size", 7168},
                                  {"moe_intermediate_size", 3072},
                                  {"n_routed_experts", 384},
                                  {"num_attention_heads", 128},
                                  {"num_hidden_layers", 61},
                                  {"o_groups", 16},
                                  {"q_lora_rank", 1536},
                                  {"compress_ratios", ratios}});
}

// A few layers of each kind, so that a case takes no time.
Json small_v4(const Json& changes, const Json& of_quantisation = {}) {
  Json config =
      changed(flash_config(), {{"num_hidden_layers", 4},
                               {"n_routed_experts", 4},
                               {"compress_ratios", {0, 0, 4, 128, 0}}});
  if (!changes.is_null()) config.update(changes);
  if (!of_quantisation.is_null()) {
    config["quantization_config"].update(of_quantisation);
  }
  return config;
}

Json rewritten_experts(const Json& layers) {
  Json config = small_v4(
      {}, {{"quant_algo", "MIXED_PRECISION"},
           {"moe_quant_algo", "NVFP4"},
           {"group_size", 16},
           {"ignore", {"*.attn.*", "*.ffn.shared_experts.*", "head", "mtp.*"}},
           {"producer", {{"name", "modelopt"}}}});
  config["quantization_config"]["quantized_layers"] = layers;
  return config;
}

struct Stored {
  int64_t tensors = 0;
  int64_t elements = 0;
  int64_t bytes = 0;
  bool operator==(const Stored& other) const {
    return tensors == other.tensors && elements == other.elements &&
           bytes == other.bytes;
  }
};

// Parameters and buffers alike, as a header lists them.
std::map<DType, Stored> stored_by_dtype(const Manifest& manifest) {
  std::map<DType, Stored> result;
  const auto add = [&](const TensorType& type) {
    Stored& all = result[type.dtype];
    ++all.tensors;
    all.elements += type.elements();
    all.bytes += type.bytes();
  };
  for (size_t i = 0; i < manifest.size(); ++i) add(manifest.type(i));
  for (const auto& buffer : manifest.buffers()) add(buffer.type);
  return result;
}

// Dimensions with their number of quantisation blocks, "0x4 1x32".
std::string quant_units(const Manifest& manifest, const std::string& name) {
  std::string text;
  for (const Unit& unit : units_of(name, type_of(manifest, name),
                                   manifest.facts, layout_hints(manifest))) {
    if (unit.kind != UnitKind::QuantBlock) continue;
    if (!text.empty()) text += ' ';
    text += std::to_string(unit.dim) + "x" + std::to_string(unit.count);
  }
  return text;
}

std::string v4_problem(const Json& config) {
  return synthesize(config)->problem();
}

TensorType as_type(DType dtype, Shape shape) {
  return {dtype, std::move(shape)};
}

TEST_CASE("DeepSeek V4 Flash has the tensors of its headers, per dtype") {
  const auto result = synthesize(flash_config());
  auto stored = stored_by_dtype(result->good());
  struct Row {
    DType dtype;
    int64_t tensors, bytes;
  };
  int64_t tensors = 0;
  int64_t bytes = 0;
  for (const Row& row :
       {Row{DType::BF16, 433, 2'830'518'528}, Row{DType::F32, 417, 144'672'072},
        Row{DType::F8E4M3, 375, 6'023'020'544},
        Row{DType::F8E8M0, 34'167, 8'858'737'664},
        Row{DType::I64, 3, 18'616'320},
        Row{DType::I8, 33'792, 141'733'920'768}}) {
    CAPTURE(dtype_name(row.dtype));
    CHECK(stored[row.dtype].tensors == row.tensors);
    CHECK(stored[row.dtype].bytes == row.bytes);
    tensors += row.tensors;
    bytes += row.bytes;
  }
  CHECK(stored.size() == 6);
  CHECK(tensors == 69'187);
  CHECK(bytes == 159'609'485'896);
}

TEST_CASE("DeepSeek V4 Pro has as many tensors and elements as its headers") {
  const auto result = synthesize(pro_config());
  int64_t tensors = 0;
  int64_t elements = 0;
  for (const auto& [dtype, stored] : stored_by_dtype(result->good())) {
    tensors += stored.tensors;
    elements += stored.elements;
  }
  CHECK(tensors == 145'116);
  CHECK(elements == 861'608'274'846);
}

TEST_CASE("DeepSeek V4: scales stand beside weights, experts are packed") {
  const auto result = synthesize(small_v4({}));
  const Manifest& manifest = result->good();
  CHECK(type_of(manifest, "layers.3.ffn.experts.1.w1.weight") ==
        as_type(DType::I8, {2048, 2048}));
  CHECK(type_of(manifest, "layers.3.ffn.experts.1.w1.scale") ==
        as_type(DType::F8E8M0, {2048, 128}));
  CHECK(type_of(manifest, "mtp.0.ffn.experts.3.w2.weight") ==
        as_type(DType::I8, {4096, 1024}));
  CHECK(type_of(manifest, "layers.0.attn.wo_a.weight") ==
        as_type(DType::F8E4M3, {8192, 4096}));
  CHECK(type_of(manifest, "layers.2.ffn.shared_experts.w2.weight") ==
        as_type(DType::F8E4M3, {4096, 2048}));
  CHECK(type_of(manifest, "layers.2.attn.indexer.weights_proj.weight") ==
        as_type(DType::BF16, {64, 4096}));
  std::map<std::string, TensorType> buffers;
  for (const auto& each : manifest.buffers()) {
    buffers.emplace(each.name, each.type);
  }
  CHECK(buffers.at("layers.0.attn.wo_a.scale") ==
        as_type(DType::F8E8M0, {64, 32}));
  CHECK(buffers.at("mtp.0.e_proj.scale") == as_type(DType::F8E8M0, {32, 32}));
  CHECK(buffers.count("head.scale") == 0);
  CHECK(quantisation_by_names(manifest) == "fp8");
  // Headers alone tell these apart too.
  for (const auto& [name, type] : buffers) {
    if (type.dtype == DType::F8E8M0) CHECK(is_known_buffer(name, type));
  }
  for (size_t i = 0; i < manifest.size(); ++i) {
    CHECK_FALSE(is_known_buffer(manifest.any_name(i), manifest.type(i)));
  }
}

TEST_CASE("DeepSeek V4: ModelOpt rewrites the experts that it names") {
  const Json nvfp4 = {{"quant_algo", "NVFP4"}, {"group_size", 16}};
  const auto result = synthesize(rewritten_experts(
      {{"layers.0.ffn.experts", nvfp4}, {"layers.1.ffn.experts", nvfp4}}));
  const Manifest& manifest = result->good();
  const std::string at = "layers.1.ffn.experts.2.w1.";
  CHECK(type_of(manifest, at + "weight") == as_type(DType::U8, {2048, 2048}));
  CHECK(type_of(manifest, at + "weight_scale") ==
        as_type(DType::F8E4M3, {2048, 256}));
  CHECK_FALSE(has_tensor(manifest, at + "scale"));
  CHECK(quantisation_by_names(manifest) == "fp8 and modelopt");
  // Blocks of 128 are those of FP8; experts have groups of 16 or, in the last
  // layer, of 32, two values in a byte: what is whole in all layers. Their
  // scales may be cut anywhere.
  CHECK(manifest.facts.quant_rows == 128);
  CHECK(quant_units(manifest, at + "weight") == "1x128");
  CHECK(quant_units(manifest, at + "weight_scale") == "");
  CHECK(quant_units(manifest, "layers.1.attn.wkv.weight") == "0x4 1x32");
  std::map<std::string, TensorType> buffers;
  for (const auto& each : manifest.buffers()) {
    buffers.emplace(each.name, each.type);
  }
  CHECK(buffers.at(at + "weight_scale_2") == as_type(DType::F32, {}));
  CHECK(buffers.at(at + "input_scale") == as_type(DType::F32, {}));
  // What is not named stays as it was.
  for (const std::string other :
       {"layers.2.ffn.experts.2.w1.", "mtp.0.ffn.experts.2.w1."}) {
    CAPTURE(other);
    CHECK(type_of(manifest, other + "weight") ==
          as_type(DType::I8, {2048, 2048}));
    CHECK(type_of(manifest, other + "scale") ==
          as_type(DType::F8E8M0, {2048, 128}));
  }
  CHECK(type_of(manifest, "layers.1.attn.wkv.weight") ==
        as_type(DType::F8E4M3, {512, 4096}));
}

TEST_CASE("DeepSeek V4: what no public checkpoint has is refused") {
  const Json nvfp4 = {{"quant_algo", "NVFP4"}, {"group_size", 16}};
  CHECK(v4_problem(small_v4({{"transformers_version", "5.23.0"}})) ==
        "SP009 experts of a type other than FP8 are not supported");
  CHECK(v4_problem(small_v4({}, {{"scale_fmt", "float"}})) ==
        "SP009 experts of a type other than FP8 are not supported");
  CHECK(v4_problem(rewritten_experts({{"layers.0.attn.wkv", nvfp4}})) ==
        "SP009 `layers.0.attn.wkv` is not a module of experts");
  CHECK(v4_problem(rewritten_experts({{"mtp.0.ffn.experts", nvfp4}})) ==
        "SP009 `mtp.0.ffn.experts` is also in `ignore`");
  CHECK(v4_problem(small_v4({}, {{"moe_quant_algo", "FP8"},
                                 {"quant_algo", "MIXED_PRECISION"}})) ==
        "SP009 experts beside FP8 layers are supported only as `NVFP4` of "
        "`MIXED_PRECISION`");
  // FP8 alone: the name is that of the checkpoints, the scales are f32.
  const auto plain =
      synthesize(small_v4({{"expert_dtype", "fp8"}}, {{"scale_fmt", nullptr}}));
  CHECK(type_of(plain->good(), "layers.0.ffn.experts.0.w1.weight") ==
        as_type(DType::F8E4M3, {2048, 4096}));
  bool scales = false;
  for (const auto& each : plain->good().buffers()) {
    scales |= each.name == "layers.0.ffn.experts.0.w1.scale" &&
              each.type == as_type(DType::F32, {16, 32});
  }
  CHECK(scales);
}

}  // namespace
}  // namespace shardplan
