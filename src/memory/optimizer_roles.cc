// SPDX-License-Identifier: Apache-2.0
// Optimizer roles: the leaves that each optimizer stores, per parameter and in
// total.
#include <algorithm>
#include <array>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "base/checked.h"
#include "base/words.h"
#include "memory/state.h"
#include "memory/zero.h"

namespace shardplan {
namespace {

// optax's adafactor factors dimensions of at least this size.
constexpr int64_t kLeastFactored = 128;

// bitsandbytes 0.50, optim/optimizer.py: moments of fewer elements stay in
// float32 (min_8bit_size). A block of 8-bit codes has one scale, and the codes
// index a table of 256 values.
constexpr int64_t kLeast8bit = 4096;
constexpr int64_t kBlock8bit = 256;
constexpr int64_t kValues8bit = 256;

// transformers 5.24, training_args.py: OptimizerNames.
struct TrainerName {
  std::string_view name;
  Optimizer optimizer;
  bool paged = false;
};
constexpr std::array<TrainerName, 12> kTrainerNames = {
    {{"adamw_torch", Optimizer::AdamW},
     {"adamw_torch_fused", Optimizer::AdamW},
     {"adamw_torch_xla", Optimizer::AdamW},
     {"adamw_torch_npu_fused", Optimizer::AdamW},
     {"adamw_torch_4bit", Optimizer::TorchaoAdamW4bit},
     {"adamw_torch_8bit", Optimizer::TorchaoAdamW8bit},
     {"adamw_8bit", Optimizer::AdamW8bit},
     {"adamw_bnb_8bit", Optimizer::AdamW8bit},
     {"paged_adamw_32bit", Optimizer::AdamW, true},
     {"paged_adamw_8bit", Optimizer::AdamW8bit, true},
     {"lion_32bit", Optimizer::Lion},
     {"paged_lion_32bit", Optimizer::Lion, true}}};

// Returns the second largest and the largest dimension, in the order of
// numpy.argsort (stable, so the later of two equal ones counts as larger).
std::optional<std::pair<size_t, size_t>> factored_dims(const Shape& shape) {
  if (shape.size() < 2) return std::nullopt;
  std::vector<size_t> order(shape.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(
      order, [&](size_t a, size_t b) { return shape[a] < shape[b]; });
  const size_t second = order[order.size() - 2];
  if (shape[second] < kLeastFactored) return std::nullopt;
  return std::pair(second, order.back());
}

// Returns a leaf with one number per block of the parameter.
RoleType of_blocks(std::string_view role, DType dtype, int64_t blocks) {
  return {role, {dtype, {blocks}}, -1, false, true};
}

std::vector<RoleType> roles_of_8bit(const Shape& shape) {
  const auto elements = element_count(shape).value_or(0);
  if (elements < kLeast8bit) {
    return {{"mu", {DType::F32, shape}}, {"nu", {DType::F32, shape}}};
  }
  const TensorType moments = {DType::U8, shape};
  const int64_t blocks = ceil_div(elements, kBlock8bit);
  return {{"mu", moments},
          {"nu", moments},
          of_blocks("mu_absmax", DType::F32, blocks),
          of_blocks("nu_absmax", DType::F32, blocks)};
}

// torchao 0.18, optim/subclass_*.py: a state is quantized if the rank's own
// shard has at least kLeastTorchao elements and whole blocks; otherwise it has
// the type of the parameter. Each quantized state has its own table of values.
constexpr int64_t kLeastTorchao = 4096;
struct TorchaoStates {
  Optimizer optimizer;
  DType codes;
  int64_t packed;  // elements per code
  int64_t block;
  int64_t values;  // size of the table; 0: the codes are floats
};
constexpr std::array<TorchaoStates, 3> kTorchao = {
    {{Optimizer::TorchaoAdamW8bit, DType::U8, 1, 256, 256},
     {Optimizer::TorchaoAdamW4bit, DType::U8, 2, 128, 16},
     {Optimizer::TorchaoAdamWFp8, DType::F8E4M3, 1, 256, 0}}};

std::vector<RoleType> torchao_roles(const TorchaoStates& of,
                                    const TensorType& stored, int64_t held) {
  const auto elements = element_count(stored.shape).value_or(0);
  const int64_t own = held < 0 ? elements : held;
  if (own < kLeastTorchao || own % of.block != 0) {
    return {{"mu", stored}, {"nu", stored}};
  }
  std::vector<RoleType> roles;
  const std::array<std::array<std::string_view, 3>, 2> names = {
      {{"mu", "mu_scale", "mu_qmap"}, {"nu", "nu_scale", "nu_qmap"}}};
  for (const auto& [codes, scales, values] : names) {
    roles.push_back(of.packed == 1 ? RoleType{codes, {of.codes, stored.shape}}
                                   : of_blocks(codes, of.codes,
                                               ceil_div(elements, of.packed)));
    roles.push_back(
        of_blocks(scales, DType::F32, ceil_div(elements, of.block)));
    if (of.values > 0) {
      roles.push_back({values, {DType::F32, {of.values}}, -1, true});
    }
  }
  return roles;
}

RoleType without(std::string_view role, TensorType type, size_t dim) {
  type.shape.erase(type.shape.begin() + static_cast<std::ptrdiff_t>(dim));
  return {role, std::move(type), static_cast<int>(dim)};
}

std::vector<RoleType> adafactor_roles(const TensorType& full) {
  const auto placeholder = [&](std::string_view role) {
    return RoleType{role, {full.dtype, {1}}, -1, true};
  };
  const auto dims = factored_dims(full.shape);
  if (!dims) return {placeholder("v_row"), placeholder("v_col"), {"v", full}};
  return {without("v_row", full, dims->second),
          without("v_col", full, dims->first), placeholder("v")};
}

const TorchaoStates* find_torchao(Optimizer optimizer) {
  const auto* const found =
      std::ranges::find(kTorchao, optimizer, &TorchaoStates::optimizer);
  return found == kTorchao.end() ? nullptr : found;
}

}  // namespace

std::string trainers_optimizer(std::string_view name) {
  const auto* const found = find_named(kTrainerNames, name);
  if (found == nullptr) return "";
  const std::string flag =
      "--optimizer " + std::string(optimizer_name(found->optimizer));
  return "use `" + flag + (found->paged ? " --offload optimizer:paged`" : "`");
}

bool has_block_moments(Optimizer optimizer) {
  return optimizer == Optimizer::AdamW8bit ||
         find_torchao(optimizer) != nullptr;
}

std::vector<RoleType> optimizer_roles(const TensorType& stored,
                                      const StateOptions& options,
                                      int64_t held) {
  if (!is_trainable(stored.dtype)) return {};
  const DType wide = stored.dtype == DType::F64 ? DType::F64 : DType::F32;
  const TensorType full = {options.moment_dtype.value_or(wide), stored.shape};
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
    case Optimizer::AdamW8bit:
      return roles_of_8bit(stored.shape);
    case Optimizer::TorchaoAdamW8bit:
    case Optimizer::TorchaoAdamW4bit:
    case Optimizer::TorchaoAdamWFp8:
      return torchao_roles(*find_torchao(options.optimizer), stored, held);
  }
  return {};
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
    case Optimizer::TorchaoAdamW8bit:  // counts steps in host memory
    case Optimizer::TorchaoAdamW4bit:
    case Optimizer::TorchaoAdamWFp8:
      break;
    case Optimizer::AdamW8bit:  // counts steps in Python
      add("qmap", {DType::F32, {kValues8bit}});
      add("qmap", {DType::F32, {kValues8bit}});
      break;
    case Optimizer::AdamW:
    case Optimizer::Lion:
    case Optimizer::Adafactor:
      add("count", {DType::I32, {}});
      break;
    case Optimizer::Muon:  // uses adamw in addition, for other ranks than 2
      add("count", {DType::I32, {}});
      add("count", {DType::I32, {}});
      add("ns_coeffs", {DType::F32, {3}});
      break;
  }
  return leaves;
}

}  // namespace shardplan
