// SPDX-License-Identifier: Apache-2.0
// Stacked experts: [E, ..] with layers in front or second, or, as DBRX has
// them, the rows of all experts in one matrix [E x inner, hidden].
#include <optional>

#include "resolve/unit_kinds.h"

namespace shardplan {
namespace {

// Where stacked experts have their experts.
std::optional<int> expert_dim(const NamedTensor& tensor, int64_t experts) {
  const Shape& shape = tensor.type.shape;
  const TensorName& tail = tensor.tail;
  // DBRX: `ffn.experts.mlp.w1`, `v1` and `w2`.
  if (shape.size() == 2 && tail.parent == "mlp" &&
      (tail.module == "w1" || tail.module == "v1" || tail.module == "w2")) {
    const bool whole = shape[0] >= experts && shape[0] % experts == 0;
    return whole ? std::optional<int>(0) : std::nullopt;
  }
  const size_t least = tail.leaf.ends_with("bias") ? 2 : 3;
  if (shape.size() < least) return std::nullopt;
  const bool first = shape[0] == experts;
  const bool second = shape[1] == experts && shape.size() > least;
  if (first == second) return std::nullopt;
  return first ? 0 : 1;
}

}  // namespace

std::vector<Unit> expert_units(const NamedTensor& tensor,
                               const ModelFacts& facts) {
  const int64_t experts = facts.experts.value_or(0);
  if (experts < 1 || !expert_name(tensor.name).stacked) return {};
  const auto dim = expert_dim(tensor, experts);
  if (!dim) return {};
  std::vector<Unit> units = {{*dim, UnitKind::Expert, experts}};
  const int64_t groups = facts.expert_groups.value_or(1);
  if (groups > 1 && experts % groups == 0) {
    units.push_back({*dim, UnitKind::ExpertGroup, groups});
  }
  return units;
}

}  // namespace shardplan
