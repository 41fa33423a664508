// SPDX-License-Identifier: Apache-2.0
// Between dimensions and factors: what a spec means for the indices that an
// operation runs over, and the reverse.
#pragma once

#include <optional>
#include <vector>

#include "core/mesh.h"
#include "core/spec.h"
#include "graph/op.h"

namespace shardplan {

using FactorAxes = std::vector<AxisNames>;  // per factor, major to minor

// The axes of a tensor's dimensions, given to the factors that they cut; axes
// that would cut across factors, or a factor that may not be sharded, are left
// out. One entry per factor of the rule.
FactorAxes factor_axes(const Mesh& mesh, const ShardingRule& rule,
                       const std::vector<DimFactors>& dims,
                       const PartitionSpec& spec);

// The spec of a tensor whose factors have these axes. Empty where that cannot
// be: a minor factor cut though the major one is not cut into single indices.
std::optional<PartitionSpec> spec_of(const Mesh& mesh, const ShardingRule& rule,
                                     const std::vector<DimFactors>& dims,
                                     const FactorAxes& axes);

}  // namespace shardplan
