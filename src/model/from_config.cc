// SPDX-License-Identifier: Apache-2.0
#include "model/from_config.h"

#include <string_view>
#include <utility>
#include <vector>

#include "base/text.h"
#include "base/words.h"
#include "model/architecture/quantisation.h"
#include "model/architecture/values.h"
#include "model/architecture/walk.h"
#include "model/architectures.h"
#include "model/config_reader.h"
#include "model/naming/rename.h"

namespace shardplan {
namespace {

// Model types and classes in public configs that no public code describes, and
// why their tensors cannot be derived.
struct Undescribed {
  std::string_view name;  // a model type or a class
  std::string_view why;
};
constexpr Undescribed kUndescribed[] = {
    {"deepseek_ref",
     "it is DeepSeek V4 with FP8 experts, as SGLang repackages it: `wo_a` of "
     "its layers is BF16 there, and no public code was found that defines "
     "`wo_a` of the multi-token prediction layer"},
    {"Step3p7FlashForCausalLM", "no public code for this class was found"},
};

std::string_view why_undescribed(std::string_view name) {
  const Undescribed* const found = find_named(kUndescribed, name);
  return found == nullptr ? "" : found->why;
}

// Reports why a config has no known model type.
void report_unknown(ConfigReader& config) {
  const std::vector<std::string> known = known_model_types();
  const auto model_type = config.map().find("model_type");
  auto report =
      model_type && model_type->is_string()
          ? config.refuse("model_type", "model type " +
                                            in_backticks(model_type->text()) +
                                            " is not supported")
          : config.refuse("architectures",
                          "neither `model_type` nor `architectures` names a "
                          "supported family");
  const std::string_view why =
      model_type ? why_undescribed(model_type->text()) : "";
  if (!why.empty()) report.fact(std::string(why));
  if (model_type && why.empty()) {
    // Most unknown types are not misspelt: `molmo` is not `olmo`.
    const auto near = nearest(model_type->text(), known);
    if (near && near->substr(0, 1) == model_type->text().substr(0, 1)) {
      report.help("the nearest supported one is `" + *near + "`");
    }
  }
  report
      .help(plural(std::ssize(known), "model type") +
            " are supported: `shardplan list architectures`; describe another "
            "with `--architecture FILE`")
      .help(std::string(kUseTensors));
}

// Reports an unknown class: a model with another class has other tensors.
void report_class(const Architecture& all, ConfigReader& config) {
  std::vector<std::string> known;
  for (const ArchitectureClass& model_class : all.classes)
    known.push_back(model_class.class_name);
  const std::string named(named_classes(config.map()).front());
  auto report =
      config.refuse("architectures", "architecture " + in_backticks(named) +
                                         " is not supported");
  report.fact("supported for `" + all.name + "`: " + joined(known, ", "));
  const std::string_view why = why_undescribed(named);
  if (!why.empty()) report.fact(std::string(why));
  const std::vector<std::string> others = architectures_with_class(named);
  if (!others.empty()) {
    report
        .fact("it is a class of `" + joined(others, "`, `") +
              "`, whose tensors have different names")
        .help("if the tensors have the names of a class of `" + all.name +
              "`, name that class in `architectures`");
  }
  report.help(std::string(kUseTensors));
}

// Returns the quantisation, which a part of the config may define instead of
// the whole. Reports a config in which both do.
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

// Returns the dtype that `key` names; reports one that weights cannot have.
std::optional<DType> read_dtype(const Node& config, const char* key,
                                Diagnostics& diags) {
  const auto value = value_at(config, key);
  if (!value || value->is_null()) return std::nullopt;
  std::string_view text = value->text();
  if (text.starts_with("torch.")) text.remove_prefix(6);
  const std::optional<DType> dtype = find_dtype(text);
  if (!dtype) {
    auto report =
        diags.error(Code::UnknownDtype, value->span(),
                    "dtype " + in_backticks(text) + " is not supported");
    const std::string near = nearest_dtype(text);
    if (!near.empty())
      report.help("the nearest supported one is `" + near + "`");
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
                             " cannot be derived from a config");
  }
}

// Returns the dtype of weights: `dtype`, the older `torch_dtype`, or the
// default if neither is set.
DType weights_dtype(const Node& root, bool quantised,
                    std::vector<std::string>& remarks, Diagnostics& diags) {
  for (const auto& map : {std::optional(root), root.find("text_config")}) {
    if (!map || !map->is_map()) continue;
    for (const char* key : {"dtype", "torch_dtype"}) {
      if (const auto dtype = read_dtype(*map, key, diags)) return *dtype;
    }
  }
  const DType assumed = quantised ? DType::BF16 : DType::F32;
  remarks.push_back("the config names no dtype: " +
                    std::string(dtype_name(assumed)) + " is assumed");
  return assumed;
}

enum class Weights : uint8_t { Stored, Plain };

// Adds a remark if a class is used in place of an unknown one.
void remark_class(const Node& root, const ArchitectureClass& model_class,
                  std::vector<std::string>& remarks) {
  const auto names = named_classes(root);
  if (names.empty() || contains(names, model_class.class_name)) return;
  remarks.push_back(in_backticks(names.front()) + " is read as a " +
                    in_backticks(model_class.class_name));
}

// Everything that determines the tensors of a config, while they are written.
struct ConfigTensors {
  ConfigReader& reader;
  ConfigValues& values;
  const ArchitectureClass& model_class;
  DType dtype = DType::F32;
  Quantisation quantisation;
  bool is_quantised() const { return quantisation.method != QuantMethod::None; }
};

// Calls write(ConfigTensors) and returns its result; false, with the reason
// reported, if the config does not determine its tensors.
template <typename Write>
bool with_tensors(const Document& config, const ConfigReading& reading,
                  const QuantisationFile& quantisation_file, Weights weights,
                  std::vector<std::string>& remarks, Diagnostics& diags,
                  const Write& write) {
  const auto root = require(config.root(), NodeKind::Map, "a config", diags);
  if (!root) return false;
  ConfigReader reader(*root, "", diags);
  ArchitectureChoice choice = reading.architecture == nullptr
                                  ? choose_architecture(*root)
                                  : choose_class(reading.architecture, *root);
  if (!choice) {
    report_unknown(reader);
    return false;
  }
  if (choice.model_class == nullptr) report_class(*choice.architecture, reader);
  if (reading.scheme != nullptr) {
    const auto all =
        with_values_of(*reading.scheme, choice.architecture, reader);
    if (all == nullptr) return false;
    choice = choose_class(all, *root);
  }
  ConfigValues values(*choice.architecture, reader);
  const Document* const file = quantisation_file.document.get();
  if (file != nullptr) diags.add_source(quantisation_file.file);
  const bool plain = weights == Weights::Plain;
  std::optional<Quantisation> quantisation = Quantisation();
  if (!plain) {
    quantisation =
        read_quantisation(*choice.architecture, reader,
                          values.find(kSavedBy)->integer, file, diags);
    if (quantisation) {
      quantisation = with_part(*choice.architecture, *root,
                               *std::move(quantisation), diags);
    }
  }
  const bool quantised =
      quantisation && quantisation->method != QuantMethod::None;
  const DType dtype = weights_dtype(*root, quantised || plain, remarks, diags);
  if (!reader.ok() || !values.read_all()) return false;
  remark_class(*root, *choice.model_class, remarks);
  for (std::string& remark : values.remarks()) {
    remarks.push_back(std::move(remark));
  }
  return write(ConfigTensors{reader, values, *choice.model_class, dtype,
                             *std::move(quantisation)});
}

bool write_renamed(const NameScheme& scheme, const ConfigTensors& of,
                   Manifest& manifest) {
  if (of.is_quantised()) {
    of.reader
        .refuse("quantization_config",
                "names of " + in_backticks(scheme.name) +
                    " are not supported for quantised models")
        .help(std::string(kUseTensors));
    return false;
  }
  Manifest unnamed;
  TensorSteps steps;
  return write_tensors(of.values, of.model_class, of.dtype, of.quantisation,
                       nullptr, unnamed, &steps) &&
         rename_tensors(scheme, of.values, of.model_class, unnamed, steps,
                        manifest);
}

std::optional<Manifest> synthesize(const Document& config,
                                   const ConfigReading& reading,
                                   const QuantisationFile& quantisation_file,
                                   Weights weights, Diagnostics& diags) {
  Manifest manifest;
  const bool written = with_tensors(
      config, reading, quantisation_file, weights, manifest.remarks, diags,
      [&](const ConfigTensors& of) {
        if (quantisation_file.document != nullptr) {
          manifest.sources.push_back(quantisation_file.file);
        }
        manifest.format = kConfigFormat;
        manifest.facts = config_facts(config.root(), reading.architecture);
        manifest.model_type = config_model_type(config.root());
        if (reading.scheme != nullptr && reading.lora) {
          of.reader
              .refuse("",
                      "adapters are supported only under the names that "
                      "save_pretrained writes, not under those of " +
                          in_backticks(reading.scheme->name))
              .help(
                  "leave out `--lora`, or pass the model's config.json without "
                  "`--scheme`");
          return false;
        }
        return reading.scheme == nullptr
                   ? write_tensors(
                         of.values, of.model_class, of.dtype, of.quantisation,
                         reading.lora ? &*reading.lora : nullptr, manifest)
                   : write_renamed(*reading.scheme, of, manifest);
      });
  return written ? std::optional(std::move(manifest)) : std::nullopt;
}

}  // namespace

std::optional<Manifest> synthesize_manifest(
    const Document& config, Diagnostics& diags, const ConfigReading& reading,
    const QuantisationFile& quantisation_file) {
  return synthesize(config, reading, quantisation_file, Weights::Stored, diags);
}

std::optional<Manifest> plain_manifest(
    const Document& config,
    const std::shared_ptr<const Architecture>& architecture,
    Diagnostics& diags) {
  return synthesize(config, {architecture}, {}, Weights::Plain, diags);
}

std::optional<ExplainedTensors> explained_tensors(
    const Document& config,
    const std::shared_ptr<const Architecture>& architecture,
    const QuantisationFile& quantisation_file, Diagnostics& diags) {
  ExplainedTensors explained;
  std::vector<std::string> remarks;
  const bool known =
      with_tensors(config, {architecture}, quantisation_file, Weights::Stored,
                   remarks, diags, [&](const ConfigTensors& of) {
                     return explain_tensors(of.values, of.model_class, of.dtype,
                                            of.quantisation, explained);
                   });
  return known ? std::optional(std::move(explained)) : std::nullopt;
}

}  // namespace shardplan
