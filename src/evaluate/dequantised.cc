// SPDX-License-Identifier: Apache-2.0
#include "evaluate/dequantised.h"

#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

#include "base/checked.h"
#include "base/text.h"
#include "base/words.h"
#include "core/fold.h"
#include "model/architecture/quantisation.h"
#include "model/forward/parameter_names.h"
#include "model/quant_scales.h"
#include "model/units.h"

namespace shardplan {
namespace {

bool is_plain(DType dtype) {
  return dtype == DType::F64 || dtype == DType::F32 || dtype == DType::F16 ||
         dtype == DType::BF16;
}

// Returns whether `stored` may hold the packed values of `matrix`. All methods
// store 1 to 8 bits per element, in words of at most 8 bytes. Packed values are
// either flat or keep at least one dimension of the matrix.
bool may_stand_for(const TensorType& stored, const TensorType& matrix) {
  if (stored.shape.empty() || matrix.shape.empty()) return false;
  if (stored.shape == matrix.shape) return !is_plain(stored.dtype);
  const bool is_flat = stored.shape.size() == 1 ||
                       (stored.shape.size() == 2 && stored.shape.back() == 1);
  const bool keeps_one = std::ranges::any_of(
      matrix.shape,
      [&](const int64_t size) { return contains(stored.shape, size); });
  if (!is_flat && !keeps_one) return false;
  constexpr int kByte = 8;
  constexpr int kWord = 8 * kByte;
  const Int128 numbers = matrix.elements();
  const Int128 bits = Int128{stored.bytes()} * kByte;
  return bits >= numbers && bits < kByte * numbers + kWord;
}

// The names of the packed values of `layers.0.mlp.up_proj.weight`, by method
// (model/architecture/quantised_tensors.cc): GPTQ and AWQ, compressed-tensors,
// torchao, MXFP4. Other methods keep the weight's own name.
constexpr std::string_view kInputsFirst = "qweight";

std::vector<std::string> packed_names(const std::string& weight) {
  std::vector<std::string> names = {weight, weight + "_blocks"};
  constexpr std::string_view kWeight = "weight";
  if (weight.ends_with(kWeight)) {
    const std::string module = weight.substr(0, weight.size() - kWeight.size());
    names.push_back(module + std::string(kInputsFirst));
    names.push_back(module + "weight_packed");
    names.push_back(module + "_weight_qdata");
  }
  return names;
}

// Returns the parameter of the model that stores a weight; null if none does.
const NamedParameter* find_stored(const ParameterNames& names,
                                  const Manifest& manifest,
                                  const std::string& weight) {
  for (const std::string& name : packed_names(weight)) {
    const NamedParameter* found = names.find(name);
    if (found != nullptr && found->index < manifest.size() && !found->stacked) {
      return found;
    }
  }
  return nullptr;
}

std::nullopt_t refuse_shape(const Manifest& manifest, size_t weight,
                            const TensorType& matrix, Diagnostics& diags) {
  return diags
      .error(Code::UnsupportedConfig, manifest.where(weight),
             in_backticks(manifest.name(weight)) + " is stored as " +
                 type_text(manifest.type(weight)) + ", but its config says " +
                 type_text(matrix))
      .fact(is_plain(manifest.type(weight).dtype)
                ? "the shapes differ, and it is too large to be packed"
                : "packed values use 1 to 8 bits per matrix element, and keep "
                  "one of its dimensions unless they are flat")
      .help("check that the config was saved with these weights");
}

std::nullopt_t refuse_trained(const Manifest& manifest, size_t weight,
                              Diagnostics& diags) {
  return diags
      .error(Code::UnsupportedConfig, manifest.where(weight),
             in_backticks(manifest.name(weight)) + " is stored quantised, as " +
                 type_text(manifest.type(weight)) +
                 ", and training it is not modelled")
      .fact("quantised values have no gradient of their own")
      .help("use `--trainable lora_` to train only the adapters")
      .help(
          "to train the original weights, use the config without the "
          "quantisation");
}

// Refuses these weights: PyTorch's autograd has no gradient for matmuls whose
// inputs are quantised as well: torchao 0.18
// (quantize_/workflows/int8/int8_tensor.py), run with PEFT.
std::nullopt_t refuse_without_gradient(const Manifest& manifest,
                                       std::string_view form,
                                       Diagnostics& diags) {
  return diags
      .error(Code::UnsupportedConfig,
             manifest.where(to_size(quantised_weight(manifest))),
             "no gradient flows through matmuls with " + in_backticks(form) +
                 " weights")
      .fact(
          "adapters of earlier layers would get gradients only through other "
          "adapters")
      .help(
          "quantise only the weights: `Int8WeightOnlyConfig` or "
          "`Float8WeightOnlyConfig`");
}

// Returns, per dimension of a dequantised matrix, the matching dimension of its
// packed values; -1: none.
std::vector<int> stored_dims(std::string_view stored_name, const Shape& stored,
                             const Shape& made) {
  std::vector<int> dims(made.size(), -1);
  const bool is_flat = stored.size() == 2 && stored.back() == 1;
  if (is_flat && made != stored) return dims;
  if (stored.size() != made.size()) {
    if (stored.front() == made.front()) dims.front() = 0;
    return dims;
  }
  for (size_t d = 0; d < dims.size(); ++d) dims[d] = static_cast<int>(d);
  if (stored_name.ends_with(kInputsFirst) && dims.size() >= 2) {
    std::swap(dims[dims.size() - 1], dims[dims.size() - 2]);
  }
  return dims;
}

// Returns the spec of the matrix. Empty if the packed values are sharded in a
// way that the matrix cannot be.
std::optional<PartitionSpec> spec_of(const Mesh& mesh,
                                     const PartitionSpec& stored,
                                     const std::vector<int>& dims,
                                     const Shape& shape) {
  PartitionSpec spec;
  spec.dims.resize(shape.size());
  std::vector<bool> taken(stored.dims.size());
  for (size_t d = 0; d < shape.size(); ++d) {
    if (dims[d] < 0) continue;
    const size_t from = to_size(dims[d]);
    if (from >= stored.dims.size()) continue;
    spec.dims[d] = stored.dims[from];
    taken[from] = true;
  }
  for (size_t d = 0; d < stored.dims.size(); ++d) {
    if (taken[d] || stored.dims[d].empty()) continue;
    if (!std::ranges::all_of(stored.dims[d], is_gathered_axis)) {
      return std::nullopt;
    }
    AxisNames& front = spec.dims.front();
    front.insert(front.end(), stored.dims[d].begin(), stored.dims[d].end());
  }
  // The matrix is gathered before use, so drop gathered axes that do not divide
  // its dimensions.
  for (size_t d = 0; d < shape.size(); ++d) {
    AxisNames& axes = spec.dims[d];
    while (!axes.empty() && is_gathered_axis(axes.back()) &&
           shape[d] % shard_count(mesh, axes) != 0) {
      axes.pop_back();
    }
  }
  return spec;
}

// Returns the elements per device that a matmul reads, after the gather.
Int128 numbers_in_use(const Mesh& mesh, const Placement& placement) {
  int64_t shards = 1;
  for (AxisNames axes : placement.spec.dims) {
    erase_if(axes, is_gathered_axis);
    shards *= shard_count(mesh, axes);
  }
  return Int128{placement.type.elements()} / shards;
}

}  // namespace

std::optional<DequantisedModel> dequantised_model(
    const Manifest& manifest, const Manifest& plain,
    const std::vector<bool>& frozen, Diagnostics& diags) {
  const auto is_frozen = [&](size_t i) { return !frozen.empty() && frozen[i]; };
  const ParameterNames names(manifest);
  DequantisedModel model;
  if (manifest.config != nullptr) {
    const std::string_view form = torchao_form(manifest.config->root());
    if (contains(form, "DynamicActivation")) {
      return refuse_without_gradient(manifest, form, diags);
    }
    model.saves_dequantised = !form.empty();
  }
  model.manifest = Manifest(manifest.head());
  model.manifest.kinds = plain.kinds;
  const auto add = [&](std::string_view name, const TensorType& type,
                       size_t stored, bool dequantised) {
    model.manifest.add(name, type, manifest.where(stored));
    model.stored.push_back(stored);
    model.dequantised.push_back(dequantised);
    model.frozen.push_back(is_frozen(stored));
  };
  std::vector<bool> used(manifest.size());
  for (size_t i = 0; i < plain.size(); ++i) {
    const std::string name = without_outer_modules(std::string(plain.name(i)));
    const NamedParameter* found = find_stored(names, manifest, name);
    if (found == nullptr) {
      return diags
          .error(Code::UnsupportedConfig, {},
                 "no weight of the model stores " +
                     in_backticks(plain.name(i)) + " of its config")
          .fact(
              "quantised weights are matched to the matrices of the config "
              "without the quantisation");
    }
    used[found->index] = true;
    const TensorType& type = manifest.type(found->index);
    if (is_plain(type.dtype) && type.shape == plain.type(i).shape) {
      add(manifest.name(found->index), type, found->index, false);
      continue;
    }
    if (!may_stand_for(type, plain.type(i))) {
      return refuse_shape(manifest, found->index, plain.type(i), diags);
    }
    if (!is_frozen(found->index)) {
      return refuse_trained(manifest, found->index, diags);
    }
    add(plain.name(i), plain.type(i), found->index, true);
  }
  for (size_t i = 0; i < manifest.size(); ++i) {
    if (used[i]) continue;
    if (!adapter_part(manifest.name(i)).empty()) {
      add(manifest.name(i), manifest.type(i), i, false);
    } else if (!is_frozen(i)) {
      return diags.error(Code::UnsupportedConfig, manifest.where(i),
                         in_backticks(manifest.name(i)) +
                             " is trained, but is neither an adapter nor a "
                             "weight that the config describes");
    }
  }
  for (const Manifest::Buffer& buffer : plain.buffers()) {
    model.manifest.add(buffer.name, buffer.type, {}, true);
  }
  return model;
}

std::optional<DequantisedPlan> dequantised_plan(const DequantisedModel& model,
                                                const Manifest& manifest,
                                                const Plan& plan,
                                                Diagnostics& diags) {
  DequantisedPlan result = {plan, {}, 0};
  Plan& made = result.plan;
  made.placements.clear();
  made.placement_of.clear();
  made.declarations = {};
  using Key = std::tuple<uint32_t, uint32_t, std::vector<int>>;
  std::map<Key, uint32_t> known;
  std::vector<Int128> used;  // per placement
  for (size_t i = 0; i < model.manifest.size(); ++i) {
    const size_t from = model.stored[i];
    const Placement& stored = plan.of(from);
    std::vector<int> dims;
    if (model.dequantised[i]) {
      dims = stored_dims(manifest.name(from), stored.type.shape,
                         model.manifest.type(i).shape);
    }
    const Key key = {plan.placement_of[from], model.manifest.type_number(i),
                     dims};
    const auto [at, is_new] =
        known.emplace(key, static_cast<uint32_t>(made.placements.size()));
    made.placement_of.push_back(at->second);
    if (!is_new) continue;
    used.emplace_back(0);
    Placement placement = stored;
    if (model.dequantised[i]) {
      placement = Placement{};
      placement.type = model.manifest.type(i);
      placement.rule = stored.rule;
      placement.dealt = stored.dealt;
      auto spec = spec_of(plan.mesh, stored.spec, dims, placement.type.shape);
      if (!spec) {
        return diags
            .error(Code::UnsupportedConfig, manifest.where(from),
                   "packed values of " + in_backticks(manifest.name(from)) +
                       " are sharded as " + spec_text(stored.spec) +
                       ", which is no shard of the unpacked matrix")
            .help(
                "shard them over an axis that they are gathered over, such as "
                "`fsdp`, or not at all");
      }
      placement.spec = *std::move(spec);
      measure(placement, plan.mesh, plan.on_indivisible);
      used.back() = numbers_in_use(plan.mesh, placement);
      result.largest = std::max(result.largest, used.back());
    }
    made.placements.push_back(std::move(placement));
  }
  for (const uint32_t placement : made.placement_of) {
    result.numbers.push_back(
        part_on_rank(made.placements[placement].dealt, used[placement]));
  }
  return result;
}

std::vector<int64_t> stored_layers(const DequantisedModel& model,
                                   const Manifest& manifest,
                                   const std::vector<int64_t>& layer_of) {
  std::vector<int64_t> layers(manifest.size(), -1);
  std::map<int64_t, int64_t> by_number;
  for (size_t i = 0; i < layer_of.size(); ++i) {
    layers[model.stored[i]] = layer_of[i];
    const NumberIn at = first_number(manifest.name(model.stored[i]));
    if (at.number >= 0 && layer_of[i] >= 0) by_number[at.number] = layer_of[i];
  }
  for (size_t i = 0; i < layers.size(); ++i) {
    if (layers[i] >= 0) continue;
    const auto found = by_number.find(first_number(manifest.name(i)).number);
    if (found != by_number.end()) layers[i] = found->second;
  }
  return layers;
}

}  // namespace shardplan
