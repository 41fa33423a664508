// SPDX-License-Identifier: Apache-2.0
// A value as it is, in a layout that is asked for
// (jax.lax.with_sharding_constraint): the partitioner reads the spec.
//
// Not linear, although it is the identity: partial sums are to be settled here.
#include "graph/op_shapes.h"
#include "graph/ops/ops.h"

namespace shardplan {
namespace {

std::optional<Shape> infer_constrained(std::span<const Shape> operands,
                                       const Attributes& attributes, Span where,
                                       Diagnostics& diags) {
  const Shape& shape = operands[0];
  const auto& spec = std::get<PartitionSpec>(attributes.find("spec")->second);
  if (spec.dims.size() <= shape.size()) return shape;
  return diags
      .error(
          Code::InvalidGraph, where,
          spec_text(spec) + " is longer than the rank of " + shape_text(shape))
      .help("give one entry per dimension at most");
}

Tensor run_constrained(std::span<const Tensor> operands,
                       const Attributes& /*attributes*/,
                       const RunContext& /*context*/) {
  return operands[0];
}

}  // namespace

OpDef constraint_op() {
  OpDef op;
  op.name = "constraint";
  op.summary = "the operand, laid out as a spec says";
  op.attributes = {
      {"spec", AttributeDef::Kind::Spec, true, "mesh axes per dimension"}};
  op.factors = "every dimension";
  op.infer = infer_constrained;
  op.rule = elementwise_rule;
  op.flops = flops_per_element<0>;
  op.run = run_constrained;
  return op;
}

}  // namespace shardplan
