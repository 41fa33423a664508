// SPDX-License-Identifier: Apache-2.0
// Packed gate and up of a gated feed-forward layer: one tensor, because one
// product is quicker than two.
//
//   [gate; up]         two halves (Phi-3, ChatGLM, Llama 4, Megatron, vLLM);
//                      the first of two shards would be all gates
//   gate, up, gate, .. alternating (gpt-oss): any even number of rows is whole
//
// That a tensor is packed is told by its name, or by its sibling that takes
// half of what it gives. Where its rows are depends on the layout; of stacked
// experts [E, a, b] only the sibling tells.
#include <algorithm>
#include <array>
#include <optional>

#include "resolve/unit_kinds.h"

namespace shardplan {
namespace {

bool is_named_packed(std::string_view module) {
  static constexpr std::array<std::string_view, 7> kNames = {
      "gate_up_proj",
      "gate_up_proj_bias",
      "gate_up_proj_blocks",
      "gate_up_proj_scales",
      "w13",
      "w13_weight",
      "w13_bias"};
  return std::find(kNames.begin(), kNames.end(), module) != kNames.end();
}

// Only gpt-oss has biases and MXFP4 blocks of that name.
bool alternates(std::string_view module, const LayoutHints& hints) {
  return hints.alternating_experts ||
         (module.starts_with("gate_up_proj_") && is_named_packed(module));
}

// Of [E, a, b], from the sibling [E, b or a / 2, a or b].
std::optional<size_t> expert_dim(const Shape& shape, const LayoutHints& hints) {
  const auto is_down = [&](int64_t a, int64_t b) {
    return hints.expert_downs.contains({a, b});
  };
  // [E, in, 2 x inner] beside [E, inner, in], or the transpose of both.
  const bool last = shape[2] % 2 == 0 && is_down(shape[2] / 2, shape[1]);
  const bool second = shape[1] % 2 == 0 && is_down(shape[2], shape[1] / 2);
  if (last == second) return std::nullopt;
  return last ? 2 : 1;
}

std::optional<size_t> stacked_experts_dim(const NamedTensor& tensor,
                                          const LayoutHints& hints) {
  const Shape& shape = tensor.type.shape;
  const std::string_view module = tensor.tail.module;
  if (module.ends_with("_bias") || tensor.tail.leaf == "bias") {
    if (shape.size() != 2) return std::nullopt;
    return 1;
  }
  // MXFP4: rows [E, out, blocks, bytes], scales [E, out, blocks].
  if (module.ends_with("_blocks") || module.ends_with("_scales")) {
    if (shape.size() < 3) return std::nullopt;
    return 1;
  }
  if (shape.size() != 3) return std::nullopt;
  // The sizes of gpt-oss 20B are square: its layout is known by its biases.
  if (hints.alternating_experts) return 2;
  return expert_dim(shape, hints);
}

std::optional<size_t> dense_dim(const NamedTensor& tensor,
                                const LayoutHints& hints) {
  const Shape& shape = tensor.type.shape;
  const std::optional<TensorKind> layout = tensor_kind(tensor.tail);
  const size_t rank = layout == TensorKind::Bias ? 1 : 2;
  if (!layout || shape.size() < rank || shape.size() > rank + 1) {
    return std::nullopt;
  }
  const size_t dim =
      *layout == TensorKind::Weight ? shape.size() - 2 : shape.size() - 1;
  if (is_named_packed(tensor.tail.module)) return dim;
  const auto known = hints.down_inputs.find(down_module(tensor.tail.module));
  if (known == hints.down_inputs.end() || shape[dim] % 2 != 0 ||
      !known->second.contains(shape[dim] / 2) ||
      known->second.contains(shape[dim])) {
    return std::nullopt;
  }
  return dim;
}

}  // namespace

std::optional<Unit> gate_up_unit(const NamedTensor& tensor,
                                 const LayoutHints& hints) {
  const std::string_view module = tensor.tail.module;
  if (!is_named_packed(module) && down_module(module).empty()) {
    return std::nullopt;
  }
  const bool stacked = expert_name(tensor.name).stacked;
  const auto dim =
      stacked ? stacked_experts_dim(tensor, hints) : dense_dim(tensor, hints);
  if (!dim) return std::nullopt;
  const int64_t rows = tensor.type.shape[*dim];
  if (rows < 2 || rows % 2 != 0) return std::nullopt;
  Unit unit;
  unit.dim = static_cast<int>(*dim);
  if (stacked && alternates(module, hints)) {
    unit.kind = UnitKind::GateUpPair;
    unit.count = rows / 2;
  } else {
    unit.kind = UnitKind::PackedGateUp;
    unit.parts = {{"gate", rows / 2, rows / 2, false},
                  {"up", rows / 2, rows / 2, false}};
  }
  return unit;
}

}  // namespace shardplan
