// SPDX-License-Identifier: Apache-2.0
// Quantisation: which tensors stand for the weight of a linear layer in a
// quantised checkpoint, and which layers of a model have such.
//
// A method is a table over linear layers and knows no architecture: it reads
// its section of the config (quantisation.cc, scheme_groups.cc), says of a
// layer whether it is converted (quantised_modules.cc), and lists the tensors
// of one that is (quantised_tensors.cc). docs/formats/architecture.md has the
// methods. What a config says beyond that is refused, since tensors that are
// not known must not be read as plain ones.
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

// What a diagnostic says of a quantisation that is not known.
inline constexpr std::string_view kPackedTensors =
    "its checkpoint holds packed tensors that the config does not describe";
inline constexpr std::string_view kUseTensors =
    "pass the model's safetensors files instead of its config";

enum class WeightFormat : uint8_t {
  Fp8,           // `weight`, `weight_scale_inv` (DeepSeek, transformers)
  Scaled,        // `weight` of one byte, `weight_scale`; torchao's
  PackedInts,    // `weight_packed` of i32 (compressed-tensors)
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
  bool reordered = false;  // groups of inputs that do not stand side by side
  std::string weight_name = "weight";
  DType weight_dtype = DType::F8E4M3;
  std::string scale_name = "weight_scale";
  std::optional<DType> scale_dtype;  // none: the model's; f32 of Fp8
  Shape scalar;                      // of one number: [] or [1]
  // Tensors of one number beside it: "weight_scale_2", "input_scale".
  std::vector<std::pair<std::string, std::optional<DType>>> scalars;
  std::string quant_type;  // "nf4"
  bool nested = false;     // statistics are quantised themselves
  // Some writers store a bias for a layer that has none.
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
// As a config and an architecture file spell it; "" for none.
std::string_view method_name(QuantMethod method);
std::optional<QuantMethod> find_method(std::string_view name);
// Those whose tensors are known of an architecture.
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
  // Of modules by their name: the number of a group, or kPlain.
  static constexpr size_t kPlain = SIZE_MAX;
  std::map<std::string, size_t, std::less<>> named;
  bool named_only = false;  // others are not converted
  // Group of the experts that `named` does not name; none: as other layers.
  std::optional<size_t> experts = {};
  // GPTQ: the layers that are converted, where the config says so: the module
  // around blocks, and how names within them end.
  std::string block;
  std::optional<ModulePatterns> only;
  // Where it is said; shared, since it outlives what reads it.
  std::shared_ptr<ConfigReader> section;
  int64_t saved_by = 0;  // as kSavedBy
  // The part of the config that says so of itself, and is alone quantised:
  // "text_config"; "": all of the model.
  std::string of_part = {};
  std::vector<std::string> remarks;

  // Whether layers that are alike otherwise may differ in it.
  bool by_name() const {
    return (excluded && !excluded->empty()) || !named.empty() || only ||
           !block.empty() || groups.size() > (experts ? 2U : 1U) ||
           (!groups.empty() && groups.front().targets);
  }
  // Converted as transformers loads a model: linear layers alone, which stacks
  // of experts are not.
  bool while_loading() const {
    return method == QuantMethod::Bitsandbytes ||
           method == QuantMethod::Torchao;
  }
  // How many entries of its lists modules were compared with so far.
  int64_t compared() const {
    int64_t all =
        (excluded ? excluded->compared() : 0) + (only ? only->compared() : 0);
    for (const SchemeGroup& group : groups) {
      all += group.targets ? group.targets->compared() : 0;
    }
    return all;
  }
};

// The quantisation of a config. Whatever of it is not known is SP009: nothing
// of it is read as plain numbers. Empty when something was reported.
// `quantisation_file` is ModelOpt's hf_quant_config.json, a map with a map
// `quantization`; null where there is none.
std::optional<Quantisation> read_quantisation(const Architecture& architecture,
                                              ConfigReader& config,
                                              int64_t saved_by,
                                              const Document* quantisation_file,
                                              Diagnostics& diags);
// That of a part of a config, such as `text_config`, where the config itself
// has none: of compressed-tensors, whose patterns do not begin with the names
// that the part has in the whole. Other methods, and names, are refused.
std::optional<Quantisation> read_part_quantisation(
    const Architecture& architecture, ConfigReader& part,
    const std::string& key, int64_t saved_by);
// Reports the quantisation that a part of a config has of its own.
void refuse_quantisation(ConfigReader& config);

// compressed-tensors, ModelOpt and torchao: schemes in sections of their own
// (scheme_groups.cc). `section` is the quantisation's.
std::optional<Quantisation> read_compressed_tensors(ConfigReader& section);
std::optional<Quantisation> read_modelopt(ConfigReader& section);
std::optional<Quantisation> read_modelopt_file(ConfigReader& quantization);
std::optional<Quantisation> read_torchao(ConfigReader& section);
// "Int8WeightOnlyConfig", where a config says that torchao made its weights;
// else "".
std::string_view torchao_form(const Node& config);
// Adds the groups of `quantized_layers` of ModelOpt, and the names of their
// modules; false when something was reported.
bool read_quantized_layers(ConfigReader& section, Quantisation& result);

// False, with the key reported, where the section says something else than
// these; a key with null or an empty list or map says nothing.
bool knows_keys(ConfigReader& section,
                const std::vector<std::string_view>& known);

// A list of modules that are not converted, where there is one; false, with the
// reason reported, where it cannot be read.
bool read_excluded(ConfigReader& section, std::string_view key,
                   Quantisation& result);

// A tensor of a checkpoint.
struct CheckpointTensor {
  std::string name;
  TensorType type;
  bool buffer = false;
  // Not written, because the config does not say that it is there; where a
  // checkpoint has it, this is what it is.
  bool only_explained = false;
  ParameterKind kind = {};
  ModuleStep::Kind step = ModuleStep::Kind::Linear;  // what it is of
};

// A linear layer, or an embedding, before it is stored.
struct LinearWeight {
  std::string name;    // "mlp.up_proj"
  std::string weight;  // what its weight is called behind that
  Shape stack;         // dimensions in front: experts
  int64_t out = 0;
  int64_t in = 0;
  bool inputs_first = false;
  DType dtype = DType::F32;
  ParameterKind stack_kind = {};
  DimKind out_kind = {};
  DimKind in_kind = {};
};

// Where a linear layer stands in a model.
struct LinearPlace {
  std::string path;  // "model.layers.3.mlp.up_proj"
  // The same in memory, which lists of modules are read against; "a.q|k" where
  // it is several modules there. What it follows from stands in `renames`.
  std::string in_memory = {};
  const std::vector<ModuleName>* renames = nullptr;
  LinearRole role = LinearRole::Layer;
  bool embedding = false;
  bool bias = false;
  bool expert = false;  // one of several that are repeated
  bool in_layer = false;
  bool in_section = false;
  std::string part = {};  // of the config, that the section is read from
};

// How many layers were converted, and how many the config keeps from it.
struct QuantisedLayers {
  int64_t converted = 0;
  int64_t excluded = 0;
  // The first whose blocks are not all whole, or that is an expert, where the
  // config does not tell how those are stored.
  std::string partial;
  std::string expert;
  // The first that is of stacked experts, of a part beside the text model, or a
  // router, where the config does not tell how those are stored.
  std::string stacked;
  std::string outside_text;
  std::string router;
};

// How a layer is stored: null as plain numbers. Empty, with the reason
// reported, where that is not known.
std::optional<const WeightScheme*> scheme_of(const Quantisation& quantisation,
                                             const LinearPlace& place,
                                             const LinearWeight& linear,
                                             QuantisedLayers& layers);
// Reports a model of `dtype` of which nothing is converted, and remarks on what
// is taken for granted.
bool check_layers(const Quantisation& quantisation,
                  const QuantisedLayers& layers, DType dtype,
                  std::vector<std::string>& remarks);

// The tensors of a weight, without the bias. SP009 where its sizes do not fit.
std::optional<std::vector<CheckpointTensor>> store_weight(
    const LinearWeight& linear, const WeightScheme* scheme,
    const LinearPlace& place, const Quantisation& quantisation);
// What a bias has instead of the model's dtype.
std::optional<DType> bias_dtype(const WeightScheme* scheme);

}  // namespace shardplan
