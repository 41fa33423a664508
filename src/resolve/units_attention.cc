// SPDX-License-Identifier: Apache-2.0
// A name says which projection a tensor is; the shape must then agree with the
// facts. Where heads stand depends on the layout:
//
//                     q, k, v               output projection
//   weight            [rows, in]            [out, rows]
//   kernel            [in, rows]            [rows, out]
//   kernel, split     [in, heads, dim]      [heads, dim, out]
//   bias              [rows], [heads, dim]  (not cut)
//
// with rows = heads x dim. Kernels of scanned layers have one more dimension,
// the layers, in front or second.
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
#include <array>
#include <optional>
#include <utility>

#include "resolve/unit_kinds.h"

namespace shardplan {
namespace {

// The heads that a projection has, of one kind.
struct Heads {
  UnitKind kind = UnitKind::Head;
  int64_t count = 0;
  int64_t dim = 0;      // size of a head; 0: unknown
  int64_t queries = 0;  // query heads, beside KV heads; 0: unknown

  // Whether `rows` are all heads side by side.
  bool fill(int64_t rows) const {
    if (rows < 1 || rows % count != 0) return false;
    return dim == 0 || rows / count == dim;
  }
  Unit at(size_t index) const {
    return {static_cast<int>(index), kind, count, false, {}, queries};
  }
  // A dimension within a head: any cut splits it.
  Unit within(size_t index) const {
    return {static_cast<int>(index), kind, 1, true};
  }
};

// q, k, v and their biases: heads end the shape of a kernel or bias, with or
// without a dimension for the layers before them.
std::vector<Unit> input_units(const Shape& shape, TensorKind layout,
                              const Heads& heads) {
  const size_t rank = shape.size();
  if (layout == TensorKind::Weight) {
    if (rank != 2 || !heads.fill(shape[0])) return {};
    return {heads.at(0)};
  }
  const size_t flat_rank = layout == TensorKind::Bias ? 1 : 2;
  if (rank < flat_rank) return {};
  if (rank == flat_rank) {
    if (!heads.fill(shape[rank - 1])) return {};
    return {heads.at(rank - 1)};
  }
  if (heads.dim == 0 || rank > flat_rank + 2) return {};
  if (shape[rank - 2] == heads.count && shape[rank - 1] == heads.dim) {
    return {heads.at(rank - 2), heads.within(rank - 1)};
  }
  if (rank == flat_rank + 1 && heads.fill(shape[rank - 1])) {
    return {heads.at(rank - 1)};
  }
  return {};
}

// The output projection's kernel: heads start the shape, or follow the layers.
std::vector<Unit> output_kernel_units(const Shape& shape, const Heads& heads) {
  const size_t rank = shape.size();
  if (rank == 2 && heads.fill(shape[0])) return {heads.at(0)};
  if (heads.dim == 0) return {};
  if (rank == 3) {
    if (shape[0] == heads.count && shape[1] == heads.dim) {
      return {heads.at(0), heads.within(1)};
    }
    const bool first = heads.fill(shape[0]);
    if (first == heads.fill(shape[1])) return {};  // neither, or no telling
    return {heads.at(first ? 0 : 1)};
  }
  if (rank == 4 && shape[2] == heads.dim) {
    const bool first = shape[0] == heads.count;
    if (first == (shape[1] == heads.count)) return {};
    return {heads.at(first ? 0 : 1), heads.within(2)};
  }
  return {};
}

std::vector<Unit> output_units(const Shape& shape, TensorKind layout, bool conv,
                               const Heads& heads) {
  if (layout == TensorKind::Bias) return {};  // hidden-sized: no heads in it
  if (!conv && layout == TensorKind::Kernel) {
    return output_kernel_units(shape, heads);
  }
  const size_t dim = conv == (layout == TensorKind::Weight) ? 0 : 1;
  if (shape.size() != 2 || !heads.fill(shape[dim])) return {};
  return {heads.at(dim)};
}

std::vector<Unit> projection_units(Role role, TensorKind layout,
                                   const Shape& shape,
                                   const ModelFacts& facts) {
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
  static constexpr std::array<std::pair<std::string_view, Fusion>, 9> kNames = {
      {{"c_attn", Fusion::SideBySide},
       {"qkv_proj", Fusion::SideBySide},
       {"Wqkv", Fusion::SideBySide},
       {"W_pack", Fusion::SideBySide},
       {"wqkv", Fusion::SideBySide},
       {"query_key_value", Fusion::Grouped},
       {"linear_qkv", Fusion::Grouped},
       {"attn_qkv", Fusion::SideBySide},  // llama.cpp reorders all others
       {"qkv", Fusion::SideBySide}}};
  const std::string_view module = tensor.tail.module;
  const auto has = [&](std::string_view part) {
    return tensor.name.find(part) != tensor.name.npos;
  };
  // ChatGLM2 and later have Falcon's name for another layout, InternLM2 has
  // that of the original Llama code.
  if (module == "query_key_value" && has("transformer.encoder.layers")) {
    return Fusion::SideBySide;
  }
  if (module == "wqkv" && has("model.layers")) return Fusion::Grouped;
  for (const auto& [name, fusion] : kNames) {
    if (name == module) return fusion;
  }
  return std::nullopt;
}

// The dimension of a fused projection that has the rows.
std::optional<size_t> fused_dim(const NamedTensor& tensor, TensorKind layout,
                                int64_t rows) {
  const Shape& shape = tensor.type.shape;
  const size_t rank = shape.size();
  if (tensor.tail.module == "c_attn" && layout != TensorKind::Bias) {
    // [in, out] in GPT-2, [out, in] in Qwen, GPTBigCode and Flax.
    if (rank != 2 || (shape[0] == rows) == (shape[1] == rows)) {
      return std::nullopt;
    }
    return shape[0] == rows ? 0 : 1;
  }
  const size_t flat_rank = layout == TensorKind::Bias ? 1 : 2;
  if (rank < flat_rank || rank > flat_rank + 1) return std::nullopt;
  const size_t dim = layout == TensorKind::Weight ? rank - 2 : rank - 1;
  if (shape[dim] != rows) return std::nullopt;
  return dim;
}

std::vector<Unit> fused_units(const NamedTensor& tensor, Fusion fusion,
                              TensorKind layout, const ModelFacts& facts) {
  const int64_t heads = facts.heads.value_or(0);
  const int64_t kv_heads = facts.kv_heads.value_or(heads);
  const int64_t dim = facts.head_dim.value_or(0);
  // Far above any model, and no product of them overflows.
  constexpr int64_t kMost = int64_t{1} << 20;
  if (heads < 1 || kv_heads < 1 || dim < 1 || heads > kMost || dim > kMost ||
      kv_heads > heads || heads % kv_heads != 0 ||
      facts.value_dim.value_or(dim) != dim) {
    return {};
  }
  const auto at = fused_dim(tensor, layout, (heads + 2 * kv_heads) * dim);
  if (!at) return {};
  Unit unit;
  unit.dim = static_cast<int>(*at);
  unit.queries = heads;
  // One KV head for all: a single group is q, k and v side by side.
  if (fusion == Fusion::Grouped && kv_heads > 1) {
    unit.kind = UnitKind::HeadGroup;
    unit.count = kv_heads;
  } else {
    unit.kind = UnitKind::FusedQkv;
    unit.parts = {{"q", heads * dim, heads, false},
                  {"k", kv_heads * dim, kv_heads, true},
                  {"v", kv_heads * dim, kv_heads, true}};
  }
  return {unit};
}

}  // namespace

std::vector<Unit> attention_units(const NamedTensor& tensor,
                                  const ModelFacts& facts) {
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

}  // namespace shardplan
