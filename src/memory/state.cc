// SPDX-License-Identifier: Apache-2.0
#include "memory/state.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

#include "memory/zero.h"

namespace shardplan {
namespace {

// In the order of the enumerations.
constexpr std::array<std::string_view, 7> kOptimizers = {
    "none", "adamw", "adafactor", "lion", "sgd", "sgd-momentum", "muon"};
constexpr std::array<std::string_view, 4> kZeroStyles = {"jax", "deepspeed",
                                                         "fsdp2", "megatron"};

template <typename T, size_t N>
std::optional<T> find(const std::array<std::string_view, N>& names,
                      std::string_view name) {
  const auto* const found = std::find(names.begin(), names.end(), name);
  if (found == names.end()) return std::nullopt;
  return static_cast<T>(found - names.begin());
}

// optax's adafactor factors from this size on.
constexpr int64_t kLeastFactored = 128;

// The second largest and the largest dimension, as numpy.argsort orders them
// (stable, so of equal ones the later counts as larger).
std::optional<std::pair<size_t, size_t>> factored_dims(const Shape& shape) {
  if (shape.size() < 2) return std::nullopt;
  std::vector<size_t> order(shape.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return shape[a] < shape[b]; });
  const size_t second = order[order.size() - 2];
  if (shape[second] < kLeastFactored) return std::nullopt;
  return std::pair(second, order.back());
}

RoleType without(std::string_view role, TensorType type, size_t dim) {
  type.shape.erase(type.shape.begin() + static_cast<std::ptrdiff_t>(dim));
  return {role, std::move(type), static_cast<int>(dim)};
}

std::vector<RoleType> adafactor_roles(const TensorType& full) {
  const RoleType none = {"", {full.dtype, {1}}, -1, true};
  const auto named = [&](std::string_view role) {
    RoleType placeholder = none;
    placeholder.role = role;
    return placeholder;
  };
  const auto dims = factored_dims(full.shape);
  if (!dims) return {named("v_row"), named("v_col"), {"v", full}};
  return {without("v_row", full, dims->second),
          without("v_col", full, dims->first), named("v")};
}

// The parameter's spec for a leaf that lacks one of its dimensions.
PartitionSpec spec_for(const RoleType& role, PartitionSpec spec) {
  if (role.placeholder) return {};
  if (role.removed >= 0 &&
      static_cast<size_t>(role.removed) < spec.dims.size()) {
    spec.dims.erase(spec.dims.begin() + role.removed);
    if (names_no_axis(spec)) spec.dims.clear();
  }
  return spec;
}

// Bytes of a leaf of a parameter whose logical shape this is.
int64_t logical_bytes(const RoleType& role, Shape shape) {
  if (role.placeholder) return role.type.bytes();
  if (role.removed >= 0) shape.erase(shape.begin() + role.removed);
  return TensorType{role.type.dtype, std::move(shape)}.bytes();
}

bool has_master(DType stored, const StateOptions& options) {
  if (options.no_master || options.optimizer == Optimizer::None) return false;
  return is_narrower(stored, options.master_dtype.value_or(DType::F32));
}

DType moment_dtype(DType stored, const StateOptions& options) {
  const DType wide = stored == DType::F64 ? DType::F64 : DType::F32;
  return options.moment_dtype.value_or(wide);
}

}  // namespace

std::string_view optimizer_name(Optimizer optimizer) {
  return kOptimizers.at(static_cast<size_t>(optimizer));
}
std::optional<Optimizer> find_optimizer(std::string_view name) {
  return find<Optimizer>(kOptimizers, name);
}
std::span<const std::string_view> optimizer_names() { return kOptimizers; }

std::string_view zero_style_name(ZeroStyle style) {
  return kZeroStyles.at(static_cast<size_t>(style));
}
std::optional<ZeroStyle> find_zero_style(std::string_view name) {
  return find<ZeroStyle>(kZeroStyles, name);
}
std::span<const std::string_view> zero_style_names() { return kZeroStyles; }

int64_t StateLeaf::padding_bytes(int64_t devices) const {
  const Int128 stored = static_cast<Int128>(bytes_per_device) * devices;
  return static_cast<int64_t>(stored -
                              static_cast<Int128>(logical_bytes) * replicas);
}

bool is_trainable(DType dtype) {
  switch (dtype) {
    case DType::F64:
    case DType::F32:
    case DType::F16:
    case DType::BF16:
    case DType::F8E4M3:
    case DType::F8E5M2:
    case DType::F8E4M3FN:
    case DType::F8E4M3FNUZ:
    case DType::F8E5M2FNUZ:
      return true;
    default:
      return false;
  }
}

TensorType stored_type(const TensorType& type, const StateOptions& options) {
  if (!options.param_dtype || !is_trainable(type.dtype)) return type;
  return {*options.param_dtype, type.shape};
}

std::vector<RoleType> optimizer_roles(const TensorType& stored,
                                      const StateOptions& options) {
  if (!is_trainable(stored.dtype)) return {};
  const TensorType full = {moment_dtype(stored.dtype, options), stored.shape};
  switch (options.optimizer) {
    case Optimizer::None:
    case Optimizer::Sgd:
      return {};
    case Optimizer::AdamW:
      return {{"mu", full}, {"nu", full}};
    case Optimizer::Lion:
      return {{"mu", full}};
    case Optimizer::SgdMomentum:
      return {{"trace", full}};
    case Optimizer::Muon:
      if (full.shape.size() == 2) return {{"mu", full}};
      return {{"mu", full}, {"nu", full}};
    case Optimizer::Adafactor:
      return adafactor_roles(full);
  }
  return {};
}

std::vector<StateLeaf> state_leaves(const Placement& placement,
                                    const Mesh& mesh, OnIndivisible policy,
                                    const StateOptions& options,
                                    const RoleSpecs* specs) {
  const TensorType stored =
      stored_type({placement.type.dtype, stored_shape(placement)}, options);
  const Shape& shape = stored.shape;
  const Shape& logical = placement.type.shape;
  std::vector<StateLeaf> leaves;
  const auto add = [&](StateKind kind, RoleType role, PartitionSpec spec) {
    StateLeaf leaf;
    leaf.kind = kind;
    leaf.role = role.role;
    leaf.logical_bytes = logical_bytes(role, logical);
    leaf.type = std::move(role.type);
    leaf.spec = std::move(spec);
    if (!role.placeholder) apply_zero(leaf, mesh, policy, options);
    measure_leaf(leaf, mesh, policy);
    leaves.push_back(std::move(leaf));
  };
  const PartitionSpec& spec = placement.spec;
  add(StateKind::Parameter, {"param", stored}, spec);
  if (options.optimizer == Optimizer::None || !is_trainable(stored.dtype)) {
    return leaves;
  }
  const DType grad = options.grad_dtype.value_or(stored.dtype);
  add(StateKind::Gradient, {"grad", {grad, shape}}, spec);
  if (has_master(stored.dtype, options)) {
    const DType master = options.master_dtype.value_or(DType::F32);
    add(StateKind::Master, {"master", {master, shape}}, spec);
  }
  for (RoleType& role : optimizer_roles(stored, options)) {
    PartitionSpec own = spec_for(role, spec);
    if (specs != nullptr && !role.placeholder) {
      const auto found = specs->find(role.role);
      if (found != specs->end()) own = found->second;
    }
    add(StateKind::Optimizer, std::move(role), std::move(own));
  }
  return leaves;
}

std::vector<StateLeaf> optimizer_counters(const Mesh& mesh,
                                          const StateOptions& options) {
  std::vector<StateLeaf> leaves;
  const auto add = [&](std::string_view role, TensorType type) {
    StateLeaf leaf;
    leaf.kind = StateKind::Optimizer;
    leaf.role = role;
    leaf.type = std::move(type);
    leaf.logical_bytes = leaf.type.bytes();
    measure_leaf(leaf, mesh, OnIndivisible::Drop);
    leaves.push_back(std::move(leaf));
  };
  switch (options.optimizer) {
    case Optimizer::None:
    case Optimizer::Sgd:
    case Optimizer::SgdMomentum:
      break;
    case Optimizer::AdamW:
    case Optimizer::Lion:
    case Optimizer::Adafactor:
      add("count", {DType::I32, {}});
      break;
    case Optimizer::Muon:  // beside it adamw, for other ranks than 2
      add("count", {DType::I32, {}});
      add("count", {DType::I32, {}});
      add("ns_coeffs", {DType::F32, {3}});
      break;
  }
  return leaves;
}

}  // namespace shardplan
