// SPDX-License-Identifier: Apache-2.0
// Reads the sections of compressed-tensors and ModelOpt, which give each group
// of modules a scheme, and of torchao, where the scheme of all modules is in
// nested sections.
#include <array>
#include <utility>

#include "base/text.h"
#include "base/words.h"
#include "model/architecture/quantisation.h"

namespace shardplan {
namespace {

using Scales = WeightScheme::Scales;

constexpr int64_t kMaxGroupSize = 1 << 20;
constexpr int64_t kNvfp4Group = 16;
constexpr int64_t kMxGroup = 32;

// The cache is not part of a checkpoint, but its scales are.
void note_cache(ConfigReader& section, std::string_view key,
                Quantisation& result) {
  if (section.find(key)) {
    result.remarks.push_back(
        "the KV cache is also quantised: its per-tensor scales, if the "
        "checkpoint has any, are left out");
  }
}

// How weights or activations are quantised.
struct Args {
  WeightScheme scheme;  // bits, scales, groups, blocks and zero points
  bool floats = false;
  bool symmetric = true;
  bool per_token = false;
  bool in_tensor_groups = false;  // groups, and one scale for all of them
  bool dynamic = false;           // the scales are not part of the checkpoint
  bool local = false;             // the scales of groups are not part of it
};

bool read_strategy(ConfigReader& args, Args& result) {
  const auto group = args.find("group_size");
  const int64_t size =
      group ? args.bounded("group_size", -1, kMaxGroupSize, {}) : 0;
  if (!args.ok()) return false;
  const auto strategy = args.find("strategy");
  const std::string name = strategy     ? std::string(strategy->text())
                           : size > 0   ? "group"
                           : size == -1 ? "channel"
                                        : "tensor";
  result.per_token = name == "token";
  if (name == "channel") result.scheme.scales = Scales::Channel;
  if (has_word("tensor channel token", name)) return true;
  if (name == "group" || name == "tensor_group") {
    result.scheme.scales = Scales::Group;
    result.in_tensor_groups = name == "tensor_group";
    result.scheme.group = size;
    if (size > 0) return true;
    args.refuse("group_size",
                args.shown("group_size") + " must be a group size");
    return false;
  }
  if (name == "block") {
    result.scheme.scales = Scales::Block;
    const std::vector<int64_t> sizes = args.integers("block_structure");
    if (sizes.size() == 2 && sizes[0] > 0 && sizes[1] > 0 &&
        sizes[0] <= kMaxGroupSize && sizes[1] <= kMaxGroupSize) {
      result.scheme.block_rows = sizes[0];
      result.scheme.block_columns = sizes[1];
      return true;
    }
    args.refuse("block_structure",
                args.shown("block_structure") + " must be two positive sizes");
    return false;
  }
  args.refuse("strategy",
              "strategy " + in_backticks(name) + " is not supported");
  return false;
}

std::optional<Args> read_args(ConfigReader args) {
  if (!knows_keys(args,
                  "num_bits type symmetric group_size strategy "
                  "block_structure dynamic actorder observer "
                  "observer_kwargs scale_dtype zp_dtype")) {
    return std::nullopt;
  }
  Args result;
  result.scheme.bits = args.bounded("num_bits", 1, 64, {8, 8});
  const auto type = args.find("type");
  result.floats = type && type->text() == "float";
  if (type && !result.floats && type->text() != "int") {
    return args.refuse(
        "type", "type " + in_backticks(type->text()) + " is not supported");
  }
  const auto symmetric = args.find("symmetric");
  result.symmetric = !symmetric || symmetric->boolean() == true;
  result.scheme.zero_points = !result.symmetric;
  const auto order = args.find("actorder");
  if (order && order->text() != "weight" && order->text() != "static" &&
      order->boolean() != false) {
    return args.refuse(
        "actorder",
        "the input order " + in_backticks(order->text()) + " is not supported");
  }
  const auto dynamic = args.find("dynamic");
  result.dynamic = dynamic && dynamic->boolean() == true;
  result.local = dynamic && dynamic->text() == "local";
  if (!args.ok() || !read_strategy(args, result)) return std::nullopt;
  return result;
}

bool read_inputs(ConfigReader& group, WeightScheme& scheme) {
  if (!group.find("input_activations")) return true;
  auto section = group.section("input_activations");
  const auto args = section ? read_args(*section) : std::nullopt;
  if (!args) return false;
  if (args->dynamic) return true;
  if (args->in_tensor_groups && args->local) {
    scheme.scalars.emplace_back("input_global_scale", DType::F32);
    return true;
  }
  if (args->scheme.scales != Scales::Tensor || args->per_token || args->local ||
      !args->symmetric) {
    group.refuse("input_activations",
                 "this quantisation of activations is not supported");
    return false;
  }
  scheme.scalars.emplace_back("input_scale", std::nullopt);
  return true;
}

std::optional<WeightScheme> read_scheme(ConfigReader& group,
                                        const std::string& format) {
  if (!group.find("weights")) {
    return group.refuse("", "a group without `weights` is not supported");
  }
  auto section = group.section("weights");
  if (!section) return std::nullopt;
  const auto args = read_args(*section);
  if (!args) return std::nullopt;
  WeightScheme scheme = args->scheme;
  scheme.scalar = {1};
  const auto unknown = [&]() -> std::optional<WeightScheme> {
    return group.refuse("weights",
                        "this quantisation of weights is not supported as " +
                            in_backticks(format));
  };
  if (args->dynamic || args->local || args->per_token) return unknown();
  if (format == "nvfp4-pack-quantized" || format == "mxfp4-pack-quantized") {
    const bool nvidia = format.starts_with("nvfp4");
    const int64_t size = nvidia ? kNvfp4Group : kMxGroup;
    if (!args->floats || scheme.bits != 4 || scheme.group != size ||
        args->in_tensor_groups != nvidia || !args->symmetric) {
      return unknown();
    }
    const std::string_view wanted =
        nvidia ? "torch.float8_e4m3fn" : "torch.uint8";
    const auto dtype = section->find("scale_dtype");
    if (dtype && dtype->text() != wanted) {
      return section->refuse("scale_dtype",
                             section->shown("scale_dtype") + " other than " +
                                 in_backticks(wanted) + " is not supported");
    }
    scheme.format = WeightFormat::PackedFloats;
    scheme.weight_dtype = DType::U8;
    scheme.weight_name = "weight_packed";
    scheme.scale_dtype = nvidia ? DType::F8E4M3 : DType::U8;
    if (nvidia) scheme.scalars.emplace_back("weight_global_scale", DType::F32);
  } else if (args->in_tensor_groups || section->find("scale_dtype")) {
    return unknown();
  } else if (format == "pack-quantized") {
    if (args->floats || (scheme.bits != 4 && scheme.bits != 8) ||
        scheme.scales == Scales::Block) {
      return unknown();
    }
    scheme.format = WeightFormat::PackedInts;
  } else if (format == "int-quantized" || format == "float-quantized" ||
             format == "naive-quantized") {
    if (scheme.bits != 8 || (args->floats && !args->symmetric) ||
        (format == "int-quantized" && args->floats) ||
        (format == "float-quantized" && !args->floats)) {
      return unknown();
    }
    scheme.format = WeightFormat::Scaled;
    scheme.weight_dtype = args->floats ? DType::F8E4M3 : DType::I8;
  } else {
    return unsupported(group, "format",
                       "compressed-tensors format " + in_backticks(format) +
                           " is not supported");
  }
  if (!read_inputs(group, scheme)) return std::nullopt;
  return scheme;
}

std::optional<SchemeGroup> read_group(ConfigReader group, std::string format) {
  if (!knows_keys(group, "targets weights input_activations format")) {
    return std::nullopt;
  }
  if (const auto own = group.find("format")) format = own->text();
  auto scheme = read_scheme(group, format);
  if (!scheme) return std::nullopt;
  const auto targets = group.find("targets");
  if (!targets) {
    return group.refuse("", "a group without `targets` is not supported");
  }
  SchemeGroup result{*std::move(scheme), {}};
  result.targets = ModulePatterns::read(group, "targets", *targets);
  if (!result.targets) return std::nullopt;
  if (result.targets->has("Embedding")) {
    return group.refuse("targets", "quantised embeddings are not supported");
  }
  return result;
}

// Returns the scheme that a name of ModelOpt's stands for.
std::optional<WeightScheme> algorithm(ConfigReader& section,
                                      std::string_view key) {
  const auto value = section.find(key);
  const std::string_view name = value ? value->text() : "";
  WeightScheme scheme;
  if (name == "FP8") {
    scheme.format = WeightFormat::Scaled;
    scheme.scale_dtype = DType::F32;
    scheme.scalars = {{"input_scale", DType::F32}};
    return scheme;
  }
  if (name == "NVFP4" || name == "W4A16_NVFP4") {
    scheme.format = WeightFormat::PackedFloats;
    scheme.weight_dtype = DType::U8;
    scheme.scales = Scales::Group;
    scheme.bits = 4;
    scheme.group = section.bounded("group_size", 1, kMaxGroupSize,
                                   {kNvfp4Group, kNvfp4Group});
    scheme.scale_dtype = DType::F8E4M3;
    scheme.scalars = {{"weight_scale_2", DType::F32}};
    if (name == "NVFP4") scheme.scalars.emplace_back("input_scale", DType::F32);
    if (!section.ok()) return std::nullopt;
    if (scheme.group % 2 == 0) return scheme;
    return section.refuse("group_size",
                          "groups of an odd size are not supported");
  }
  return unsupported(section, key,
                     name.empty() ? section.shown(key) + " is missing"
                                  : "ModelOpt algorithm " + in_backticks(name) +
                                        " is not supported")
      .fact("supported: `FP8`, `NVFP4`, `W4A16_NVFP4`");
}

// Reads the scheme of all layers, or those of named layers.
std::optional<Quantisation> read_algorithms(ConfigReader& section) {
  Quantisation result;
  result.method = QuantMethod::ModelOpt;
  const auto algo = section.find("quant_algo");
  if (algo && algo->text() == "MIXED_PRECISION") {
    result.named_only = true;
    if (!read_quantized_layers(section, result)) return std::nullopt;
  } else {
    auto scheme = algorithm(section, "quant_algo");
    if (!scheme) return std::nullopt;
    result.groups.push_back({*std::move(scheme), {}});
  }
  // A config.json has `ignore` and hf_quant_config.json has `exclude_modules`,
  // but some versions write the other.
  for (const char* key : {"ignore", "exclude_modules"}) {
    const auto list = section.find(key);
    if (!list || (list->is_list() && list->size() == 0)) continue;
    if (result.excluded) {
      return section.refuse(key,
                            "`ignore` and `exclude_modules` are both given");
    }
    if (!read_excluded(section, key, result)) return std::nullopt;
  }
  return result;
}

// Returns whether the group sizes in `config_groups`, which repeats the
// algorithm for other programs, are that of the algorithm; reports other sizes.
bool agrees(ConfigReader& section, const Quantisation& quantisation) {
  if (!section.find("config_groups")) return true;
  auto groups = section.section("config_groups");
  if (!groups) return false;
  const WeightScheme& scheme = quantisation.groups.front().scheme;
  for (size_t i = 0; i < groups->map().size(); ++i) {
    auto group = groups->section(groups->map().key(i));
    if (!group) return false;
    if (!group->find("weights")) continue;
    auto weights = group->section("weights");
    if (!weights) return false;
    const int64_t size =
        weights->bounded("group_size", 0, kMaxGroupSize, {0, 0});
    if (!weights->ok()) return false;
    if (size == scheme.group) continue;
    weights->refuse("group_size", "group size " + std::to_string(size) +
                                      " is not the one of the algorithm");
    return false;
  }
  return true;
}

// The forms of 8-bit weights in torchao 0.18 (quantization/quant_api.py). The
// layout of other forms is specific to one kernel.
struct TorchaoForm {
  std::string_view name;
  DType dtype;
  std::string_view granularity;  // the default
};
constexpr std::array<TorchaoForm, 4> kTorchaoForms = {
    {{"Int8WeightOnlyConfig", DType::I8, "PerRow"},
     {"Int8DynamicActivationInt8WeightConfig", DType::I8, "PerRow"},
     {"Float8WeightOnlyConfig", DType::F8E4M3, "PerRow"},
     {"Float8DynamicActivationFloat8WeightConfig", DType::F8E4M3,
      "PerTensor"}}};

// Reads which numbers of a weight share a scale. In a list of two, the second
// is for weights.
bool read_granularity(ConfigReader& form, std::string_view otherwise,
                      WeightScheme& scheme) {
  const auto granularity = form.find("granularity");
  const Node of =
      granularity && granularity->is_list() && granularity->size() == 2
          ? granularity->item(1)
          : granularity.value_or(form.map());
  const auto type = of.is_map() ? of.find("_type") : std::nullopt;
  const std::string_view name = !granularity ? otherwise
                                : type       ? type->text()
                                             : "";
  if (name == "PerRow") scheme.scales = Scales::Channel;
  if (name == "PerTensor") scheme.scalar = {1, 1};
  if (name == "PerRow" || name == "PerTensor") return true;
  const auto data = of.is_map() ? of.find("_data") : std::nullopt;
  const auto group =
      data && data->is_map() ? data->find("group_size") : std::nullopt;
  const auto size = group ? group->integer() : std::nullopt;
  if (name == "PerGroup" && size && *size > 0 && *size <= kMaxGroupSize) {
    scheme.scales = Scales::Group;
    scheme.group = *size;
    return true;
  }
  form.refuse("granularity", "this granularity of scales is not supported");
  return false;
}

}  // namespace

std::optional<Quantisation> read_compressed_tensors(ConfigReader& section) {
  if (!knows_keys(section,
                  "quant_method config_groups format "
                  "global_compression_ratio ignore kv_cache_scheme "
                  "quantization_status version sparsity_config "
                  "run_compressed")) {
    return std::nullopt;
  }
  const auto status = section.find("quantization_status");
  if (!status || status->text() != "compressed") {
    return unsupported(
        section, "quantization_status",
        section.shown("quantization_status") + " is not `compressed`");
  }
  if (const auto sparse = section.find("sparsity_config")) {
    const auto format =
        sparse->is_map() ? sparse->find("format") : std::nullopt;
    const bool dense =
        sparse->size() == 0 || (format && format->text() == "dense");
    if (!dense) {
      return section.refuse("sparsity_config",
                            "sparse weights are not supported");
    }
  }
  Quantisation result;
  result.method = QuantMethod::CompressedTensors;
  const auto format = section.find("format");
  auto groups = section.section("config_groups");
  if (!groups) return std::nullopt;
  for (size_t i = 0; i < groups->map().size(); ++i) {
    auto group = groups->section(groups->map().key(i));
    if (!group) return std::nullopt;
    auto read = read_group(*group, format ? std::string(format->text()) : "");
    if (!read) return std::nullopt;
    result.groups.push_back(*std::move(read));
  }
  if (!read_excluded(section, "ignore", result)) return std::nullopt;
  note_cache(section, "kv_cache_scheme", result);
  return result;
}

bool read_quantized_layers(ConfigReader& section, Quantisation& result) {
  auto layers = section.section("quantized_layers");
  if (!layers) return false;
  for (size_t i = 0; i < layers->map().size(); ++i) {
    const std::string name(layers->map().key(i));
    auto layer = layers->section(name);
    if (!layer || !knows_keys(*layer, "quant_algo group_size")) {
      return false;
    }
    auto scheme = algorithm(*layer, "quant_algo");
    if (!scheme) return false;
    result.named.emplace(name, result.groups.size());
    result.groups.push_back({*std::move(scheme), {}});
  }
  return true;
}

std::optional<Quantisation> read_modelopt(ConfigReader& section) {
  // The section may contain an unchanged hf_quant_config.json.
  if (section.find("quantization")) {
    auto inner = section.section("quantization");
    if (!inner || !knows_keys(section, "quant_method quantization producer")) {
      return std::nullopt;
    }
    return read_modelopt_file(*inner);
  }
  if (!knows_keys(section,
                  "quant_method quant_algo config_groups ignore "
                  "exclude_modules kv_cache_scheme kv_cache_quant_algo "
                  "producer quantized_layers group_size")) {
    return std::nullopt;
  }
  auto result = read_algorithms(section);
  if (result && !result->named_only && !agrees(section, *result)) {
    return std::nullopt;
  }
  if (result) note_cache(section, "kv_cache_scheme", *result);
  return result;
}

std::optional<Quantisation> read_modelopt_file(ConfigReader& quantization) {
  if (!knows_keys(quantization,
                  "quant_algo kv_cache_quant_algo group_size ignore "
                  "exclude_modules quantized_layers")) {
    return std::nullopt;
  }
  auto result = read_algorithms(quantization);
  if (result) note_cache(quantization, "kv_cache_quant_algo", *result);
  return result;
}

std::string_view torchao_form(const Node& config) {
  std::optional<Node> at = config;
  for (const char* key : {"quantization_config", "quant_type", "default"}) {
    at = at->is_map() ? at->find(key) : std::nullopt;
    if (!at) return "";
  }
  const auto type = at->is_map() ? at->find("_type") : std::nullopt;
  return type ? type->text() : "";
}

std::optional<Quantisation> read_torchao(ConfigReader& section) {
  if (!knows_keys(section, "quant_method quant_type modules_to_not_convert")) {
    return std::nullopt;
  }
  const auto type = section.find("quant_type");
  if (!type || !type->is_map()) {
    return unsupported(
        section, "quant_type",
        "`quant_type` must be a map, as transformers 5 writes it");
  }
  auto all = section.section("quant_type");
  if (!all || !knows_keys(*all, "default")) return std::nullopt;
  auto form = all->section("default");
  if (!form || !knows_keys(*form, "_type _version _data")) {
    return std::nullopt;
  }
  const auto name = form->find("_type");
  const auto* const known = find_named(kTorchaoForms, name ? name->text() : "");
  if (known == nullptr) {
    return unsupported(*form, "_type",
                       "weights of " +
                           in_backticks(name ? name->text() : "no type") +
                           " are not supported")
        .fact("their layout depends on the kernel that reads them");
  }
  auto data = form->section("_data");
  WeightScheme scheme;
  scheme.format = WeightFormat::Scaled;
  scheme.weight_dtype = known->dtype;
  scheme.weight_name = "_weight_qdata";
  scheme.scale_name = "_weight_scale";
  scheme.scale_dtype = DType::F32;
  scheme.zero_points = known->dtype == DType::I8;
  if (!data || !read_granularity(*data, known->granularity, scheme))
    return std::nullopt;
  Quantisation result;
  result.method = QuantMethod::Torchao;
  result.groups.push_back({std::move(scheme), {}});
  if (!read_excluded(section, "modules_to_not_convert", result)) {
    return std::nullopt;
  }
  return result;
}

}  // namespace shardplan
