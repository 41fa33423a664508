// SPDX-License-Identifier: Apache-2.0
#include "sim/part.h"

#include "base/check.h"
#include "spmd/shard_mapped.h"

namespace shardplan {
namespace {

std::vector<Shape> shapes_of(const std::vector<Tensor>& tensors) {
  std::vector<Shape> shapes;
  for (const Tensor& tensor : tensors) shapes.push_back(tensor.shape);
  return shapes;
}

// The own rows of dimensions that are whole though their factor is cut: those
// that do not divide (shapes of operands agree on every factor).
Tensor without_rest(Tensor operand, const std::vector<DimFactors>& dims,
                    const ShardingRule& rule, const LocalRange& range) {
  for (size_t dim = 0; dim < dims.size(); ++dim) {
    if (dims[dim].size() != 1) continue;
    const auto f = static_cast<size_t>(dims[dim][0]);
    const int64_t rows = range.sizes[f];
    const int64_t whole = rule.factors[f].size;
    if (rows == whole || operand.shape[dim] != whole) continue;
    operand = slice(operand, static_cast<int>(dim), range.offsets[f],
                    range.offsets[f] + rows);
  }
  return operand;
}

Tensor run_mapped(const GraphNode& node, const DevicePart& part,
                  int64_t& flops) {
  std::vector<Tensor> operands;
  for (size_t i = 0; i < part.operands.size(); ++i) {
    operands.push_back(without_rest(part.operands[i], node.rule.operands[i],
                                    node.rule, part.context.range));
  }
  const std::vector<Shape> shapes = shapes_of(operands);
  const auto attributes = mapped_attributes(node, shapes);
  SHARDPLAN_CHECK(attributes.has_value());
  RunContext context = part.context;
  const ShardingRule rule = node.op->rule(shapes, *attributes);
  if (node.op->name != "embedding") {
    context.rule = &rule;
    context.range = {};
  }
  Tensor result = node.op->run(operands, *attributes, context);
  flops += node.op->flops(shapes, result.shape, *attributes);
  return result;
}

}  // namespace

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
  if (node.shard_map) return run_mapped(node, part, flops);
  const std::vector<Shape> shapes = shapes_of(part.operands);
  Tensor result = node.op->run(part.operands, node.attributes, part.context);
  flops += node.op->flops(shapes, result.shape, node.attributes);
  return result;
}

}  // namespace shardplan
