// SPDX-License-Identifier: Apache-2.0
#include "sim/part.h"

namespace shardplan {

LocalRange range_of(const Mesh& mesh, const ShardingRule& rule,
                    const FactorAxes& axes, int64_t device) {
  LocalRange range;
  const std::vector<int64_t> at = mesh.coordinates(device);
  for (size_t f = 0; f < rule.factors.size(); ++f) {
    const int64_t size = rule.factors[f].size / shard_count(mesh, axes[f]);
    range.sizes.push_back(size);
    range.offsets.push_back(size * shard_index(mesh, axes[f], at));
  }
  return range;
}

Tensor run_part(const GraphNode& node, const DevicePart& part, int64_t& flops) {
  std::vector<Shape> shapes;
  for (const Tensor& operand : part.operands) shapes.push_back(operand.shape);
  Tensor result = node.op->run(part.operands, node.attributes, part.context);
  flops += node.op->flops(shapes, result.shape, node.attributes);
  return result;
}

}  // namespace shardplan
