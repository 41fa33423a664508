// SPDX-License-Identifier: Apache-2.0
#include "model/architecture/quantisation.h"

#include <algorithm>
#include <utility>

#include "base/text.h"

namespace shardplan {
namespace {

using Method = Quantisation::Method;

constexpr int64_t kMxfp4Block = 32;
constexpr int64_t kMxfp4Bytes = 16;

// Where a config may say that a model is quantised. MLX says `quantization`,
// and repeats it under the other name, which names no method then.
constexpr const char* kKeys[] = {"quantization", "quantization_config",
                                 "compression_config", "quant_config",
                                 "quantize_config"};

// "`awq`", "4 bits in groups of 64" of MLX, which names no method; "" where
// nothing is said.
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

std::optional<Quantisation> read_fp8(ConfigReader fp8) {
  const auto format = fp8.find("fmt");
  if (format && format->text() != "e4m3") {
    return fp8.refuse("fmt", "an FP8 format other than `e4m3` is not known");
  }
  const auto kept = fp8.find("modules_to_not_convert");
  if (kept && kept->size() > 0) {
    return fp8.refuse("modules_to_not_convert",
                      "modules that are kept from FP8 are not known");
  }
  const std::vector<int64_t> sizes = fp8.integers("weight_block_size");
  if (sizes.size() != 2 || sizes[0] < 1 || sizes[1] < 1) {
    return fp8.refuse("weight_block_size",
                      "`weight_block_size` must be two positive sizes");
  }
  return Quantisation{Method::Fp8, sizes[0], sizes[1]};
}

std::optional<Quantisation> read_mxfp4(ConfigReader mxfp4) {
  const auto kept = mxfp4.find("modules_to_not_convert");
  for (size_t i = 0; kept && i < kept->size(); ++i) {
    if (kept->item(i).text().find("experts") == std::string_view::npos) {
      continue;
    }
    return mxfp4.refuse("modules_to_not_convert",
                        "experts that are kept from MXFP4 are not known");
  }
  return Quantisation{Method::Mxfp4, 1, kMxfp4Block};
}

struct MethodRow {
  std::string_view name;
  std::optional<Quantisation> (*read)(ConfigReader section);
};
constexpr MethodRow kMethods[] = {{"fp8", read_fp8}, {"mxfp4", read_mxfp4}};

Shape with(const Shape& front, std::initializer_list<int64_t> rest) {
  Shape shape = front;
  shape.insert(shape.end(), rest);
  return shape;
}

}  // namespace

std::optional<Quantisation> read_quantisation(const Architecture& architecture,
                                              ConfigReader& config) {
  for (const char* key : kKeys) {
    const auto value = config.find(key);
    if (!value) continue;
    const auto method =
        value->is_map() ? value->find("quant_method") : std::nullopt;
    const std::string_view name = method ? method->text() : "";
    const bool known = std::find(architecture.quantisations.begin(),
                                 architecture.quantisations.end(),
                                 name) != architecture.quantisations.end();
    // The one place where methods look for it.
    if (known && std::string_view(key) == "quantization_config") {
      for (const MethodRow& row : kMethods) {
        if (row.name == name) return row.read(*config.section(key));
      }
    }
    const bool own_key = std::string_view(key) != "quantization";
    const std::string text = method_text(*value);
    return config
        .refuse(key,
                own_key && name.empty()
                    ? "`" + std::string(key) + "` names no `quant_method`"
                    : "the config is quantised with " +
                          (text.empty() ? "`" + std::string(key) + "`" : text))
        .fact(std::string(kPackedTensors))
        .help(std::string(kUseTensors));
  }
  return Quantisation();
}

std::optional<std::vector<ModelTensor>> store_weight(
    const LinearWeight& linear, const Quantisation& quantisation,
    ConfigReader& config) {
  const std::string name = linear.name + linear.weight;
  const int64_t out = linear.out;
  const int64_t in = linear.in;
  const auto kinds = [&](std::initializer_list<DimKind> rest) {
    ParameterKind kind = linear.stack_kind;
    kind.insert(kind.end(), rest.begin(), rest.end());
    return kind;
  };
  std::vector<ModelTensor> tensors;
  if (quantisation.method == Method::Fp8 && linear.stack.empty()) {
    tensors.push_back({name,
                       {DType::F8E4M3, {out, in}},
                       false,
                       kinds({linear.out_kind, linear.in_kind})});
    tensors.push_back({name + "_scale_inv",
                       {DType::F32,
                        {ceil_div(out, quantisation.block_rows),
                         ceil_div(in, quantisation.block_columns)}},
                       true});
  } else if (quantisation.method == Method::Mxfp4 && !linear.stack.empty()) {
    if (in % kMxfp4Block != 0) {
      return config.refuse("quantization_config",
                           "sizes are not a multiple of an MXFP4 block of 32");
    }
    const int64_t blocks = in / kMxfp4Block;
    tensors.push_back(
        {name + "_blocks",
         {DType::U8, with(linear.stack, {out, blocks, kMxfp4Bytes})},
         false,
         kinds({linear.out_kind, {}, {}})});
    tensors.push_back({name + "_scales",
                       {DType::U8, with(linear.stack, {out, blocks})},
                       false,
                       kinds({linear.out_kind, {}})});
  } else if (linear.inputs_first) {
    tensors.push_back({name,
                       {linear.dtype, with(linear.stack, {in, out})},
                       false,
                       kinds({linear.in_kind, linear.out_kind})});
  } else {
    tensors.push_back({name,
                       {linear.dtype, with(linear.stack, {out, in})},
                       false,
                       kinds({linear.out_kind, linear.in_kind})});
  }
  return tensors;
}

}  // namespace shardplan
