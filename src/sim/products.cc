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

Tensor absolute(const Tensor& tensor) {
  std::vector<double> numbers = values_of(tensor);
  for (double& number : numbers) number = std::abs(number);
  return make_tensor(Element::F64, tensor.shape, numbers);
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

std::optional<double> ratio_of(const Program& whole, int node,
                               std::span<const Tensor> unsharded,
                               const SimulateOptions& options) {
  const Isolated one = isolate(whole, node, options.partition);
  const Graph& graph = *one.graph;
  std::vector<Tensor> plain(graph.values.size());
  std::vector<Tensor> exact(graph.values.size());
  std::vector<Tensor> sizes(graph.values.size());
  for (size_t i = 0; i < one.operands.size(); ++i) {
    plain[i] = unsharded[static_cast<size_t>(one.operands[i])];
    exact[i] = converted(plain[i], Element::F64);
    sizes[i] = absolute(plain[i]);
  }
  const auto result = static_cast<size_t>(graph.outputs[0]);
  const Tensor y64 =
      evaluate(graph, exact, Arithmetic::F64, options.threads)[result];
  const Tensor products =
      evaluate(graph, sizes, Arithmetic::F64, options.threads)[result];
  const Execution run = execute(one.program, plain,
                                {Arithmetic::F32, options.threads, true,
                                 options.storage, options.reduce});
  const auto output = static_cast<size_t>(one.program.outputs[0]);
  const Tensor s = assemble(whole.mesh, one.program.registers[output].layout,
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
      shards *= shard_count(whole.mesh, at.factor_axes[f]);
    }
  }
  return bound_ratio(y64, s, products, parts, length, shards, options.reduce,
                     options.storage);
}

}  // namespace

std::optional<double> largest_bound_ratio(const Program& program,
                                          std::span<const Tensor> unsharded,
                                          const SimulateOptions& options) {
  std::optional<double> largest;
  const Graph& graph = *program.graph;
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    if (graph.nodes[n].op->name != "einsum") continue;
    const std::optional<double> ratio =
        ratio_of(program, static_cast<int>(n), unsharded, options);
    if (!ratio) return std::nullopt;
    largest = std::max(largest.value_or(0), *ratio);
  }
  return largest;
}

}  // namespace shardplan
