// SPDX-License-Identifier: Apache-2.0
// Quantisation: which layers of a model a checkpoint stores quantised, and
// which tensors replace their weights.
//
// A method is a table over linear layers and is independent of architectures:
// it reads its section of the config (quantisation.cc, scheme_groups.cc),
// decides whether a layer is converted (quantised_modules.cc), and lists the
// tensors of a converted layer (quantised_tensors.cc).
// docs/formats/architecture.md lists the methods. Configs that go beyond them
// are refused, since tensors of an unknown form must not be read as plain ones.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/manifest.h"
#include "core/types.h"
#include "model/architecture/module_patterns.h"
#include "model/architecture/values.h"

namespace shardplan {

// Texts of diagnostics about an unsupported quantisation.
inline constexpr std::string_view kPackedTensors =
    "its checkpoint holds packed tensors that the config does not describe";
inline constexpr std::string_view kUseTensors =
    "pass the model's safetensors files instead of its config";

// Refuses something in a config, with the advice to pass the tensors instead.
inline Diagnostics::Builder unsupported(ConfigReader& config,
                                        std::string_view key,
                                        std::string message) {
  return config.refuse(key, std::move(message)).help(std::string(kUseTensors));
}

enum class WeightFormat : uint8_t {
  Fp8,           // `weight`, `weight_scale_inv` (DeepSeek, transformers)
  Scaled,        // one-byte `weight`, `weight_scale`; also torchao's
  PackedInts,    // i32 `weight_packed` (compressed-tensors)
  PackedFloats,  // two values of 4 bits in a byte: NVFP4, MXFP4
  Awq,
  Gptq,
  Bits8,   // bitsandbytes
  Bits4,   // bitsandbytes
  Blocks,  // MXFP4 of stacked experts
  Mlx,
};

// How the weight of a linear layer is stored.
struct WeightScheme {
  enum class Scales : uint8_t { Tensor, Channel, Group, Block };
  WeightFormat format = WeightFormat::Fp8;
  Scales scales = Scales::Tensor;
  int64_t bits = 8;
  int64_t group = 0;  // inputs that share a scale; 0: all
  // Rows and columns of a matrix [out, in] that share a scale.
  int64_t block_rows = 1;
  int64_t block_columns = 1;
  bool zero_points = false;
  bool reordered = false;  // the inputs of a group need not be adjacent
  std::string weight_name = "weight";
  DType weight_dtype = DType::F8E4M3;
  std::string scale_name = "weight_scale";
  std::optional<DType> scale_dtype = {};  // none: the model's, or f32 for Fp8
  Shape scalar = {};  // shape of a tensor with one number: [], [1] or [1, 1]
  // Tensors of one number next to the weight: "weight_scale_2", "input_scale".
  // Without a dtype they have the model's.
  std::vector<std::pair<std::string, std::optional<DType>>> scalars = {};
  std::string quant_type = {};  // "nf4"
  bool nested = false;          // the statistics are quantised as well
  // Some writers store a bias even if the layer has none.
  bool may_have_bias = false;
};

enum class QuantMethod : uint8_t {
  None,
  Fp8,
  CompressedTensors,
  ModelOpt,
  Awq,
  Gptq,
  Bitsandbytes,
  Mxfp4,
  Mlx,
  Torchao,
};
// Returns the name of a method in configs and architecture files; "" for None.
std::string_view method_name(QuantMethod method);
std::optional<QuantMethod> find_method(std::string_view name);
// Returns the methods whose tensors are known for an architecture.
std::vector<std::string> known_quantisations(const Architecture& architecture);

// Modules that share a scheme.
struct SchemeGroup {
  WeightScheme scheme;
  std::optional<ModulePatterns> targets;  // none: every linear layer
};

struct Quantisation {
  QuantMethod method = QuantMethod::None;
  std::vector<SchemeGroup> groups;
  // Modules that are not converted; none: the config has no such list.
  std::optional<ModulePatterns> excluded;
  std::string excluded_key;  // "modules_to_not_convert"
  // By the name of a module: the index of its group, or kPlain if it is not
  // converted.
  static constexpr size_t kPlain = SIZE_MAX;
  std::map<std::string, size_t, std::less<>> named;
  bool named_only = false;  // other modules are not converted
  // The group of experts that `named` does not contain; none: the group of
  // other layers.
  std::optional<size_t> experts = {};
  // GPTQ: if the config restricts the conversion, the module that contains the
  // converted layers, and the ends of their names.
  std::string block;
  std::optional<ModulePatterns> only;
  // The section of the config. It is shared because the Quantisation outlives
  // the reader that created it.
  std::shared_ptr<ConfigReader> section;
  int64_t saved_by = 0;  // the value of kSavedBy
  // The part of the config that contains the quantisation, which applies only
  // to that part: "text_config". "": the whole model.
  std::string of_part = {};
  std::vector<std::string> remarks;

  // Returns whether layers that are otherwise alike may be stored differently,
  // depending on their names.
  bool by_name() const {
    return (excluded && !excluded->empty()) || !named.empty() || only ||
           !block.empty() || groups.size() > (experts ? 2U : 1U) ||
           (!groups.empty() && groups.front().targets);
  }
  // Returns whether transformers converts the weights when it loads a model. It
  // then converts only linear layers, and stacks of experts are not linear
  // layers.
  bool while_loading() const {
    return method == QuantMethod::Bitsandbytes ||
           method == QuantMethod::Torchao;
  }
  // Returns how many comparisons of modules with entries of the lists were made
  // so far.
  int64_t compared() const {
    int64_t all =
        (excluded ? excluded->compared() : 0) + (only ? only->compared() : 0);
    for (const SchemeGroup& group : groups) {
      all += group.targets ? group.targets->compared() : 0;
    }
    return all;
  }
};

// Reads the quantisation of a config. Anything unknown in it is SP009, so that
// no quantised tensor is read as plain numbers. Returns nothing if an error was
// reported. `quantisation_file` is ModelOpt's hf_quant_config.json, a map that
// contains a map `quantization`; null if there is no such file.
std::optional<Quantisation> read_quantisation(const Architecture& architecture,
                                              ConfigReader& config,
                                              int64_t saved_by,
                                              const Document* quantisation_file,
                                              Diagnostics& diags);
// Reads the quantisation of a part of a config, such as `text_config`, if the
// config itself has none. Only compressed-tensors is supported, with patterns
// that do not begin with the names that the part has in the whole model. Other
// methods and entries are refused.
std::optional<Quantisation> read_part_quantisation(
    const Architecture& architecture, ConfigReader& part,
    const std::string& key, int64_t saved_by);
// Reports any quantisation in a part of a config as unsupported.
void refuse_quantisation(ConfigReader& config);

// These read methods with sections for each scheme: compressed-tensors,
// ModelOpt and torchao (scheme_groups.cc). `section` is the quantisation
// section.
std::optional<Quantisation> read_compressed_tensors(ConfigReader& section);
std::optional<Quantisation> read_modelopt(ConfigReader& section);
std::optional<Quantisation> read_modelopt_file(ConfigReader& quantization);
std::optional<Quantisation> read_torchao(ConfigReader& section);
// Returns the form of torchao's weights in a config, such as
// "Int8WeightOnlyConfig"; "" if the config names none.
std::string_view torchao_form(const Node& config);
// Adds the groups in ModelOpt's `quantized_layers`, and the names of their
// modules. Returns false if an error was reported.
bool read_quantized_layers(ConfigReader& section, Quantisation& result);

// Returns false, and reports the key, if the section has a key other than these
// blank-separated ones. Keys that are null, false, or an empty list or map are
// allowed.
bool knows_keys(ConfigReader& section, std::string_view known);

// Reads a list of modules that are not converted, if there is one. Returns
// false, with the reason reported, if it cannot be read.
bool read_excluded(ConfigReader& section, std::string_view key,
                   Quantisation& result);

// A tensor of a checkpoint.
struct CheckpointTensor {
  std::string name;
  TensorType type;
  ParameterKind kind = {};
  ModuleStep::Kind step = ModuleStep::Kind::Linear;  // the kind of its module
  bool buffer = false;
  // The config does not say whether the tensor exists, so it is not written.
  // The entry describes the tensor in checkpoints that contain it.
  bool only_explained = false;
};

// A linear layer or an embedding before quantisation.
struct LinearWeight {
  std::string name;    // "mlp.up_proj"
  std::string weight;  // suffix of its weight: ".weight"
  Shape stack;         // additional first dimensions: experts
  int64_t out = 0;
  int64_t in = 0;
  bool inputs_first = false;
  DType dtype = DType::F32;
  ParameterKind stack_kind = {};
  DimKind out_kind = {};
  DimKind in_kind = {};
};

// The place of a linear layer in a model.
struct LinearPlace {
  std::string path;  // "model.layers.3.mlp.up_proj"
  // The path in memory, by which the config lists modules; "a.q|k" if it is
  // several modules there. It follows from `renames`.
  std::string in_memory = {};
  const std::vector<ModuleName>* renames = nullptr;
  LinearRole role = LinearRole::Layer;
  bool embedding = false;
  bool bias = false;
  bool expert = false;  // one of several experts that are repeated
  bool in_layer = false;
  bool in_section = false;
  std::string part = {};  // the part of the config for the section
};

// How many layers are converted and how many the config excludes, with examples
// for remarks.
struct QuantisedLayers {
  int64_t converted = 0;
  int64_t excluded = 0;
  // The first layer with an incomplete block and the first expert, if the
  // config does not determine how such layers are stored.
  std::string partial;
  std::string expert;
  // The first stacked experts, the first layer of a part other than the text
  // model, and the first router, if the config does not determine how such
  // layers are stored.
  std::string stacked;
  std::string outside_text;
  std::string router;
};

// Returns how a layer is stored: null for plain numbers. Returns nothing, with
// the reason reported, if that is unknown.
std::optional<const WeightScheme*> scheme_of(const Quantisation& quantisation,
                                             const LinearPlace& place,
                                             const LinearWeight& linear,
                                             QuantisedLayers& layers);
// Adds remarks about assumptions. `dtype` is the model's. Returns false, and
// reports it, if no layer of the model is converted.
bool check_layers(const Quantisation& quantisation,
                  const QuantisedLayers& layers, DType dtype,
                  std::vector<std::string>& remarks);

// Returns the tensors of a weight, without the bias. Sizes that do not fit the
// scheme are SP009.
std::optional<std::vector<CheckpointTensor>> store_weight(
    const LinearWeight& linear, const WeightScheme* scheme,
    const LinearPlace& place, const Quantisation& quantisation);
// Returns the dtype of a bias if it differs from the model's.
std::optional<DType> bias_dtype(const WeightScheme* scheme);

}  // namespace shardplan
