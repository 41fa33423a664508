// SPDX-License-Identifier: Apache-2.0
#include "model/adapter_units.h"

#include <algorithm>
#include <string>

#include "core/fold.h"

namespace shardplan {
namespace {

struct Adapter {
  std::string_view layer;  // "model.layers.0.self_attn.q_proj"
  bool is_output = false;  // it is lora_B
};

// Parses `q_proj.lora_B.weight`, `q_proj.lora_B.default.weight`.
std::optional<Adapter> adapter_of(std::string_view name) {
  const size_t at = name.rfind(".lora_");
  if (at == std::string_view::npos || !name.ends_with(".weight")) {
    return std::nullopt;
  }
  const std::string_view part = name.substr(at + 1);
  const bool is_output = part.starts_with("lora_B.");
  if (!is_output && !part.starts_with("lora_A.")) return std::nullopt;
  if (std::ranges::count(part, '.') > 2) return std::nullopt;
  return Adapter{name.substr(0, at), is_output};
}

// Returns the architecture's explanation of the adapted weight; null if there
// is none.
const ParameterKinds::value_type* kind_of_layer(const std::string& layer,
                                                const LayoutHints& hints) {
  if (hints.kinds == nullptr) return nullptr;
  for (const char* end : {".base_layer.weight", ".weight"}) {
    const std::string name = folded_name(layer + end);
    const auto found = hints.kinds->lower_bound({name, Shape{}});
    if (found != hints.kinds->end() && found->first.first == name &&
        found->second.size() == 2) {
      return &*found;
    }
  }
  return nullptr;
}

}  // namespace

std::optional<std::vector<Unit>> adapter_units(std::string_view name,
                                               const TensorType& type,
                                               const Facts& facts,
                                               const LayoutHints& hints) {
  const std::optional<Adapter> adapter = adapter_of(name);
  if (!adapter) return std::nullopt;
  std::vector<Unit> units;
  if (type.shape.size() != 2) return units;
  const std::string layer(adapter->layer);
  const size_t dim = adapter->is_output ? 0 : 1;
  if (const auto* of = kind_of_layer(layer, hints)) {
    // A weight of GPT-2 is stored transposed.
    const auto& [known, kind] = *of;
    const TensorName tail = split_name(known.first);
    const bool turned = role_of(tail) == Role::ConvOutput ||
                        known.second[dim] != type.shape[dim];
    const size_t own = turned ? 1 - dim : dim;
    if (known.second[own] != type.shape[dim]) return units;
    ParameterKind two(2);
    two[dim] = kind[own];
    units = units_of_kind(two, type, facts);
  } else {
    const std::string weight = layer + ".weight";
    const NamedTensor tensor{weight, split_name(weight), type};
    if (in_attention(tensor.tail)) units = attention_units(tensor, facts);
  }
  // The rank may happen to equal the size of a unit's dimension.
  std::erase_if(units, [&](const Unit& unit) {
    return unit.dim != static_cast<int>(dim);
  });
  return units;
}

}  // namespace shardplan
