// SPDX-License-Identifier: Apache-2.0
#include "spmd/factors.h"

namespace shardplan {
namespace {

// Gives the axes of one dimension to its factors.
void distribute(const Mesh& mesh, const ShardingRule& rule,
                const DimFactors& dim, const AxisNames& axes,
                FactorAxes& result) {
  if (dim.empty()) return;
  size_t at = 0;
  int64_t left = rule.factors[static_cast<size_t>(dim[0])].size;
  for (const AxisName& axis : axes) {
    const int64_t size = mesh.size_of(axis);
    while (left == 1 && at + 1 < dim.size()) {
      left = rule.factors[static_cast<size_t>(dim[++at])].size;
    }
    const auto factor = static_cast<size_t>(dim[at]);
    if (rule.factors[factor].kind == FactorKind::Whole || left % size != 0) {
      return;
    }
    left /= size;
    result[factor].push_back(axis);
  }
}

}  // namespace

FactorAxes factor_axes(const Mesh& mesh, const ShardingRule& rule,
                       const std::vector<DimFactors>& dims,
                       const PartitionSpec& spec) {
  FactorAxes result(rule.factors.size());
  for (size_t dim = 0; dim < dims.size() && dim < spec.dims.size(); ++dim) {
    distribute(mesh, rule, dims[dim], spec.dims[dim], result);
  }
  return result;
}

std::optional<PartitionSpec> spec_of(const Mesh& mesh, const ShardingRule& rule,
                                     const std::vector<DimFactors>& dims,
                                     const FactorAxes& axes) {
  PartitionSpec spec;
  for (const DimFactors& dim : dims) {
    AxisNames& entry = spec.dims.emplace_back();
    bool into_single_indices = true;
    for (const int number : dim) {
      const auto factor = static_cast<size_t>(number);
      const int64_t shards = shard_count(mesh, axes[factor]);
      if (shards > 1 && !into_single_indices) return std::nullopt;
      entry.insert(entry.end(), axes[factor].begin(), axes[factor].end());
      into_single_indices =
          into_single_indices && shards == rule.factors[factor].size;
    }
  }
  return spec;
}

}  // namespace shardplan
