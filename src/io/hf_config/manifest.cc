// SPDX-License-Identifier: Apache-2.0
// Hugging Face config.json: the manifest of its checkpoint, without the
// checkpoint.
//
// One thing a config does not tell is taken from the model type: a tied head is
// left out, as the library that writes checkpoints does. A few checkpoints
// (Qwen3-0.6B and 1.7B) store it all the same.
#include <algorithm>
#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/text.h"
#include "core/fold.h"
#include "io/fence.h"
#include "io/formats.h"
#include "io/load.h"
#include "io/paths.h"
#include "io/shards.h"
#include "model/architecture/walk.h"
#include "model/architectures.h"
#include "model/naming/rename.h"

namespace shardplan {
namespace {

// What configs in public repositories name, and nobody has described: why the
// tensors do not follow from such a config.
struct Undescribed {
  std::string_view name;  // of a model type, or of a class
  std::string_view why;
};
constexpr Undescribed kUndescribed[] = {
    {"deepseek_ref",
     "it is DeepSeek V4 with experts of FP8, as SGLang repackages it: `wo_a` "
     "of "
     "its layers is BF16 there, and no public code was found that says what "
     "that of the layer that predicts further tokens is"},
    {"Step3p7FlashForCausalLM",
     "no public code of a model with this class was found"},
};

std::string_view why_undescribed(std::string_view name) {
  for (const Undescribed& each : kUndescribed) {
    if (each.name == name) return each.why;
  }
  return "";
}

// Reports why a config is of no model type.
Diagnostics::Builder report_unknown(const Node& root, ConfigReader& config) {
  const std::vector<std::string> known = known_model_types();
  const auto model_type = root.find("model_type");
  auto report =
      model_type && model_type->is_string()
          ? config.refuse("model_type", "model type " +
                                            in_backticks(model_type->text()) +
                                            " is not known")
          : config.refuse("architectures",
                          "neither `model_type` nor `architectures` names a "
                          "known family");
  const std::string_view why =
      model_type ? why_undescribed(model_type->text()) : "";
  if (!why.empty()) report.fact(std::string(why));
  if (model_type && why.empty()) {
    // Most unknown types are no typing errors: `molmo` is not `olmo`.
    const auto near = nearest(model_type->text(), known);
    if (near && near->substr(0, 1) == model_type->text().substr(0, 1)) {
      report.help("the nearest known one is `" + *near + "`");
    }
  }
  return report
      .help(plural(static_cast<int64_t>(known.size()), "model type") +
            " are known: `shardplan list architectures`; `--architecture FILE` "
            "describes another")
      .help(std::string(kUseTensors));
}

// A model for another model_class has other tensors.
Diagnostics::Builder report_class(const Node& root, const Architecture& all,
                                  ConfigReader& config) {
  const auto list = root.find("architectures");
  std::vector<std::string> known;
  for (const ArchitectureClass& model_class : all.classes)
    known.push_back(model_class.class_name);
  const std::string named =
      list->is_list() ? std::string(list->item(0).text()) : "";
  auto report = config.refuse(
      "architectures", "architecture " + in_backticks(named) + " is not known");
  report.fact("known for `" + all.name + "`: " + joined(known, ", "));
  const std::string_view why = why_undescribed(named);
  if (!why.empty()) report.fact(std::string(why));
  const std::vector<std::string> others = architectures_with_class(named);
  if (!others.empty()) {
    report
        .fact("it is a class of `" + joined(others, "`, `") +
              "`, whose tensors have other names")
        .help("where the tensors are named as a class of `" + all.name +
              "` names them, name that class in `architectures`");
  }
  return report.help(std::string(kUseTensors));
}

// The quantisation, which a part of the config may say of itself; beside one of
// the whole that is refused.
std::optional<Quantisation> with_part(const Architecture& architecture,
                                      const Node& root, Quantisation whole,
                                      Diagnostics& diags) {
  constexpr const char* kPart = "text_config";
  const auto text = root.find(kPart);
  if (!text || !text->is_map()) return whole;
  ConfigReader inner(*text, std::string(kPart) + ".", diags);
  const auto own = inner.find("quantization_config");
  if (whole.method != QuantMethod::None || !own) {
    refuse_quantisation(inner);
    return whole;
  }
  auto part =
      read_part_quantisation(architecture, inner, kPart, whole.saved_by);
  if (!inner.ok()) return std::nullopt;
  return part;
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

std::optional<Manifest> read(const ManifestSource& source, Host& host,
                             Diagnostics& diags) {
  diags.keep(source.file);
  auto document = parse_document(source.file, diags);
  if (!document) return std::nullopt;
  const auto config = std::make_shared<const Document>(*std::move(document));
  std::optional<QuantisationFile> beside = QuantisationFile();
  if (source.path != "-") {
    beside = quantisation_beside(source.path, *config, host, diags);
  }
  if (!beside) return std::nullopt;
  auto manifest = synthesize_manifest(*config, diags, source.reading, &*beside);
  if (!manifest) return std::nullopt;
  manifest->title = source.path;
  manifest->config = config;
  return manifest;
}

}  // namespace

const ManifestFormat kHfConfig = {
    "hf-config", "a Hugging Face config.json of a known family", recognize,
    read};

std::optional<QuantisationFile> quantisation_beside(const std::string& path,
                                                    const Document& config,
                                                    Host& host,
                                                    Diagnostics& diags) {
  QuantisationFile result;
  // Newer programs write the same into the config.
  const Node own = config.root();
  const auto said_there =
      own.is_map() ? own.find("quantization_config") : std::nullopt;
  if (said_there && !said_there->is_null()) return result;
  // ModelOpt's; AutoGPTQ's, and AutoAWQ's and HQQ's before transformers read
  // them from the config.
  for (const char* name :
       {"hf_quant_config.json", "quantize_config.json", "quant_config.json"}) {
    const std::string beside = path_beside(path, name, host);
    if (!host.file_info(beside)) continue;
    const SourcePtr file = read_source(beside, kWholeFile, host, diags);
    auto document =
        file != nullptr ? parse_document(file, diags) : std::nullopt;
    if (!document) return std::nullopt;
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
    if (algorithm && std::string_view(name) == "hf_quant_config.json") {
      result.file = file;
      result.document = std::make_shared<const Document>(*std::move(document));
      return result;
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
    return std::nullopt;
  }
  return result;
}

namespace {

using NamedShapes = std::set<std::pair<std::string, Shape>>;

// Makes buffers of the parameters with these folded names and shapes; what is
// said of the whole stays.
void set_apart(Manifest& manifest, const NamedShapes& buffers) {
  std::vector<Manifest::Kept> kept;
  bool any = false;
  for (size_t i = 0; i < manifest.any_size(); ++i) {
    const bool was = i >= manifest.size();
    const bool is = was || buffers.contains({folded_name(manifest.name(i)),
                                             manifest.type(i).shape});
    any = any || is != was;
    kept.push_back({i, is});
  }
  // Beyond 63 bits, as no checkpoint is, they stay parameters.
  if (any) manifest.keep(kept);
}

// A weight without the scales that its method has is stored by another one,
// such as one scale for all of it, and may be cut anywhere.
void drop_absent_blocks(const Manifest& own, Manifest& manifest) {
  const std::string kScales = "_scale_inv";
  const auto is_cut = [](const DimKind& dim) { return dim.block > 1; };
  const auto folded = [](const Manifest& all) {
    std::set<std::string> names;
    for (size_t i = 0; i < all.any_size(); ++i) {
      if (all.any_name(i).ends_with("_scale_inv")) {
        names.insert(folded_name(all.any_name(i)));
      }
    }
    return names;
  };
  const std::set<std::string> wanted = folded(own);
  if (wanted.empty() || manifest.kinds == nullptr) return;
  const std::set<std::string> there = folded(manifest);
  ParameterKinds kinds = *manifest.kinds;
  for (auto& [key, kind] : kinds) {
    const std::string scales = key.first + kScales;
    if (!std::any_of(kind.begin(), kind.end(), is_cut) ||
        !wanted.contains(scales) || there.contains(scales)) {
      continue;
    }
    for (DimKind& dim : kind) dim.block = 0;
  }
  manifest.kinds = std::make_shared<const ParameterKinds>(std::move(kinds));
}

}  // namespace

void explain_tensors(const Document& config, const std::string& path,
                     const ConfigReading& reading, Host& host,
                     Manifest& manifest) {
  Diagnostics problems;
  const auto beside = quantisation_beside(path, config, host, problems);
  if (!beside) return;
  const auto own = synthesize_manifest(config, problems, reading, &*beside);
  const bool names_model =
      config.root().find("model_type") || config.root().find("architectures");
  if (!own && names_model && problems.has_errors()) {
    const auto& all = problems.all();
    const auto first =
        std::find_if(all.begin(), all.end(), [](const Diagnostic& each) {
          return each.severity == Severity::Error;
        });
    manifest.remarks.push_back(
        "the config beside the weights is refused (" + first->message +
        "): what its tensors are is inferred from their names and shapes");
  }
  if (!own) return;
  manifest.kinds = own->kinds;
  drop_absent_blocks(*own, manifest);
  NamedShapes buffers;
  for (const Manifest::Buffer& each : own->buffers()) {
    buffers.emplace(folded_name(each.name), each.type.shape);
  }
  if (!buffers.empty()) set_apart(manifest, buffers);
}

namespace {

enum class Weights : uint8_t { Stored, Plain };

// A class that stands for one that no architecture knows.
void remark_class(const Node& root, const ArchitectureClass& model_class,
                  Manifest& manifest) {
  const auto names = root.find("architectures");
  if (!names || !names->is_list() || names->size() == 0) return;
  for (size_t i = 0; i < names->size(); ++i) {
    if (names->item(i).text() == model_class.class_name) return;
  }
  manifest.remarks.push_back(in_backticks(std::string(names->item(0).text())) +
                             " is read as a " +
                             in_backticks(model_class.class_name));
}

std::optional<Manifest> synthesize(const Document& config,
                                   const ConfigReading& reading,
                                   const QuantisationFile* beside,
                                   Weights weights, Diagnostics& diags) {
  const auto root = require(config.root(), NodeKind::Map, "a config", diags);
  if (!root) return std::nullopt;
  ConfigReader reader(*root, "", diags);
  ArchitectureChoice kind = reading.architecture == nullptr
                                ? choose_architecture(*root)
                                : choose_class(reading.architecture, *root);
  if (!kind) return report_unknown(*root, reader);
  if (kind.model_class == nullptr)
    report_class(*root, *kind.architecture, reader);
  if (reading.scheme != nullptr) {
    const auto all = with_values_of(*reading.scheme, kind.architecture, reader);
    if (all == nullptr) return std::nullopt;
    kind = choose_class(all, *root);
  }
  ConfigValues values(*kind.architecture, reader);
  std::optional<QuantisationBeside> file;
  if (beside != nullptr && beside->document != nullptr) {
    file = QuantisationBeside{beside->document->root()};
    diags.keep(beside->file);
  }
  std::optional<Quantisation> quantisation = Quantisation{};
  const bool plain = weights == Weights::Plain;
  if (!plain) {
    quantisation = read_quantisation(*kind.architecture, reader,
                                     values.find(kSavedBy)->integer,
                                     file ? &*file : nullptr, diags);
  }
  if (quantisation && !plain) {
    quantisation =
        with_part(*kind.architecture, *root, *std::move(quantisation), diags);
  }
  Manifest manifest;
  if (file) manifest.sources.push_back(beside->file);
  manifest.format = std::string(kHfConfig.name);
  manifest.facts = config_facts(*root, reading.architecture);
  manifest.model_type = config_model_type(*root);
  const bool quantised =
      quantisation && quantisation->method != QuantMethod::None;
  const DType dtype =
      weights_dtype(*root, reader, quantised || plain, manifest, diags);
  if (!reader.ok() || !values.read_all()) return std::nullopt;
  remark_class(*root, *kind.model_class, manifest);
  for (std::string& remark : values.remarks()) {
    manifest.remarks.push_back(std::move(remark));
  }
  if (reading.scheme == nullptr) {
    const bool written = write_tensors(values, *kind.model_class, dtype,
                                       *quantisation, manifest);
    return written ? std::optional(std::move(manifest)) : std::nullopt;
  }
  if (quantised) {
    return reader
        .refuse("quantization_config",
                "names of " + in_backticks(reading.scheme->name) +
                    " are not known for quantised models")
        .help(std::string(kUseTensors));
  }
  Manifest unnamed;
  TensorSteps steps;
  const bool written =
      write_tensors(values, *kind.model_class, dtype, *quantisation, unnamed,
                    &steps) &&
      rename_tensors(*reading.scheme, values, *kind.model_class, unnamed, steps,
                     manifest);
  return written ? std::optional(std::move(manifest)) : std::nullopt;
}

}  // namespace

std::optional<Manifest> synthesize_manifest(const Document& config,
                                            Diagnostics& diags,
                                            const ConfigReading& reading,
                                            const QuantisationFile* beside) {
  return synthesize(config, reading, beside, Weights::Stored, diags);
}

std::optional<Manifest> plain_manifest(
    const Document& config,
    const std::shared_ptr<const Architecture>& architecture,
    Diagnostics& diags) {
  ConfigReading reading;
  reading.architecture = architecture;
  return synthesize(config, reading, nullptr, Weights::Plain, diags);
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
  size_t begin = name.size();
  while (begin > 0 && name[begin - 1] != '.' && name[begin - 1] != '/') --begin;
  const std::string_view last = name.substr(begin);
  name.remove_suffix(name.size() - (begin == 0 ? 0 : begin - 1));
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
  // This quick test is enough for most weights.
  if (shape.size() != 1 && name.ends_with("weight")) return false;
  const std::string_view leaf = cut_last(name);
  if (leaf == "bias" || leaf == "weight") {
    return is_module_buffer(cut_last(name), leaf == "bias", type);
  }
  if (leaf == "masked_bias" || leaf == "scale_attn") return is_single(shape);
  if (leaf == "causal_mask") return is_causal_mask(shape);
  if (leaf == "position_ids") {
    return shape.size() <= 2 &&
           (type.dtype == DType::I64 || type.dtype == DType::I32);
  }
  if (leaf == "inv_freq") return shape.size() == 1 && is_float(type.dtype);
  if (leaf == "e_score_correction_bias") {
    return shape.size() == 1 && is_float(type.dtype);
  }
  // DeepSeek's FP8: one scale per block of a matrix. MXFP4's scales (u8) are
  // half of a weight's encoding and are placed with it.
  if (leaf == "weight_scale_inv") {
    return shape.size() == 2 &&
           (is_float(type.dtype) || type.dtype == DType::F8E8M0);
  }
  // DeepSeek V4's, which are the same of experts of 4 bits, but for those as
  // MXFP4's.
  if (leaf == "scale" && type.dtype == DType::F8E8M0 && shape.size() == 2) {
    cut_last(name);
    cut_last(name);
    return cut_last(name) != "experts";
  }
  if (leaf == "weight_scale" || leaf == "input_scale") {
    return shape.size() <= 2 && is_float(type.dtype);
  }
  // Of one number: of a whole tensor, of activations, or how bytes are packed.
  if (leaf == "weight_scale_2" || leaf == "weight_global_scale" ||
      leaf == "input_global_scale" || leaf == "activation_scale" ||
      leaf == "k_scale" || leaf == "v_scale") {
    return is_single(shape) && is_float(type.dtype);
  }
  if (leaf == "weight_format") return shape.empty() && type.dtype == DType::U8;
  if (leaf == "weight_shape") {
    return shape == Shape{2} && type.dtype == DType::I64;
  }
  // bitsandbytes: the values of 4 bits, and a text.
  if (leaf == "quant_map") return shape == Shape{16} && is_float(type.dtype);
  if (leaf == "nested_quant_map") {
    return shape == Shape{256} && is_float(type.dtype);
  }
  if (leaf.starts_with("bitsandbytes__")) {
    return shape.size() == 1 && type.dtype == DType::U8;
  }
  return false;
}

}  // namespace shardplan
