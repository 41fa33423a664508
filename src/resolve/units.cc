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
#include "resolve/units.h"

#include <optional>

#include "resolve/tensor_name.h"

namespace shardplan {
namespace {

// The heads that a projection has, of one kind.
struct Heads {
  UnitKind kind = UnitKind::Head;
  int64_t count = 0;
  int64_t dim = 0;  // size of a head; 0: unknown

  // Whether `rows` are all heads side by side.
  bool fill(int64_t rows) const {
    if (rows < 1 || rows % count != 0) return false;
    return dim == 0 || rows / count == dim;
  }
  Unit at(size_t index) const { return {static_cast<int>(index), kind, count}; }
  // A dimension within a head: any cut splits it.
  Unit within(size_t index) const { return {static_cast<int>(index), kind, 1}; }
};

// q, k, v and their biases: heads end the shape of a kernel or bias, with or
// without a dimension for the layers before them.
std::vector<Unit> input_units(const Shape& shape, Layout layout,
                              const Heads& heads) {
  const size_t rank = shape.size();
  if (layout == Layout::Weight) {
    if (rank != 2 || !heads.fill(shape[0])) return {};
    return {heads.at(0)};
  }
  const size_t flat_rank = layout == Layout::Bias ? 1 : 2;
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

std::vector<Unit> output_units(const Shape& shape, Layout layout, bool conv,
                               const Heads& heads) {
  if (layout == Layout::Bias) return {};  // hidden-sized: no heads in it
  if (!conv && layout == Layout::Kernel) {
    return output_kernel_units(shape, heads);
  }
  const size_t dim = conv == (layout == Layout::Weight) ? 0 : 1;
  if (shape.size() != 2 || !heads.fill(shape[dim])) return {};
  return {heads.at(dim)};
}

std::vector<Unit> attention_units(Role role, Layout layout, const Shape& shape,
                                  const ModelFacts& facts) {
  const bool kv = role == Role::Key || role == Role::Value;
  Heads heads{kv ? UnitKind::KvHead : UnitKind::Head,
              (kv ? facts.kv_heads : facts.heads).value_or(0), 0};
  if (heads.count < 1 || facts.head_dim.value_or(1) < 1) return {};
  if (role != Role::LatentUp) heads.dim = facts.head_dim.value_or(0);
  if (role == Role::Output || role == Role::ConvOutput) {
    // GPTBigCode's `c_proj` is an ordinary linear layer; it has one KV head.
    const bool conv = role == Role::ConvOutput;
    if (conv && facts.kv_heads.value_or(heads.count) != heads.count) return {};
    return output_units(shape, layout, conv, heads);
  }
  return input_units(shape, layout, heads);
}

// Where stacked experts [E, ..] have their experts; layers may stand before.
std::optional<int> expert_dim(const TensorType& type, const TensorName& tail,
                              int64_t experts) {
  const Shape& shape = type.shape;
  const bool bias = tail.leaf.ends_with("bias");
  if (experts < 1 || shape.size() < (bias ? 2U : 3U)) return std::nullopt;
  const bool first = shape[0] == experts;
  const bool second = shape[1] == experts && shape.size() > (bias ? 2U : 3U);
  if (first == second) return std::nullopt;
  return first ? 0 : 1;
}

}  // namespace

std::string_view unit_name(UnitKind kind) {
  switch (kind) {
    case UnitKind::Head:
      return "head";
    case UnitKind::KvHead:
      return "KV head";
    case UnitKind::Expert:
      break;
  }
  return "expert";
}

std::vector<Unit> units_of(std::string_view name, const TensorType& type,
                           const ModelFacts& facts) {
  const TensorName tail = split_name(name);
  const Shape& shape = type.shape;
  if (is_attention(tail.parent)) {
    if (in_other_tower(name)) return {};
    if (tail.module == "sinks" && facts.heads && *facts.heads > 0 &&
        shape == Shape{*facts.heads}) {
      return {{0, UnitKind::Head, *facts.heads}};
    }
    const std::optional<Role> role = role_of(tail);
    const std::optional<Layout> layout = layout_of(tail);
    if (!role || !layout) return {};
    return attention_units(*role, *layout, shape, facts);
  }
  if (facts.experts && expert_name(name).stacked) {
    if (const auto dim = expert_dim(type, tail, *facts.experts)) {
      return {{*dim, UnitKind::Expert, *facts.experts}};
    }
  }
  return {};
}

}  // namespace shardplan
