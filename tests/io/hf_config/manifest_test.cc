// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <vector>

#include <doctest/doctest.h>

#include "core/fold.h"
#include "io/formats.h"
#include "io/load.h"
#include "model/architecture/quantisation.h"
#include "tests/support/hf_config.h"
#include "tests/support/memory_host.h"
#include "tests/support/messages.h"
#include "tests/support/property.h"

namespace shardplan {
namespace {

using testing::changed;
using testing::Json;
using testing::sample_config;
using testing::small_config;
using testing::synthesize;
using testing::synthesize_text;
using testing::without;

using Tensor = std::pair<std::string, Shape>;

// Parameters in order, then buffers.
std::vector<Tensor> tensors_of(const Manifest& manifest) {
  std::vector<Tensor> tensors;
  for (size_t i = 0; i < manifest.size(); ++i) {
    tensors.emplace_back(manifest.name(i), manifest.type(i).shape);
  }
  for (const auto& buffer : manifest.buffers()) {
    tensors.emplace_back(buffer.name, buffer.type.shape);
  }
  return tensors;
}

// The recorded ones in the same order: buffers last.
std::vector<Tensor> tensors_of(const Json& recording,
                               const Manifest& manifest) {
  std::vector<Tensor> tensors;
  for (const Json& row : recording.at("tensors")) {
    tensors.emplace_back(row.at(0).get<std::string>(), row.at(1).get<Shape>());
  }
  std::stable_partition(
      tensors.begin(), tensors.end(), [&](const Tensor& tensor) {
        return std::none_of(
            manifest.buffers().begin(), manifest.buffers().end(),
            [&](const auto& buffer) { return buffer.name == tensor.first; });
      });
  return tensors;
}

std::vector<std::string> recordings(const std::string& kind) {
  std::vector<std::string> names;
  for (const auto& entry :
       std::filesystem::directory_iterator(testing::data_path("hf"))) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with(kind)) names.push_back("hf/" + name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

TEST_CASE("small models have the tensors of transformers' modules, in order") {
  const auto names = recordings("small-");
  CHECK(names.size() >= 29);
  for (const std::string& name : names) {
    CAPTURE(name);
    const Json recording = testing::read_json(testing::data_path(name));
    const auto result = synthesize(recording.at("config"));
    CAPTURE(result->problem());
    REQUIRE(result->manifest);
    CHECK(tensors_of(*result->manifest) ==
          tensors_of(recording, *result->manifest));
  }
}

// Counts per name with its numbers folded, and shape.
using Folded = std::map<std::pair<std::string, Shape>, int64_t>;

Folded fold_all(const Manifest& manifest) {
  Folded counts;
  for (const auto& [name, shape] : tensors_of(manifest)) {
    ++counts[{folded_name(name), shape}];
  }
  return counts;
}

TEST_CASE("real models have the tensors of transformers' modules") {
  const auto names = recordings("real-");
  CHECK(names.size() >= 17);
  for (const std::string& name : names) {
    CAPTURE(name);
    const Json recording = testing::read_json(testing::data_path(name));
    Json config = testing::read_json(testing::data_path(
        "configs/" + recording.at("config_file").get<std::string>()));
    // transformers leaves DeepSeek's further layers out.
    config.erase("num_nextn_predict_layers");
    const auto result = synthesize(config);
    CAPTURE(result->problem());
    REQUIRE(result->manifest);
    const Manifest& manifest = *result->manifest;
    CHECK(manifest.total_elements() + manifest.buffer_elements() ==
          recording.at("element_count").get<int64_t>());
    Folded expected;
    for (const Json& row : recording.at("folded")) {
      expected[{row.at(0).get<std::string>(), row.at(1).get<Shape>()}] =
          row.at(2).get<int64_t>();
    }
    CHECK(fold_all(manifest) == expected);
  }
}

TEST_CASE("the published sizes of real models come out exactly") {
  struct Known {
    const char* config;
    int64_t elements;
    int64_t bytes;
    int64_t buffer_elements;
  };
  const Known table[] = {
      {"llama-3.1-8b", 8'030'261'248, 16'060'522'496, 0},
      {"llama-3.1-70b", 70'553'706'496, 141'107'412'992, 0},
      {"llama-3.2-1b", 1'235'814'400, 2'471'628'800, 0},
      {"tinyllama-1.1b", 1'100'048'384, 2'200'096'768, 0},
      {"mistral-7b", 7'241'732'096, 14'483'464'192, 0},
      {"mixtral-8x7b", 46'702'792'704, 93'405'585'408, 0},
      {"mixtral-8x22b", 140'620'634'112, 281'241'268'224, 0},
      {"qwen2-7b", 7'615'616'512, 15'231'233'024, 0},
      {"qwen3-8b", 8'190'735'360, 16'381'470'720, 0},
      {"qwen3-30b-a3b", 30'532'122'624, 61'064'245'248, 0},
      {"gemma-2-2b", 2'614'341'888, 10'457'367'552, 0},
      {"gemma-2-9b", 9'241'705'984, 36'966'823'936, 0},
      {"gemma-3-1b", 999'885'952, 1'999'771'904, 0},
      {"gemma-3-4b", 4'300'079'472, 8'600'158'944, 0},
      {"gpt2", 124'439'808, 497'759'232, 12'582'912},
      {"bert-base", 109'514'298, 438'057'192, 0},
      {"gpt-oss-20b", 11'956'805'184, 13'761'264'768, 0},
  };
  for (const Known& known : table) {
    CAPTURE(known.config);
    const auto result = synthesize(sample_config(known.config));
    CAPTURE(result->problem());
    REQUIRE(result->manifest);
    CHECK(result->manifest->total_elements() == known.elements);
    CHECK(result->manifest->total_bytes() == known.bytes);
    CHECK(result->manifest->buffer_elements() == known.buffer_elements);
    CHECK_FALSE(result->manifest->find_duplicate());
    CHECK(result->manifest->format == "hf-config");
    CHECK(result->manifest->facts.from == FactsFrom::Config);
  }
}

TEST_CASE("the dtype is that of the config, old or new, or f32 with a remark") {
  const Json base = small_config("llama");
  struct Row {
    Json changes;
    DType dtype;
    size_t remarks;
  };
  const Row rows[] = {
      {{{"torch_dtype", "float16"}}, DType::F16, 0},
      {{{"dtype", "bfloat16"}}, DType::BF16, 0},
      {{{"torch_dtype", "torch.float64"}}, DType::F64, 0},
      {{{"dtype", nullptr}, {"torch_dtype", "bfloat16"}}, DType::BF16, 0},
      {{{"torch_dtype", "float16"}, {"dtype", "float32"}}, DType::F32, 0},
      {Json::object(), DType::F32, 1},
      {{{"torch_dtype", nullptr}}, DType::F32, 1},
  };
  for (const Row& row : rows) {
    CAPTURE(row.changes.dump());
    const auto result = synthesize(changed(base, row.changes));
    REQUIRE(result->manifest);
    CHECK(result->manifest->type(0).dtype == row.dtype);
    CHECK(result->manifest->remarks.size() == row.remarks);
  }
  Json inner = small_config("gemma3");
  inner["text_config"]["torch_dtype"] = "bfloat16";
  CHECK(synthesize(inner)->good().type(0).dtype == DType::BF16);
  // MXFP4 leaves the rest in bf16; gpt-oss' own config names no dtype.
  const auto quantized = synthesize(small_config("gpt_oss-mxfp4"));
  CHECK(quantized->good().type(0).dtype == DType::BF16);
  CHECK(quantized->good().remarks.front() ==
        "the config names no dtype: bf16 is assumed");
}

TEST_CASE("the family follows from architectures where model_type is absent") {
  const Json config = without(sample_config("qwen3-8b"), "model_type");
  CHECK(synthesize(config)->good().total_elements() == 8'190'735'360);
  const auto neither = synthesize(without(config, "architectures"));
  CHECK(neither->problem() ==
        "SP009 neither `model_type` nor `architectures` names a supported "
        "family");
}

TEST_CASE("configs that say nothing certain are refused with the reason") {
  const Json base = small_config("llama");
  const Json awq = {{"quant_method", "awq"}, {"bits", 4}};
  struct Row {
    Json changes;
    const char* problem;
  };
  const Row rows[] = {
      {{{"model_type", "lama"}}, "SP009 model type `lama` is not supported"},
      {{{"architectures", {"LlamaForNothing"}}},
       "SP009 architecture `LlamaForNothing` is not supported"},
      {{{"quantization_config", awq}},
       "SP009 `quantization_config.group_size` is missing"},
      {{{"quantization_config", {{"quant_method", "mxfp4"}}}},
       "SP009 the config is quantised with `mxfp4`, but no layer of the model "
       "is"},
      {{{"quantization_config", {{"bits", 4}}}},
       "SP009 `quantization_config` has no `quant_method`"},
      {{{"quantization_config", "awq"}},
       "SP009 `quantization_config` has no `quant_method`"},
      {{{"compression_config", {{"quant_method", "sparseml"}}}},
       "SP009 the config is quantised with `sparseml`"},
      {{{"torch_dtype", "bfloat61"}},
       "SP005 dtype `bfloat61` is not supported"},
      {{{"torch_dtype", "int8"}},
       "SP009 weights of dtype `int8` cannot be derived from a config"},
      {{{"hidden_size", nullptr}}, "SP009 `hidden_size` is null"},
      {{{"hidden_size", "big"}},
       "SP002 `hidden_size` must be an integer, not a string"},
      {{{"vocab_size", -1}}, "SP009 `vocab_size` is -1"},
      {{{"num_hidden_layers", 100'001}}, "SP009 `num_hidden_layers` is 100001"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.changes.dump());
    const auto result = synthesize(changed(base, row.changes));
    CHECK_FALSE(result->manifest);
    CHECK(result->problem() == row.problem);
  }
}

// Quantised models were read as bf16, without a word.
TEST_CASE("no quantisation that is not known is read as plain numbers") {
  // What transformers 5, vLLM, MLX and SGLang write.
  for (const char* method : {"aqlm",
                             "auto-round",
                             "autoround",
                             "awq",
                             "bitblas",
                             "bitnet",
                             "bitsandbytes",
                             "compressed-tensors",
                             "deepspeedfp",
                             "eetq",
                             "experts_int8",
                             "fbgemm_fp8",
                             "finegrained_fp8",
                             "fp8",
                             "fp_quant",
                             "gguf",
                             "gptq",
                             "gptq_marlin",
                             "higgs",
                             "hqq",
                             "ipex",
                             "marlin",
                             "modelopt",
                             "modelopt_fp4",
                             "mxfp4",
                             "nvfp4",
                             "ptpc_fp8",
                             "quanto",
                             "quark",
                             "sinq",
                             "spqr",
                             "torchao",
                             "tpu_int8",
                             "vptq",
                             "w8a8_fp8",
                             "w8a8_int8"}) {
    CAPTURE(method);
    const Json said = {{"quant_method", method}};
    const std::string problem =
        "SP009 the config is quantised with `" + std::string(method) + "`";
    for (const char* key : {"quantization_config", "compression_config",
                            "quant_config", "quantize_config"}) {
      const auto result =
          synthesize(changed(small_config("llama"), {{key, said}}));
      CHECK_FALSE(result->manifest);
      // Of a method that is known, by what its section lacks.
      const bool read = std::string(key) == "quantization_config" ||
                        (std::string(key) == "compression_config" &&
                         std::string(method) == "compressed-tensors");
      const bool known = read && find_method(method).has_value();
      if (known) CHECK(result->problem().starts_with("SP009"));
      if (!known) CHECK(result->problem() == problem);
    }
    // Said by the part that is the language model.
    Json part = small_config("gemma3");
    part["text_config"]["quantization_config"] = said;
    const std::string found = synthesize(part)->problem();
    // Of one method a part may say it.
    if (std::string(method) == "compressed-tensors") {
      CHECK(found.starts_with("SP009 `text_config.quantization_config."));
    } else {
      CHECK(found == problem);
    }
  }
  const Json mlx = {{"group_size", 64}, {"bits", 7}};
  for (const Json& changes :
       {Json{{"quantization", mlx}},
        Json{{"quantization", mlx}, {"quantization_config", mlx}}}) {
    const auto result = synthesize(changed(small_config("qwen3"), changes));
    CHECK_FALSE(result->manifest);
    CHECK(result->problem() == "SP009 MLX does not support 7 bits");
  }
  CHECK(synthesize(changed(small_config("llama"), {{"quantization", "int8"}}))
            ->problem() == "SP009 the config is quantised with `quantization`");
  // A key without a value says nothing.
  CHECK(synthesize(
            changed(small_config("llama"), {{"quantization", nullptr},
                                            {"quantization_config", nullptr}}))
            ->good()
            .size() > 0);
}

TEST_CASE("a quantisation may be said by a file beside the config") {
  const std::string config = small_config("llama").dump();
  const auto loaded = [&](const std::string& name, const std::string& text,
                          const std::string& path) {
    testing::MemoryHost host;
    host.files["m/config.json"] = config;
    if (!name.empty()) host.files["m/" + name] = text;
    Diagnostics diags;
    const auto manifest = load_manifest(path, host, diags);
    return manifest ? std::string("read") : testing::messages(diags);
  };
  for (const char* path : {"m", "m/config.json"}) {
    for (const char* algorithm : {"W4A8_AWQ", "W4A16_AWQ"}) {
      CHECK(loaded("hf_quant_config.json",
                   R"({"producer": {"name": "modelopt"}, "quantization":
{"quant_algo": ")" + std::string(algorithm) +
                       R"(", "group_size": 16}})",
                   path) ==
            "SP009 m/hf_quant_config.json:2:16 ModelOpt algorithm `" +
                std::string(algorithm) + "` is not supported");
    }
    CHECK(loaded("hf_quant_config.json",
                 R"({"quantization": {"quant_algo": "FP8"}})", path) == "read");
    CHECK(loaded("quantize_config.json", R"({"bits": 4, "group_size": 128})",
                 path) ==
          "SP009 m/quantize_config.json:1:1 the model is quantised, according "
          "to `quantize_config.json` next to its config");
    CHECK(loaded("quant_config.json", R"({"w_bit": 4})", path)
              .starts_with("SP009"));
    CHECK(loaded("hf_quant_config.json", "{", path).starts_with("SP002"));
    // The sound twins: nothing beside it, and a quantised cache alone.
    CHECK(loaded("", "", path) == "read");
    CHECK(loaded("hf_quant_config.json",
                 R"({"quantization": {"quant_algo": null,
"kv_cache_quant_algo": "FP8"}})",
                 path) == "read");
  }
}

TEST_CASE("an unknown model type names the nearest and all known families") {
  const auto result =
      synthesize(changed(small_config("llama"), {{"model_type", "quen3"}}));
  REQUIRE(result->diags.all().size() == 1);
  const Diagnostic& diagnostic = result->diags.all()[0];
  CHECK(diagnostic.labels[0].where.text() == "\"quen3\"");
  REQUIRE(diagnostic.help.size() == 3);
  CHECK(diagnostic.help[0] == "the nearest supported one is `qwen3`");
}

TEST_CASE("a config is not a map: one diagnostic") {
  const auto result = synthesize_text("[1, 2]");
  CHECK_FALSE(result->manifest);
  CHECK(result->diags.all().size() == 1);
  CHECK(result->problem().starts_with("SP002 "));
}

TEST_CASE("configs are recognised by their keys, not by their name") {
  struct Row {
    const char* head;
    bool config;
  };
  const Row rows[] = {
      {R"({"model_type": "llama"})", true},
      {"\n { \"architectures\" :\n [\"GptOssForCausalLM\"], ", true},
      {R"({"model_type": {"shape": [2], "dtype": "f32"}})", false},
      {R"({"weight_map": {"model_type.weight": "a"}})", false},
      {R"(model_type: llama)", false},
      {R"({"model_type")", false},
      {R"({"model_type":)", false},
      {"", false},
  };
  for (const Row& row : rows) {
    CAPTURE(row.head);
    CHECK(kHfConfig.recognize(row.head) == row.config);
  }
}

TEST_CASE("the format reads a file and titles the manifest with its path") {
  testing::MemoryHost host;
  Diagnostics diags;
  const ManifestSource source{
      "models/config.json",
      std::make_shared<const SourceFile>("models/config.json",
                                         sample_config("gpt2").dump())};
  const auto manifest = kHfConfig.read(source, host, diags);
  REQUIRE(manifest);
  CHECK(manifest->title == "models/config.json");
  CHECK(manifest->size() == 148);
  CHECK(manifest->buffers().size() == 12);
}

TEST_CASE("every family has a recording") {
  std::map<std::string, int> seen;
  for (const std::string& name : recordings("small-")) {
    const Json recording = testing::read_json(testing::data_path(name));
    ++seen[recording.at("config").at("model_type").get<std::string>()];
  }
  CHECK(seen.size() == 13);
}

TEST_CASE("a config with one value replaced gives a manifest or diagnostics") {
  const std::vector<std::string> names = recordings("small-");
  const Json values = {nullptr, -1, 0, 7, 1LL << 40, "x", true, 1.5, {}, {1}};
  CHECK(holds("one value replaced", [&] {
    const std::string& name = draw_of(names);
    Json config = testing::read_json(testing::data_path(name)).at("config");
    std::vector<std::string> keys;
    for (const auto& item : config.items()) keys.push_back(item.key());
    config[draw_of(keys)] = values[draw_in<size_t>(0, values.size())];
    const auto result = synthesize(config);
    ENSURE(result->manifest.has_value() != result->diags.cannot_run());
    if (result->manifest) ENSURE(!result->manifest->find_duplicate());
  }));
}

TEST_CASE("a buffer is recognised by its name and its shape together") {
  struct Row {
    const char* name;
    TensorType type;
    bool buffer;
  };
  const Row rows[] = {
      {"h.0.attn.bias", {DType::F32, {1, 1, 1024, 1024}}, true},
      {"transformer.h.3.attn.bias", {DType::U8, {1, 1, 16, 16}}, true},
      {"transformer.h.3.attn.attention.bias",
       {DType::Bool, {1, 1, 16, 16}},
       true},
      {"gpt_neox.layers.1.attention.bias", {DType::Bool, {1, 1, 8, 8}}, true},
      {"attn/bias", {DType::F32, {1, 1, 8, 8}}, true},
      {"h.0.attn.bias", {DType::F32, {2304}}, false},
      {"h.0.attn.bias", {DType::F32, {1, 1, 8, 16}}, false},
      {"h.0.attn.bias", {DType::F32, {2, 1, 8, 8}}, false},
      {"h.0.attn.c_attn.bias", {DType::F32, {1, 1, 8, 8}}, false},
      {"bias", {DType::F32, {1, 1, 8, 8}}, false},
      {"h.0.attn.masked_bias", {DType::F32, {}}, true},
      {"h.0.attn.masked_bias", {DType::F32, {1}}, true},
      {"h.0.attn.masked_bias", {DType::F32, {8}}, false},
      {"layers.0.self_attn.rotary_emb.inv_freq", {DType::F32, {64}}, true},
      {"layers.0.self_attn.rotary_emb.inv_freq", {DType::F32, {4, 4}}, false},
      {"layers.0.self_attn.rotary_emb.inv_freq", {DType::I64, {64}}, false},
      {"layers.3.mlp.gate.e_score_correction_bias", {DType::F32, {256}}, true},
      {"layers.3.mlp.gate.e_score_correction_bias",
       {DType::F32, {256, 2}},
       false},
      {"layers.3.mlp.gate.bias", {DType::F32, {256}}, false},
      {"layers.0.mlp.up_proj.weight_scale_inv", {DType::F32, {144, 56}}, true},
      {"layers.0.mlp.up_proj.weight_scale_inv", {DType::BF16, {1, 1}}, true},
      {"layers.0.mlp.up_proj.weight_scale_inv", {DType::F32, {}}, false},
      {"layers.0.mlp.up_proj.weight_scale", {DType::BF16, {64, 1}}, true},
      {"layers.0.mlp.up_proj.weight_scale", {DType::F32, {}}, true},
      {"layers.0.mlp.up_proj.weight_scale", {DType::U8, {64, 4}}, false},
      {"layers.0.mlp.up_proj.input_scale", {DType::F32, {}}, true},
      {"layers.0.mlp.up_proj.input_scale", {DType::F32, {2, 2, 2}}, false},
      {"layers.0.mlp.experts.gate_up_proj_scales",
       {DType::U8, {32, 5760, 90}},
       false},
      {"layers.0.norm.scale", {DType::F32, {64}}, false},
      {"layers.0.mlp.up_proj.weight", {DType::F32, {1, 1, 8, 8}}, false},
      {"rope_freqs.weight", {DType::F32, {64}}, true},
      {"rope_factors_long.weight", {DType::F32, {64}}, true},
      {"rope_freqs.bias", {DType::F32, {64}}, false},
      {"blk.3.exp_probs_b.bias", {DType::F32, {256}}, true},
      {"blk.3.exp_probs_b.weight", {DType::F32, {256}}, false},
      {"", {DType::F32, {}}, false},
  };
  for (const Row& row : rows) {
    CAPTURE(row.name);
    CAPTURE(shape_text(row.type.shape));
    CHECK(is_known_buffer(row.name, row.type) == row.buffer);
  }
}

}  // namespace

}  // namespace shardplan
