// SPDX-License-Identifier: Apache-2.0
#include "sim/products.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "graph/evaluate.h"
#include "sim/execute.h"
#include "sim/isolate.h"
#include "sim/verdict.h"

namespace shardplan {
namespace {

// REQUIRES: a row-major tensor of doubles.
void make_absolute(const Tensor& tensor) {
  double* const numbers = tensor.data<double>();
  std::transform(numbers, numbers + tensor.elements(), numbers,
                 [](double x) { return std::abs(x); });
}

Tensor absolute(const Tensor& tensor) {
  const Tensor result = copy(converted(tensor, Element::F64));
  make_absolute(result);
  return result;
}

// sum |P| over the parts of the sum, of a run that kept its registers; empty
// where the parts are not there to see.
std::optional<Tensor> sum_of_parts(const Program& program,
                                   const Execution& run) {
  for (const Instruction& at : program.instructions) {
    if (at.kind != Instruction::Kind::Compute) continue;
    const Register& made = program.registers[static_cast<size_t>(at.result)];
    if (at.overlap != Overlap::Off) return std::nullopt;
    const auto value = static_cast<size_t>(made.value);
    Tensor sum = make_tensor(Element::F64, program.graph->values[value].shape);
    AxisNames used = axes_in_use(made.layout);
    for (int64_t device = 0; device < program.mesh.devices(); ++device) {
      const std::vector<int64_t> where = program.mesh.coordinates(device);
      bool repeats = false;
      for (size_t axis = 0; axis < where.size(); ++axis) {
        const AxisName& name = program.mesh.axes()[axis].name;
        repeats = repeats || (where[axis] > 0 && !contains(used, name));
      }
      if (repeats) continue;
      const auto& parts = run.registers[static_cast<size_t>(at.result)];
      add_into(shard_of(program.mesh, made.layout, sum, device),
               absolute(parts[static_cast<size_t>(device)]), Arithmetic::F64);
    }
    return sum;
  }
  return std::nullopt;
}

// The whole result of the one node of a graph.
Tensor result_of(const Graph& graph, const std::vector<Tensor>& operands,
                 int threads) {
  Evaluation run{
      &graph, [&](int value) { return operands[static_cast<size_t>(value)]; },
      Arithmetic::F64, threads};
  evaluate_node(run, 0);
  return whole_of(run, graph.outputs[0]);
}

}  // namespace

bool is_product(const GraphNode& node) { return node.op->name == "einsum"; }

std::optional<double> bound_ratio_of(const Program& program, int node,
                                     const ReadWhole& operand,
                                     const SimulateOptions& options) {
  const auto n = static_cast<size_t>(node);
  if (!is_product(program.graph->nodes[n])) return std::nullopt;
  const Isolated one = isolate(program, node, options.partition);
  const Graph& graph = *one.graph;
  std::vector<Tensor> plain;
  for (const int value : one.operands) plain.push_back(operand(value));
  // In doubles, one after the other: each is as large as the weight.
  std::vector<Tensor> wide;
  for (const Tensor& tensor : plain) {
    wide.push_back(converted(tensor, Element::F64, options.threads));
  }
  const Tensor y64 = result_of(graph, wide, options.threads);
  for (Tensor& tensor : wide) make_absolute(tensor);
  const Tensor products = result_of(graph, wide, options.threads);
  wide.clear();
  plain.resize(graph.values.size());
  const Execution run = execute(one.program, plain,
                                {Arithmetic::F32, options.threads, true,
                                 options.storage, options.reduce});
  const auto output = static_cast<size_t>(one.program.outputs[0]);
  const Tensor s = assemble(program.mesh, one.program.registers[output].layout,
                            y64.shape, run.registers[output]);
  const Tensor parts = sum_of_parts(one.program, run).value_or(products);
  int64_t length = 1;
  int64_t shards = 1;
  const ShardingRule& rule = graph.nodes[0].rule;
  for (const Instruction& at : one.program.instructions) {
    if (at.kind != Instruction::Kind::Compute) continue;
    for (size_t f = 0; f < rule.factors.size(); ++f) {
      if (rule.factors[f].kind != FactorKind::Sum) continue;
      length *= rule.factors[f].size;
      shards *= shard_count(program.mesh, at.factor_axes[f]);
    }
  }
  return bound_ratio(y64, s, products, parts, length, shards, options.reduce,
                     options.storage);
}

}  // namespace shardplan
