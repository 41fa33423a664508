// SPDX-License-Identifier: Apache-2.0
// Hugging Face config.json: the manifest of its checkpoint, without the
// checkpoint.
//
// One thing a config does not tell is taken from the model type: a tied head is
// left out, as the library that writes checkpoints does. A few checkpoints
// (Qwen3-0.6B and 1.7B) store it all the same.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "base/text.h"
#include "io/formats.h"
#include "io/hf_config/model_type.h"
#include "io/load.h"
#include "io/paths.h"

namespace shardplan {
namespace {

constexpr HeadDefault kGemmaKvHeads{4, kRefused};
constexpr HeadDefault kGemmaHeadDim{256, kRefused};

// Defaults are those of the model types' configuration classes.
constexpr HfModelType kModelTypes[] = {
    {"llama", "LlamaForCausalLM", write_llama, false, {}, {}, ""},
    {"mistral", "MistralForCausalLM", write_mistral, false, {8}, {}, ""},
    {"qwen2", "Qwen2ForCausalLM", write_qwen2, false, {32}, {}, ""},
    {"qwen3",
     "Qwen3ForCausalLM",
     write_qwen3,
     false,
     {32},
     {128, kRefused},
     ""},
    {"mixtral", "MixtralForCausalLM", write_mixtral, false, {8}, {}, ""},
    {"qwen3_moe",
     "Qwen3MoeForCausalLM",
     write_qwen3_moe,
     false,
     {4, kRefused},
     {},
     ""},
    {"gemma2", "Gemma2ForCausalLM", write_gemma2, true, kGemmaKvHeads,
     kGemmaHeadDim, ""},
    {"gemma3_text", "Gemma3ForCausalLM", write_gemma3_text, true, kGemmaKvHeads,
     kGemmaHeadDim, "", 8},
    {"gemma3", "Gemma3ForConditionalGeneration", write_gemma3, true,
     kGemmaKvHeads, kGemmaHeadDim, "", 8},
    {"gpt2", "GPT2LMHeadModel", write_gpt2, true, {}, {}, ""},
    {"bert", "BertModel", write_bert, true, {}, {}, ""},
    {"bert", "BertForMaskedLM", write_bert_masked_lm, true, {}, {}, ""},
    {"gpt_oss", "GptOssForCausalLM", write_gpt_oss, false, {8}, {64}, "mxfp4"},
    {"deepseek_v3",
     "DeepseekV3ForCausalLM",
     write_deepseek_v3,
     false,
     {},
     {},
     "fp8"},
};

constexpr std::string_view kUseTensors =
    "the model's safetensors files give its tensors without the config";

// Reports why a config is of no model type.
Diagnostics::Builder report_unknown(const Node& root, ConfigReader& config) {
  std::vector<std::string> known;
  for (const HfModelType& row : kModelTypes) {
    if (known.empty() || known.back() != row.model_type) {
      known.emplace_back(row.model_type);
    }
  }
  const auto model_type = root.find("model_type");
  auto report =
      model_type && model_type->is_string()
          ? config.refuse("model_type", "model type " +
                                            in_backticks(model_type->text()) +
                                            " is not known")
          : config.refuse("architectures",
                          "neither `model_type` nor `architectures` names a "
                          "known family");
  std::string list;
  for (const std::string& name : known) {
    list += (list.empty() ? "" : ", ") + name;
  }
  report.fact("known: " + list);
  if (model_type) {
    if (const auto near = nearest(model_type->text(), known)) {
      report.help("the nearest known one is `" + *near + "`");
    }
  }
  return report.help(std::string(kUseTensors));
}

bool names_architecture(const Node& config, std::string_view architecture) {
  const auto list = config.find("architectures");
  for (size_t i = 0; list && i < list->size(); ++i) {
    if (list->item(i).text() == architecture) return true;
  }
  return false;
}

// A model for another task has other tensors.
void check_architecture(const Node& root, const HfModelType& row,
                        ConfigReader& config) {
  const auto list = config.find("architectures");
  if (!list || list->size() == 0) return;
  if (names_architecture(root, row.architecture)) return;
  std::string known;
  for (const HfModelType& other : kModelTypes) {
    if (other.model_type != row.model_type) continue;
    known += (known.empty() ? "" : ", ") + std::string(other.architecture);
  }
  config
      .refuse("architectures", "architecture " +
                                   in_backticks(list->item(0).text()) +
                                   " is not known")
      .fact("known for `" + std::string(row.model_type) + "`: " + known)
      .help(std::string(kUseTensors));
}

constexpr std::string_view kPackedTensors =
    "its checkpoint holds packed tensors that the config does not describe";

// "`awq`", "4 bits in groups of 64" of MLX, which names no method; "" where
// nothing is said.
std::string method_text(const Node& quantization) {
  if (!quantization.is_map()) return "";
  const auto method = quantization.find("quant_method");
  if (method && !method->text().empty()) return in_backticks(method->text());
  const auto bits = quantization.find("bits");
  const auto group = quantization.find("group_size");
  if (!bits || !group || !bits->integer() || !group->integer()) return "";
  return plural(*bits->integer(), "bit") + " in groups of " +
         std::to_string(*group->integer());
}

// Whether the config is quantised, in the model type's own way; any other is
// SP009, however it is said: nothing of it is read as plain numbers.
bool check_quantization(const HfModelType& row, ConfigReader& config) {
  // MLX says `quantization`, and repeats it under the other name, which
  // names no method then.
  for (const char* key :
       {"quantization", "quantization_config", "compression_config",
        "quant_config", "quantize_config"}) {
    const auto value = config.find(key);
    if (!value) continue;
    const auto method =
        value->is_map() ? value->find("quant_method") : std::nullopt;
    // The one place where model types look for it.
    if (std::string_view(key) == "quantization_config" && method &&
        !row.quantization.empty() && method->text() == row.quantization) {
      return true;
    }
    const bool own_key = std::string_view(key) != "quantization";
    const std::string text = method_text(*value);
    const bool nameless = !method || method->text().empty();
    config
        .refuse(key,
                own_key && nameless
                    ? "`" + std::string(key) + "` names no `quant_method`"
                    : "the config is quantised with " +
                          (text.empty() ? "`" + std::string(key) + "`" : text))
        .fact(std::string(kPackedTensors))
        .help(std::string(kUseTensors));
    break;
  }
  return false;
}

// A quantisation that a part of the config says of itself is none of the
// model type's.
void check_parts(const Node& root, Diagnostics& diags) {
  const auto text = root.find("text_config");
  if (!text || !text->is_map()) return;
  ConfigReader inner(*text, "text_config.", diags);
  check_quantization(HfModelType(), inner);
}

// The dtype that `key` names; reports one that weights cannot have.
std::optional<DType> read_dtype(const ConfigReader& config, const char* key,
                                Diagnostics& diags) {
  const auto value = config.find(key);
  if (!value) return std::nullopt;
  std::string_view text = value->text();
  if (text.starts_with("torch.")) text.remove_prefix(6);
  const std::optional<DType> dtype = find_dtype(text);
  if (!dtype) {
    auto report = diags.error(Code::UnknownDtype, value->span(),
                              "dtype " + in_backticks(text) + " is not known");
    const std::string near = nearest_dtype(text);
    if (!near.empty()) report.help("the nearest known one is `" + near + "`");
    return report;
  }
  switch (*dtype) {
    case DType::F64:
    case DType::F32:
    case DType::F16:
    case DType::BF16:
      return dtype;
    default:
      return diags.error(Code::UnsupportedConfig, value->span(),
                         "weights of dtype " + in_backticks(text) +
                             " do not follow from a config");
  }
}

// What weights have: `dtype`, older `torch_dtype`, or what neither means.
DType weights_dtype(const Node& root, const ConfigReader& config,
                    bool quantized, Manifest& manifest, Diagnostics& diags) {
  const auto named = [&](const ConfigReader& map) -> std::optional<DType> {
    const auto dtype = read_dtype(map, "dtype", diags);
    return dtype ? dtype : read_dtype(map, "torch_dtype", diags);
  };
  if (const auto dtype = named(config)) return *dtype;
  const auto text = root.find("text_config");
  if (text && text->is_map()) {
    const ConfigReader inner(*text, "text_config.", diags);
    if (const auto dtype = named(inner)) return *dtype;
  }
  const DType assumed = quantized ? DType::BF16 : DType::F32;
  manifest.remarks.push_back("the config names no dtype: " +
                             std::string(dtype_name(assumed)) + " is assumed");
  return assumed;
}

bool recognize(std::string_view head) {
  const size_t begin = head.find_first_not_of(" \t\r\n");
  if (begin == head.npos || head[begin] != '{') return false;
  // A key with a value of its type: a tensor may be called `model_type`.
  const auto has = [&](std::string_view key, char value) {
    size_t at = head.find(key);
    if (at == head.npos) return false;
    at = head.find_first_not_of(" \t\r\n", at + key.size());
    if (at == head.npos || head[at] != ':') return false;
    at = head.find_first_not_of(" \t\r\n", at + 1);
    return at != head.npos && head[at] == value;
  };
  return has("\"model_type\"", '"') || has("\"architectures\"", '[');
}

std::optional<Manifest> read(const ModelSource& source, Host& host,
                             Diagnostics& diags) {
  diags.keep(source.file);
  const auto document = parse_document(source.file, diags);
  if (!document) return std::nullopt;
  if (source.path != "-" &&
      is_quantised_beside(source.directory, host, diags)) {
    return std::nullopt;
  }
  auto manifest = synthesize_manifest(*document, diags);
  if (manifest) manifest->title = source.path;
  return manifest;
}

}  // namespace

const ManifestFormat kHfConfig = {
    "hf-config", "a Hugging Face config.json of a known family", recognize,
    read};

std::span<const HfModelType> hf_model_types() { return kModelTypes; }

const HfModelType* find_model_type(const Node& config) {
  if (!config.is_map()) return nullptr;
  const auto model_type = config.find("model_type");
  const bool typed = model_type && !model_type->is_null();
  const HfModelType* first = nullptr;  // of that type
  for (const HfModelType& row : kModelTypes) {
    if (typed && model_type->text() != row.model_type) continue;
    if (names_architecture(config, row.architecture)) return &row;
    if (typed && first == nullptr) first = &row;
  }
  return first;
}

bool is_quantised_beside(const std::string& directory, Host& host,
                         Diagnostics& diags) {
  // ModelOpt's; AutoGPTQ's, and AutoAWQ's and HQQ's before transformers read
  // them from the config.
  for (const char* name :
       {"hf_quant_config.json", "quantize_config.json", "quant_config.json"}) {
    const std::string path = join_path(directory, name);
    if (!host.file_info(path)) continue;
    const SourcePtr file = read_source(path, kWholeFile, host, diags);
    const auto document =
        file != nullptr ? parse_document(file, diags) : std::nullopt;
    if (!document) return true;
    const Node root = document->root();
    const auto part = root.is_map() ? root.find("quantization") : std::nullopt;
    const auto said = [&](const char* key) {
      const auto value =
          part && part->is_map() ? part->find(key) : std::nullopt;
      return value && !value->is_null() ? value : std::nullopt;
    };
    const auto algorithm = said("quant_algo");
    // Only the cache is quantised.
    if (part && part->is_map() && !algorithm && !said("quantized_layers")) {
      continue;
    }
    diags
        .error(Code::UnsupportedConfig,
               algorithm ? algorithm->span() : root.span(),
               "the model is quantised" +
                   (algorithm ? " with " + in_backticks(algorithm->text())
                              : std::string()) +
                   ", as `" + std::string(name) + "` beside its config says")
        .fact(std::string(kPackedTensors))
        .help(std::string(kUseTensors));
    return true;
  }
  return false;
}

std::optional<Manifest> synthesize_manifest(const Document& config,
                                            Diagnostics& diags) {
  const auto root = require(config.root(), NodeKind::Map, "a config", diags);
  if (!root) return std::nullopt;
  ConfigReader reader(*root, "", diags);
  const HfModelType* row = find_model_type(*root);
  if (row == nullptr) return report_unknown(*root, reader);
  check_architecture(*root, *row, reader);
  const bool quantized = check_quantization(*row, reader);
  check_parts(*root, diags);
  Manifest manifest;
  manifest.format = std::string(kHfConfig.name);
  manifest.facts = config_facts(*root);
  manifest.model_type = config_model_type(*root);
  const DType dtype = weights_dtype(*root, reader, quantized, manifest, diags);
  TensorWriter writer(manifest, dtype, reader);
  if (reader.ok()) row->write(*row, reader, writer);
  if (!reader.ok()) return std::nullopt;
  return manifest;
}

namespace {

bool is_float(DType dtype) {
  return dtype == DType::F32 || dtype == DType::BF16 || dtype == DType::F16;
}

// [1, 1, n, n], as GPT-2 and its kin keep it; never a projection's bias.
bool is_causal_mask(const Shape& shape) {
  return shape.size() == 4 && shape[0] == 1 && shape[1] == 1 &&
         shape[2] == shape[3];
}

bool is_single(const Shape& shape) {
  return shape.empty() || shape == Shape{1};
}

// Takes the last component off `name` and gives it.
std::string_view cut_last(std::string_view& name) {
  const size_t split = name.find_last_of("./");
  const std::string_view last =
      split == name.npos ? name : name.substr(split + 1);
  name = name.substr(0, split == name.npos ? 0 : split);
  return last;
}

// Named as a projection's weight or bias would be: masks, and in GGUF the
// factors of rotation and the biases that correct a router.
bool is_module_buffer(std::string_view module, bool bias,
                      const TensorType& type) {
  if (bias && (module == "attn" || module == "attention")) {
    return is_causal_mask(type.shape);
  }
  if (type.shape.size() != 1 || !is_float(type.dtype)) return false;
  if (bias) return module == "exp_probs_b";
  return module == "rope_freqs" || module == "rope_factors_long" ||
         module == "rope_factors_short";
}

}  // namespace

bool is_known_buffer(std::string_view name, const TensorType& type) {
  const Shape& shape = type.shape;
  const std::string_view leaf = cut_last(name);
  if (leaf == "bias" || leaf == "weight") {
    return is_module_buffer(cut_last(name), leaf == "bias", type);
  }
  if (leaf == "masked_bias") return is_single(shape);
  if (leaf == "inv_freq") return shape.size() == 1 && is_float(type.dtype);
  if (leaf == "e_score_correction_bias") {
    return shape.size() == 1 && is_float(type.dtype);
  }
  // DeepSeek's FP8: one scale per block of a matrix. MXFP4's scales (u8) are
  // half of a weight's encoding and are placed with it.
  if (leaf == "weight_scale_inv") {
    return shape.size() == 2 && is_float(type.dtype);
  }
  if (leaf == "weight_scale" || leaf == "input_scale") {
    return shape.size() <= 2 && is_float(type.dtype);
  }
  return false;
}

}  // namespace shardplan
