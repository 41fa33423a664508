// SPDX-License-Identifier: Apache-2.0
// Finds units by names. The name determines which projection a tensor is; the
// shape must then agree with the facts. The position of the heads depends on
// the layout:
//
//                     q, k, v               output projection
//   weight            [rows, in]            [out, rows]
//   kernel            [in, rows]            [rows, out]
//   kernel, split     [in, heads, dim]      [heads, dim, out]
//   bias              [rows], [heads, dim]  (not sharded)
//
// where rows = heads x dim. Kernels of scanned layers have one more dimension,
// the layers, in first or second place.
//
// llama.cpp permutes the rows of q and k, but only within a head.
//
// Fused projections have the rows of q, k and v, (heads + 2 kv_heads) x dim:
//
//   side by side   all of q, all of k, all of v (GPT-2, Phi-3, DBRX, ChatGLM,
//                  GGUF)
//   in groups      per KV head: its query heads, its key, its value (Falcon,
//                  InternLM2, Megatron; NeoX and BLOOM, whose groups have one
//                  query head)
//
// Stacked experts are [E, ..] with layers in first or second place or, in DBRX,
// the rows of all experts in one matrix [E x inner, hidden].
//
// Gate and up of a gated feed-forward layer may be packed in one tensor,
// because one product is faster than two:
//
//   [gate; up]         two halves (Phi-3, ChatGLM, Llama 4, Megatron, vLLM);
//                      the first of two shards would be all gates
//   gate, up, gate, .. alternating (gpt-oss): any even number of rows is pairs
//
// A tensor is known to be packed by its name, or by its sibling that reads half
// as many inputs as it has outputs. The position of its rows depends on the
// layout; for stacked experts [E, a, b] only the sibling determines it.
#include "model/named_units.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "base/words.h"

namespace shardplan {
namespace {

// The heads of one kind in a projection.
struct Heads {
  UnitKind kind = UnitKind::Head;
  int64_t count = 0;
  int64_t dim = 0;      // size of a head; 0: unknown
  int64_t queries = 0;  // query heads if these are KV heads; 0: unknown

  // Returns whether `rows` are all heads side by side.
  bool fill(int64_t rows) const {
    if (rows < 1 || rows % count != 0) return false;
    return dim == 0 || rows / count == dim;
  }
  Unit at(size_t index) const {
    return {static_cast<int>(index), kind, count, false, {}, queries};
  }
  // Returns the unit of a dimension within a head: any shard splits it.
  Unit within(size_t index) const {
    return {static_cast<int>(index), kind, 1, true};
  }
  // Returns the unit of a dimension that may have all heads side by side.
  std::vector<Unit> side_by_side(const Shape& shape, size_t index) const {
    if (!fill(shape[index])) return {};
    return {at(index)};
  }
};

size_t flat_rank(TensorKind layout) {
  return layout == TensorKind::Bias ? 1 : 2;
}

// Returns the dimension of the outputs of a linear layer or of its bias, either
// of which may have one more dimension, of layers.
std::optional<size_t> output_dim(const Shape& shape, TensorKind layout) {
  const size_t rank = shape.size();
  if (rank < flat_rank(layout) || rank > flat_rank(layout) + 1) return {};
  return layout == TensorKind::Weight ? rank - 2 : rank - 1;
}

// Returns the units of q, k, v and their biases: heads are the last dimensions
// of a kernel or bias, possibly after a dimension of layers.
std::vector<Unit> input_units(const Shape& shape, TensorKind layout,
                              const Heads& heads) {
  const size_t rank = shape.size();
  const size_t flat = flat_rank(layout);
  if (layout == TensorKind::Weight) {
    return rank == flat ? heads.side_by_side(shape, 0) : std::vector<Unit>();
  }
  if (rank < flat) return {};
  if (rank > flat) {
    if (heads.dim == 0 || rank > flat + 2) return {};
    if (shape[rank - 2] == heads.count && shape[rank - 1] == heads.dim) {
      return {heads.at(rank - 2), heads.within(rank - 1)};
    }
    if (rank > flat + 1) return {};
  }
  return heads.side_by_side(shape, rank - 1);
}

// Returns the units of the output projection's kernel: heads are the first
// dimensions, or follow that of layers.
std::vector<Unit> output_kernel_units(const Shape& shape, const Heads& heads) {
  const size_t rank = shape.size();
  if (rank == 2) return heads.side_by_side(shape, 0);
  if (heads.dim == 0) return {};
  if (rank == 3) {
    if (shape[0] == heads.count && shape[1] == heads.dim) {
      return {heads.at(0), heads.within(1)};
    }
    const bool first = heads.fill(shape[0]);
    if (first == heads.fill(shape[1])) return {};  // neither, or ambiguous
    return {heads.at(first ? 0 : 1)};
  }
  if (rank == 4 && shape[2] == heads.dim) {
    const bool first = shape[0] == heads.count;
    if (first == (shape[1] == heads.count)) return {};
    return {heads.at(first ? 0 : 1), heads.within(2)};
  }
  return {};
}

// `conv`: the weight is stored transposed.
std::vector<Unit> output_units(const Shape& shape, TensorKind layout, bool conv,
                               const Heads& heads) {
  if (layout == TensorKind::Bias) return {};  // hidden-sized: it has no heads
  if (!conv && layout == TensorKind::Kernel) {
    return output_kernel_units(shape, heads);
  }
  if (shape.size() != 2) return {};
  return heads.side_by_side(shape,
                            conv == (layout == TensorKind::Weight) ? 0 : 1);
}

std::vector<Unit> projection_units(Role role, TensorKind layout,
                                   const Shape& shape, const Facts& facts) {
  const bool kv = role == Role::Key || role == Role::Value;
  Heads heads{kv ? UnitKind::KvHead : UnitKind::Head,
              (kv ? facts.kv_heads : facts.heads).value_or(0)};
  if (heads.count < 1 || facts.head_dim.value_or(1) < 1 ||
      facts.value_dim.value_or(1) < 1) {
    return {};
  }
  if (role == Role::Query || role == Role::Key) {
    heads.dim = facts.head_dim.value_or(0);
  } else if (role != Role::LatentUp) {
    heads.dim = facts.value_dim ? *facts.value_dim : facts.head_dim.value_or(0);
  }
  if (kv) heads.queries = facts.heads.value_or(0);
  if (role == Role::Output || role == Role::ConvOutput) {
    // GPTBigCode's `c_proj` is an ordinary linear layer; it has one KV head.
    const bool conv = role == Role::ConvOutput;
    if (conv && facts.kv_heads.value_or(heads.count) != heads.count) return {};
    return output_units(shape, layout, conv, heads);
  }
  return input_units(shape, layout, heads);
}

enum class Fusion : uint8_t { SideBySide, Grouped };

std::optional<Fusion> fusion_of(const NamedTensor& tensor) {
  // llama.cpp reorders grouped projections, so `attn_qkv` is side by side.
  static constexpr std::array<std::string_view, 7> kSideBySide = {
      "c_attn", "qkv_proj", "Wqkv", "W_pack", "wqkv", "attn_qkv", "qkv"};
  const std::string_view module = tensor.tail.module;
  // ChatGLM2 and later use Falcon's name for another layout; InternLM2 uses
  // that of the original Llama code.
  if (module == "query_key_value") {
    return contains(tensor.name, "transformer.encoder.layers")
               ? Fusion::SideBySide
               : Fusion::Grouped;
  }
  if (module == "linear_qkv" ||
      (module == "wqkv" && contains(tensor.name, "model.layers"))) {
    return Fusion::Grouped;
  }
  if (!contains(kSideBySide, module)) return std::nullopt;
  return Fusion::SideBySide;
}

// Returns the dimension of a fused projection that contains the rows.
std::optional<size_t> fused_dim(const NamedTensor& tensor, TensorKind layout,
                                int64_t rows) {
  const Shape& shape = tensor.type.shape;
  if (tensor.tail.module == "c_attn" && layout != TensorKind::Bias) {
    // [in, out] in GPT-2, [out, in] in Qwen, GPTBigCode and Flax.
    if (shape.size() != 2 || (shape[0] == rows) == (shape[1] == rows)) {
      return std::nullopt;
    }
    return shape[0] == rows ? 0 : 1;
  }
  const auto dim = output_dim(shape, layout);
  return dim && shape[*dim] == rows ? dim : std::nullopt;
}

std::vector<Unit> fused_units(const NamedTensor& tensor, Fusion fusion,
                              TensorKind layout, const Facts& facts) {
  const int64_t heads = facts.heads.value_or(0);
  const int64_t kv_heads = facts.kv_heads.value_or(heads);
  const int64_t dim = facts.head_dim.value_or(0);
  // Far above any model, and no product of these overflows.
  constexpr int64_t kMost = int64_t{1} << 20;
  if (heads < 1 || kv_heads < 1 || dim < 1 || heads > kMost || dim > kMost ||
      kv_heads > heads || heads % kv_heads != 0 ||
      facts.value_dim.value_or(dim) != dim) {
    return {};
  }
  const auto at = fused_dim(tensor, layout, (heads + 2 * kv_heads) * dim);
  if (!at) return {};
  Unit unit{static_cast<int>(*at), UnitKind::HeadGroup, kv_heads};
  unit.queries = heads;
  // With a single KV head, the only group is q, k and v side by side.
  if (fusion == Fusion::SideBySide || kv_heads == 1) {
    unit.kind = UnitKind::FusedQkv;
    unit.count = 1;
    unit.parts = {{"q", heads * dim, heads, false},
                  {"k", kv_heads * dim, kv_heads, true},
                  {"v", kv_heads * dim, kv_heads, true}};
  }
  return {unit};
}

// Returns the dimension of stacked experts that is the experts.
std::optional<size_t> expert_dim(const NamedTensor& tensor, int64_t experts) {
  const Shape& shape = tensor.type.shape;
  const TensorName& tail = tensor.tail;
  // DBRX: `ffn.experts.mlp.w1`, `v1` and `w2`.
  if (shape.size() == 2 && tail.parent == "mlp" &&
      (tail.module == "w1" || tail.module == "v1" || tail.module == "w2")) {
    const bool whole = shape[0] >= experts && shape[0] % experts == 0;
    return whole ? std::optional<size_t>(0) : std::nullopt;
  }
  const size_t least = tail.leaf.ends_with("bias") ? 2 : 3;
  if (shape.size() < least) return std::nullopt;
  const bool first = shape[0] == experts;
  const bool second = shape[1] == experts && shape.size() > least;
  if (first == second) return std::nullopt;
  return first ? 0 : 1;
}

bool is_named_packed(std::string_view module) {
  static constexpr std::array<std::string_view, 7> kNames = {
      "gate_up_proj",
      "gate_up_proj_bias",
      "gate_up_proj_blocks",
      "gate_up_proj_scales",
      "w13",
      "w13_weight",
      "w13_bias"};
  return contains(kNames, module);
}

// Returns whether gate and up alternate in experts. Only gpt-oss has biases and
// MXFP4 blocks of that name.
bool alternates(std::string_view module, const LayoutHints& hints) {
  return hints.alternating_experts ||
         (module.starts_with("gate_up_proj_") && is_named_packed(module));
}

// Returns the packed dimension of stacked experts.
std::optional<size_t> packed_expert_dim(const NamedTensor& tensor,
                                        const LayoutHints& hints) {
  const Shape& shape = tensor.type.shape;
  const std::string_view module = tensor.tail.module;
  const bool is_bias = module.ends_with("_bias") || tensor.tail.leaf == "bias";
  // MXFP4: rows [E, out, blocks, bytes], scales [E, out, blocks].
  if (is_bias || module.ends_with("_blocks") || module.ends_with("_scales")) {
    const bool fits = is_bias ? shape.size() == 2 : shape.size() >= 3;
    return fits ? std::optional<size_t>(1) : std::nullopt;
  }
  if (shape.size() != 3) return std::nullopt;
  // The sizes of gpt-oss 20B are square: its layout is known by its biases.
  if (hints.alternating_experts) return 2;
  const auto is_down = [&](int64_t a, int64_t b) {
    return hints.expert_downs.contains({a, b});
  };
  // [E, in, 2 x inner] with [E, inner, in], or the transpose of both.
  const bool last = shape[2] % 2 == 0 && is_down(shape[2] / 2, shape[1]);
  const bool second = shape[1] % 2 == 0 && is_down(shape[2], shape[1] / 2);
  if (last == second) return std::nullopt;
  return last ? 2 : 1;
}

// Returns the packed dimension of a dense layer.
std::optional<size_t> packed_dense_dim(const NamedTensor& tensor,
                                       const LayoutHints& hints) {
  const Shape& shape = tensor.type.shape;
  const std::optional<TensorKind> layout = tensor_kind(tensor.tail);
  const auto dim = layout ? output_dim(shape, *layout) : std::nullopt;
  if (!dim || is_named_packed(tensor.tail.module)) return dim;
  const auto known = hints.down_inputs.find(down_module(tensor.tail.module));
  const bool packed = known != hints.down_inputs.end() &&
                      shape[*dim] % 2 == 0 &&
                      known->second.contains(shape[*dim] / 2) &&
                      !known->second.contains(shape[*dim]);
  return packed ? dim : std::nullopt;
}

// Returns packed gate and up, concatenated or alternating.
std::optional<Unit> gate_up_unit(const NamedTensor& tensor, bool stacked,
                                 const LayoutHints& hints) {
  const std::string_view module = tensor.tail.module;
  if (!is_named_packed(module) && down_module(module).empty()) {
    return std::nullopt;
  }
  const auto dim = stacked ? packed_expert_dim(tensor, hints)
                           : packed_dense_dim(tensor, hints);
  if (!dim) return std::nullopt;
  const int64_t rows = tensor.type.shape[*dim];
  if (rows < 2 || rows % 2 != 0) return std::nullopt;
  Unit unit{static_cast<int>(*dim), UnitKind::GateUpPair, rows / 2};
  if (!stacked || !alternates(module, hints)) {
    unit.kind = UnitKind::PackedGateUp;
    unit.count = 1;
    unit.parts = {{"gate", rows / 2, rows / 2, false},
                  {"up", rows / 2, rows / 2, false}};
  }
  return unit;
}

}  // namespace

std::vector<Unit> attention_units(const NamedTensor& tensor,
                                  const Facts& facts) {
  if (in_other_tower(tensor.name)) return {};
  const Shape& shape = tensor.type.shape;
  if (tensor.tail.module == "sinks" && facts.heads && *facts.heads > 0 &&
      shape == Shape{*facts.heads}) {
    return {{0, UnitKind::Head, *facts.heads}};
  }
  const std::optional<TensorKind> layout = tensor_kind(tensor.tail);
  if (!layout) return {};
  if (const std::optional<Role> role = role_of(tensor.tail)) {
    return projection_units(*role, *layout, shape, facts);
  }
  const std::optional<Fusion> fusion = fusion_of(tensor);
  if (!fusion) return {};
  return fused_units(tensor, *fusion, *layout, facts);
}

void add_expert_units(size_t dim, int64_t experts, const Facts& facts,
                      std::vector<Unit>& units) {
  const int index = static_cast<int>(dim);
  units.push_back({index, UnitKind::Expert, experts});
  const int64_t groups = facts.expert_groups.value_or(1);
  if (groups > 1 && experts % groups == 0) {
    units.push_back({index, UnitKind::ExpertGroup, groups});
  }
}

std::vector<Unit> named_units(const NamedTensor& tensor, const Facts& facts,
                              const LayoutHints& hints) {
  std::vector<Unit> units;
  const bool stacked = expert_name(tensor.name).stacked;
  const int64_t experts = facts.experts.value_or(0);
  if (in_attention(tensor.tail)) {
    units = attention_units(tensor, facts);
  } else if (experts > 0 && stacked) {
    const auto dim = expert_dim(tensor, experts);
    if (dim) add_expert_units(*dim, experts, facts, units);
  }
  if (const auto packed = gate_up_unit(tensor, stacked, hints)) {
    units.push_back(*packed);
  }
  return units;
}

}  // namespace shardplan
