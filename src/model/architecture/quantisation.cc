// SPDX-License-Identifier: Apache-2.0
// Reads the sections of a config that describe how a model is quantised.
#include "model/architecture/quantisation.h"

#include <algorithm>
#include <initializer_list>
#include <iterator>
#include <utility>

#include "base/text.h"
#include "base/words.h"

namespace shardplan {
namespace {

using Scales = WeightScheme::Scales;

constexpr int64_t kMaxGroup = 1 << 20;
constexpr int64_t kMxfp4Group = 32;

// The keys that may contain a quantisation. MLX writes `quantization`, and
// repeats it under another of these keys, which then names no method.
constexpr const char* kKeys[] = {"quantization", "quantization_config",
                                 "compression_config", "quant_config",
                                 "quantize_config"};

// Returns whether the key is absent or has one of these values. Refuses another
// value with a message that quotes it between `before` and `after`.
bool has_value(ConfigReader& section, std::string_view key,
               std::initializer_list<std::string_view> values,
               const std::string& before, const std::string& after) {
  const auto value = section.find(key);
  if (!value || contains(values, value->text())) return true;
  section.refuse(key, before + in_backticks(value->text()) + after);
  return false;
}

Quantisation of_scheme(QuantMethod method, WeightScheme scheme) {
  Quantisation result;
  result.method = method;
  result.groups.push_back({std::move(scheme), {}});
  return result;
}

bool is_true(ConfigReader& section, std::string_view key) {
  const auto value = section.find(key);
  return value && value->boolean() == true;
}

// Returns "`awq`", or "4 bits in groups of 64" for MLX, which names no method;
// "" if the config says neither.
std::string method_text(const Node& quantisation) {
  if (!quantisation.is_map()) return "";
  const auto method = quantisation.find("quant_method");
  if (method && !method->text().empty()) return in_backticks(method->text());
  const auto bits = quantisation.find("bits");
  const auto group = quantisation.find("group_size");
  if (!bits || !group || !bits->integer() || !group->integer()) return "";
  return plural(*bits->integer(), "bit") + " in groups of " +
         std::to_string(*group->integer());
}

// Reads `group_size`, the inputs in a group. Returns 0 for -1, which means all.
std::optional<int64_t> read_group(ConfigReader& section) {
  const auto value = section.find("group_size");
  const auto group = value ? value->integer() : std::nullopt;
  if (group && (*group == -1 || (*group > 0 && *group <= kMaxGroup))) {
    return *group == -1 ? 0 : *group;
  }
  return section.refuse(
      "group_size",
      section.shown("group_size") +
          (value ? " must be -1 or a positive size" : " is missing"));
}

// Returns the scheme of experts with two values of 4 bits in a byte, 32 of
// which share a scale of one byte.
WeightScheme packed_experts(const std::string& scale_name) {
  return {.format = WeightFormat::PackedFloats,
          .scales = Scales::Group,
          .bits = 4,
          .group = kMxfp4Group,
          .weight_dtype = DType::I8,
          .scale_name = scale_name,
          .scale_dtype = DType::F8E8M0};
}

// Reads the experts that ModelOpt has rewritten in such a checkpoint. They are
// named in the config; all other layers are unchanged.
bool read_rewritten_experts(ConfigReader& fp8, Quantisation& result) {
  const auto method = fp8.find("moe_quant_algo");
  const auto all = fp8.find("quant_algo");
  if (!method && !all && !fp8.find("quantized_layers")) return true;
  if (!method || method->text() != "NVFP4" || !all ||
      all->text() != "MIXED_PRECISION") {
    unsupported(fp8, "moe_quant_algo",
                "experts beside FP8 layers are supported only as `NVFP4` of "
                "`MIXED_PRECISION`");
    return false;
  }
  if (!read_quantized_layers(fp8, result)) return false;
  const auto list = fp8.find("ignore");
  const auto excluded = list ? ModulePatterns::read(fp8, "ignore", *list)
                             : std::optional<ModulePatterns>();
  if (list && !excluded) return false;
  for (const auto& [name, _] : result.named) {
    const bool experts = name.ends_with(".experts");
    if (experts &&
        (!excluded || !excluded->matches(name, PatternStyle::Globs))) {
      continue;
    }
    unsupported(fp8, "quantized_layers",
                in_backticks(name) + (experts ? " is also in `ignore`"
                                              : " is not a module of experts"));
    return false;
  }
  return true;
}

// Reads how experts are stored if that differs from the other FP8 layers.
bool read_experts(const Architecture& architecture, ConfigReader& config,
                  ConfigReader& fp8, bool released, int64_t saved_by,
                  Quantisation& result) {
  const auto own = fp8.find("expert_dtype");
  const auto experts = own ? own : config.find("expert_dtype");
  const auto scales = fp8.find("scale_fmt");
  const bool bytes = scales && scales->text() != "float";
  const bool packed = released && experts && experts->text() == "fp4";
  if (bytes && scales->text() != "ue8m0") {
    unsupported(
        fp8, "scale_fmt",
        "scales of " + in_backticks(scales->text()) + " are not supported");
    return false;
  }
  if (bytes && (released || saved_by >= 5)) {
    result.groups.front().scheme.scale_dtype = DType::F8E8M0;
  } else if (bytes) {
    result.remarks.emplace_back(
        "`ue8m0` scales are assumed to be f32, as in released checkpoints; "
        "some programs store one byte each");
  }
  if (experts && experts->text() != "fp8" && !(packed && bytes)) {
    (own ? fp8 : config)
        .refuse("expert_dtype",
                "experts of a type other than FP8 are not supported")
        .help(std::string(kUseTensors));
    return false;
  }
  if (!packed) return true;
  result.experts = result.groups.size();
  result.groups.push_back({packed_experts(architecture.released_scale), {}});
  return read_rewritten_experts(fp8, result);
}

std::optional<Quantisation> read_fp8(const Architecture& architecture,
                                     ConfigReader& config, ConfigReader& fp8,
                                     int64_t saved_by) {
  const bool released = !architecture.released_scale.empty() && saved_by < 5;
  std::string known =
      "quant_method fmt activation_scheme weight_block_size scale_fmt "
      "modules_to_not_convert expert_dtype";
  if (released) {
    known +=
        " quant_algo moe_quant_algo quantized_layers ignore config_groups "
        "group_size producer";
  }
  if (!knows_keys(fp8, known)) return std::nullopt;
  const auto format = fp8.find("fmt");
  if (format && format->text() != "e4m3" && format->text() != "float8_e4m3fn") {
    return fp8.refuse("fmt", "only the FP8 format `e4m3` is supported");
  }
  WeightScheme scheme;
  scheme.scale_name =
      released ? architecture.released_scale : "weight_scale_inv";
  const auto block = fp8.at("weight_block_size");
  if (block && block->is_null() && saved_by >= 5) {
    scheme.scales = Scales::Tensor;
  } else {
    const std::vector<int64_t> sizes = fp8.integers("weight_block_size");
    if (sizes.size() != 2 || sizes[0] < 1 || sizes[1] < 1 ||
        sizes[0] > kMaxGroup || sizes[1] > kMaxGroup) {
      return fp8.refuse("weight_block_size",
                        "`weight_block_size` must be two positive sizes");
    }
    scheme.scales = Scales::Block;
    scheme.block_rows = sizes[0];
    scheme.block_columns = sizes[1];
  }
  const auto activations = fp8.find("activation_scheme");
  if (activations && activations->text() == "static" && saved_by >= 5) {
    scheme.scalars.emplace_back("activation_scale", DType::F32);
  } else if (!has_value(fp8, "activation_scheme", {"dynamic"},
                        "activations quantised as ", " are not supported")) {
    return std::nullopt;
  }
  Quantisation result = of_scheme(QuantMethod::Fp8, std::move(scheme));
  if (!read_experts(architecture, config, fp8, released, saved_by, result) ||
      !read_excluded(fp8, "modules_to_not_convert", result)) {
    return std::nullopt;
  }
  return result;
}

std::optional<Quantisation> read_awq(ConfigReader& awq) {
  if (!knows_keys(awq,
                  "quant_method bits group_size zero_point version format "
                  "modules_to_not_convert backend fuse_max_seq_len "
                  "modules_to_fuse")) {
    return std::nullopt;
  }
  const std::string of_awq = " of AWQ is not supported";
  for (const char* key : {"version", "format"}) {
    if (!has_value(awq, key, {"gemm", "GEMM"}, "the packing ", of_awq)) {
      return std::nullopt;
    }
  }
  if (!has_value(awq, "backend", {"autoawq", "auto"}, "the backend ", of_awq)) {
    return std::nullopt;
  }
  const auto points = awq.find("zero_point");
  if (points && points->boolean() != true) {
    return awq.refuse("zero_point", "AWQ without zero points is not supported");
  }
  if (awq.bounded("bits", 1, 64, {}) != 4) {
    return awq.ok() ? awq.refuse("bits", "only 4-bit AWQ is supported")
                    : std::optional<Quantisation>();
  }
  const auto group = read_group(awq);
  if (!group) return std::nullopt;
  Quantisation result =
      of_scheme(QuantMethod::Awq, {.format = WeightFormat::Awq,
                                   .bits = 4,
                                   .group = *group,
                                   .zero_points = true});
  if (!read_excluded(awq, "modules_to_not_convert", result)) {
    return std::nullopt;
  }
  return result;
}

// Reads `dynamic` of GPTQModel: regular expressions for the beginnings of
// module names, in order. `-:` excludes a module; other entries may give it
// another scheme, which is refused.
bool read_gptq_dynamic(ConfigReader& gptq, Quantisation& result) {
  const auto map = gptq.find("dynamic");
  if (!map) return true;
  if (!map->is_map()) {
    gptq.ill_typed("dynamic", *map, kind_name(NodeKind::Map));
    return false;
  }
  std::vector<std::string> excluded;
  for (size_t i = 0; i < map->size(); ++i) {
    const std::string_view key = map->key(i);
    const Node scheme = map->item(i);
    if (key.starts_with("-:")) {
      excluded.push_back("re:" + std::string(key.substr(2)));
    } else if (scheme.is_map() && scheme.size() > 0) {
      unsupported(
          gptq, "dynamic",
          in_backticks(key) + " has its own scheme, which is not supported");
      return false;
    }
  }
  if (excluded.empty()) return true;
  result.excluded = ModulePatterns::of(gptq, "dynamic", excluded);
  result.excluded_key = "dynamic";
  return result.excluded.has_value();
}

// Reads the section of GPTQ. Programs that name the packing omit biases that a
// model does not have; older ones store zeros for them.
std::optional<Quantisation> read_gptq(ConfigReader& gptq) {
  if (!knows_keys(gptq,
                  "quant_method bits group_size damp_percent "
                  "damp_auto_increment desc_act static_groups sym "
                  "true_sequential model_name_or_path model_file_base_name "
                  "checkpoint_format format meta tokenizer dataset "
                  "use_cuda_fp16 model_seqlen block_name_to_quantize "
                  "module_name_preceding_first_block batch_size "
                  "pad_token_id use_exllama max_input_length exllama_config "
                  "cache_block_outputs modules_in_block_to_quantize backend "
                  "pack_dtype mse act_group_aware dynamic lm_head uri")) {
    return std::nullopt;
  }
  const char* const key = gptq.find("format") ? "format" : "checkpoint_format";
  if (!has_value(gptq, key, {"gptq", "gptq_v2"}, "the packing ",
                 " of GPTQ is not supported")) {
    return std::nullopt;
  }
  if (is_true(gptq, "lm_head")) {
    return unsupported(gptq, "lm_head",
                       "a GPTQ-quantised head is not supported");
  }
  if (!has_value(gptq, "pack_dtype", {"int32"}, "words of ",
                 " are not supported")) {
    return std::nullopt;
  }
  const int64_t bits = gptq.bounded("bits", 1, 64, {});
  if (bits != 2 && bits != 4 && bits != 8) {
    return gptq.ok() ? gptq.refuse("bits", "GPTQ with " + plural(bits, "bit") +
                                               " is not supported")
                     : std::optional<Quantisation>();
  }
  const auto group = read_group(gptq);
  if (!group) return std::nullopt;
  WeightScheme scheme;
  scheme.format = WeightFormat::Gptq;
  scheme.bits = bits;
  scheme.group = *group;
  scheme.reordered = is_true(gptq, "desc_act") && *group > 0;
  const bool names_packing = gptq.find(key).has_value();
  scheme.may_have_bias = !names_packing;
  Quantisation result = of_scheme(QuantMethod::Gptq, std::move(scheme));
  if (!names_packing) {
    result.remarks.emplace_back(
        "the GPTQ config has no `checkpoint_format`: `gptq` packing is "
        "assumed; older programs also store a zero bias for each quantised "
        "layer, which is left out");
  }
  if (!read_gptq_dynamic(gptq, result)) return std::nullopt;
  if (const auto list = gptq.find("modules_in_block_to_quantize")) {
    result.only =
        ModulePatterns::read(gptq, "modules_in_block_to_quantize", *list);
    if (!result.only) return std::nullopt;
  }
  if (const auto block = gptq.find("block_name_to_quantize")) {
    result.block = block->text();
  }
  return result;
}

std::optional<Quantisation> read_bitsandbytes(ConfigReader& bits) {
  if (!knows_keys(bits,
                  "quant_method _load_in_4bit _load_in_8bit load_in_4bit "
                  "load_in_8bit llm_int8_threshold llm_int8_skip_modules "
                  "llm_int8_enable_fp32_cpu_offload bnb_4bit_compute_dtype "
                  "bnb_4bit_quant_storage bnb_4bit_quant_type "
                  "bnb_4bit_use_double_quant")) {
    return std::nullopt;
  }
  WeightScheme scheme;
  const bool four =
      is_true(bits, "load_in_4bit") || is_true(bits, "_load_in_4bit");
  const bool eight =
      is_true(bits, "load_in_8bit") || is_true(bits, "_load_in_8bit");
  if (four == eight) {
    return bits.refuse("", "the config sets neither or both of 4 and 8 bits");
  }
  if (eight) {
    scheme.format = WeightFormat::Bits8;
  } else {
    scheme.format = WeightFormat::Bits4;
    scheme.bits = 4;
    scheme.nested = is_true(bits, "bnb_4bit_use_double_quant");
    const auto storage = bits.find("bnb_4bit_quant_storage");
    if (storage && storage->text() != "uint8") {
      return bits
          .refuse("bnb_4bit_quant_storage", "weights stored as " +
                                                in_backticks(storage->text()) +
                                                " are not supported")
          .help("write `uint8`: the weights have as many bytes");
    }
    if (!has_value(bits, "bnb_4bit_quant_type", {"nf4", "fp4"}, "",
                   " is not supported")) {
      return std::nullopt;
    }
    const auto type = bits.find("bnb_4bit_quant_type");
    scheme.quant_type = type ? std::string(type->text()) : "fp4";
  }
  Quantisation result = of_scheme(QuantMethod::Bitsandbytes, scheme);
  if (scheme.nested) {
    result.remarks.emplace_back(
        "statistics are also quantised (`bnb_4bit_use_double_quant`): the "
        "length of `quant_state` depends on the weights by a few bytes and is "
        "estimated");
  }
  if (!read_excluded(bits, "llm_int8_skip_modules", result))
    return std::nullopt;
  return result;
}

std::optional<Quantisation> read_mxfp4(ConfigReader& mxfp4) {
  if (!knows_keys(mxfp4, "quant_method modules_to_not_convert")) {
    return std::nullopt;
  }
  const auto excluded = mxfp4.find("modules_to_not_convert");
  for (size_t i = 0; excluded && i < excluded->size(); ++i) {
    if (!contains(excluded->item(i).text(), "experts")) continue;
    return mxfp4.refuse("modules_to_not_convert",
                        "experts excluded from MXFP4 are not supported");
  }
  return of_scheme(QuantMethod::Mxfp4,
                   {.format = WeightFormat::Blocks, .bits = 4});
}

std::optional<WeightScheme> read_mlx_scheme(ConfigReader& mlx) {
  if (!has_value(mlx, "mode", {"affine"}, "the mode ",
                 " of MLX is not supported")) {
    return std::nullopt;
  }
  WeightScheme scheme;
  scheme.format = WeightFormat::Mlx;
  scheme.scales = Scales::Group;
  scheme.bits = mlx.bounded("bits", 2, 8, {});
  scheme.group = mlx.bounded("group_size", 1, kMaxGroup, {});
  if (!mlx.ok()) return std::nullopt;
  if (scheme.bits == 7)
    return mlx.refuse("bits", "MLX does not support 7 bits");
  return scheme;
}

// Reads the section of MLX. Keys besides those of a scheme are names of modules
// that have another scheme, or are not converted: false.
std::optional<Quantisation> read_mlx(ConfigReader& mlx) {
  auto scheme = read_mlx_scheme(mlx);
  if (!scheme) return std::nullopt;
  Quantisation result = of_scheme(QuantMethod::Mlx, *std::move(scheme));
  for (size_t i = 0; i < mlx.map().size(); ++i) {
    const std::string key(mlx.map().key(i));
    if (key == "bits" || key == "group_size" || key == "mode") continue;
    const Node value = mlx.map().item(i);
    if (value.boolean() == false) {
      result.named.emplace(key, Quantisation::kPlain);
    } else if (value.boolean() == true) {
      result.named.emplace(key, 0);
    } else if (value.is_map()) {
      auto own = mlx.section(key);
      auto other = own && knows_keys(*own, "bits group_size mode")
                       ? read_mlx_scheme(*own)
                       : std::nullopt;
      if (!other) return std::nullopt;
      result.named.emplace(key, result.groups.size());
      result.groups.push_back({*std::move(other), {}});
    } else {
      return mlx.refuse(key, mlx.shown(key) + " is not supported");
    }
  }
  return result;
}

bool is_mlx(const Node& value) {
  const auto bits = value.is_map() ? value.find("bits") : std::nullopt;
  return bits && bits->integer() && value.find("group_size") &&
         !value.find("quant_method");
}

struct MethodReader {
  std::string_view name;
  QuantMethod method;
  std::optional<Quantisation> (*read)(ConfigReader& section);
};
constexpr MethodReader kMethods[] = {
    {"fp8", QuantMethod::Fp8, nullptr},  // read_fp8() needs the whole config
    {"compressed-tensors", QuantMethod::CompressedTensors,
     read_compressed_tensors},
    {"modelopt", QuantMethod::ModelOpt, read_modelopt},
    {"awq", QuantMethod::Awq, read_awq},
    {"gptq", QuantMethod::Gptq, read_gptq},
    {"bitsandbytes", QuantMethod::Bitsandbytes, read_bitsandbytes},
    {"mxfp4", QuantMethod::Mxfp4, read_mxfp4},
    {"mlx", QuantMethod::Mlx, read_mlx},
    {"torchao", QuantMethod::Torchao, read_torchao},
};

void refuse_key(ConfigReader& config, std::string_view key, const Node& value) {
  const auto method =
      value.is_map() ? value.find("quant_method") : std::nullopt;
  const std::string text = method_text(value);
  const bool unnamed =
      (!method || method->text().empty()) && key != "quantization";
  unsupported(config, key,
              unnamed
                  ? "`" + std::string(key) + "` has no `quant_method`"
                  : "the config is quantised with " +
                        (text.empty() ? "`" + std::string(key) + "`" : text))
      .fact(std::string(kPackedTensors));
}

// Reads the quantisation in the config itself. The method is None if there is
// none.
std::optional<Quantisation> read_own(const Architecture& architecture,
                                     ConfigReader& config, int64_t saved_by) {
  for (const std::string_view key : kKeys) {
    const auto value = config.find(key);
    if (!value) continue;
    const auto name =
        value->is_map() ? value->find("quant_method") : std::nullopt;
    const MethodReader* method = nullptr;
    if (key == "quantization") {
      if (is_mlx(*value)) method = find_named(kMethods, "mlx");
    } else if (name && key != "quant_config" && key != "quantize_config") {
      method = find_named(kMethods, name->text());
      // Only compressed-tensors used `compression_config`, in older versions.
      if (method != nullptr &&
          (method->method == QuantMethod::Mlx ||
           (key == "compression_config" &&
            method->method != QuantMethod::CompressedTensors))) {
        method = nullptr;
      }
    }
    if (method == nullptr) {
      refuse_key(config, key, *value);
      return std::nullopt;
    }
    if (contains(architecture.quantisations_unknown, method->name)) {
      return unsupported(config, key,
                         "architecture " + in_backticks(architecture.name) +
                             " is not supported with " +
                             in_backticks(method->name) + " quantisation");
    }
    auto section = config.section(key);
    if (!section) return std::nullopt;
    auto shared = std::make_shared<ConfigReader>(*std::move(section));
    auto result = method->read == nullptr
                      ? read_fp8(architecture, config, *shared, saved_by)
                      : method->read(*shared);
    if (result) result->section = std::move(shared);
    return result;
  }
  return Quantisation();
}

}  // namespace

std::string_view method_name(QuantMethod method) {
  const auto* const known =
      std::ranges::find(kMethods, method, &MethodReader::method);
  return known == std::end(kMethods) ? "" : known->name;
}

std::optional<QuantMethod> find_method(std::string_view name) {
  const MethodReader* const known = find_named(kMethods, name);
  return known == nullptr ? std::nullopt : std::optional(known->method);
}

std::vector<std::string> known_quantisations(const Architecture& architecture) {
  std::vector<std::string> known = all_names(kMethods);
  std::erase_if(known, [&](const std::string& name) {
    return contains(architecture.quantisations_unknown, name);
  });
  return known;
}

bool read_excluded(ConfigReader& section, std::string_view key,
                   Quantisation& result) {
  const auto list = section.find(key);
  if (!list) return true;
  result.excluded = ModulePatterns::read(section, key, *list);
  result.excluded_key = key;
  return result.excluded.has_value();
}

bool knows_keys(ConfigReader& section, std::string_view known) {
  const Node& map = section.map();
  for (size_t i = 0; i < map.size(); ++i) {
    const std::string_view key = map.key(i);
    const Node value = map.item(i);
    const bool nothing =
        value.is_null() || value.boolean() == false ||
        ((value.is_list() || value.is_map()) && value.size() == 0);
    if (nothing || has_word(known, key)) continue;
    unsupported(
        section, key,
        section.shown(key) + " is not a supported quantisation setting");
    return false;
  }
  return true;
}

std::optional<Quantisation> read_quantisation(const Architecture& architecture,
                                              ConfigReader& config,
                                              int64_t saved_by,
                                              const Document* quantisation_file,
                                              Diagnostics& diags) {
  auto result = read_own(architecture, config, saved_by);
  if (result && result->method == QuantMethod::None &&
      quantisation_file != nullptr) {
    auto section = std::make_shared<ConfigReader>(
        *quantisation_file->root().find("quantization"), "quantization.",
        diags);
    result = read_modelopt_file(*section);
    if (result) result->section = std::move(section);
  }
  if (result) result->saved_by = saved_by;
  return result;
}

std::optional<Quantisation> read_part_quantisation(
    const Architecture& architecture, ConfigReader& part,
    const std::string& key, int64_t saved_by) {
  const auto own = part.find("quantization_config");
  const auto method =
      own && own->is_map() ? own->find("quant_method") : std::nullopt;
  const auto excluded =
      own && own->is_map() ? own->find("ignore") : std::nullopt;
  bool known =
      method && find_method(method->text()) == QuantMethod::CompressedTensors;
  for (size_t i = 0; known && excluded && i < excluded->size(); ++i) {
    const std::string_view name = excluded->item(i).text();
    known = name == "lm_head" || name.starts_with("re:.*");
  }
  if (!known) {
    refuse_quantisation(part);
    return Quantisation();
  }
  auto result = read_own(architecture, part, saved_by);
  if (result) result->of_part = key;
  return result;
}

void refuse_quantisation(ConfigReader& config) {
  for (const std::string_view key : kKeys) {
    if (const auto value = config.find(key)) refuse_key(config, key, *value);
  }
}

}  // namespace shardplan
