// SPDX-License-Identifier: Apache-2.0
#include "sim/locate.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "base/words.h"
#include "graph/graph.h"
#include "sim/execute.h"
#include "sim/verdict.h"

namespace shardplan {
namespace {

// Returns how many index values are valid in an operation that selects by its
// second operand; 0 for other operations. Fresh indices beyond them would
// select nothing.
int64_t index_limit(const Graph& graph, const GraphNode& node) {
  if (node.op->indices == nullptr) return 0;
  std::vector<Shape> shapes;
  for (const ValueId operand : node.operands) {
    shapes.push_back(graph.values[operand].shape);
  }
  return node.op->indices(shapes, graph.values[node.result].shape);
}

// Replaces numbers by their absolute values. REQUIRES: `tensor` is a row-major
// tensor of doubles.
void make_absolute(const Tensor& tensor) {
  double* const numbers = tensor.data<double>();
  std::transform(numbers, numbers + tensor.elements(), numbers,
                 [](double x) { return std::abs(x); });
}

// Returns sum |P| over the parts of the sum that a product leaves, from a run
// with retain_registers; nothing if the run does not expose the parts.
std::optional<Tensor> sum_of_parts(const Program& program,
                                   const Instruction& product,
                                   const Execution& run) {
  if (product.overlap != Overlap::Off) return std::nullopt;
  const Mesh& mesh = program.mesh;
  const Register& made = program.registers[product.result];
  const AxisNames used = axes_in_use(made.layout);
  Tensor sum =
      make_tensor(Element::F64, program.graph->values[made.value].shape);
  for (int64_t device = 0; device < mesh.devices(); ++device) {
    const std::vector<int64_t> where = mesh.coordinates(device);
    bool repeats = false;
    for (size_t axis = 0; axis < mesh.axes().size(); ++axis) {
      repeats = repeats ||
                (where[axis] > 0 && !contains(used, mesh.axes()[axis].name));
    }
    if (repeats) continue;
    const Tensor part = copy(
        converted(nth(run.registers[product.result], device), Element::F64));
    make_absolute(part);
    add_into(shard_of(mesh, made.layout, sum, device), part, Arithmetic::F64);
  }
  return sum;
}

// Returns the whole result of a graph's only node.
Tensor result_of(const Graph& graph, const PerValue<Tensor>& operands,
                 int threads) {
  Evaluation run{&graph, [&](ValueId value) { return operands[value]; },
                 Arithmetic::F64, threads};
  evaluate_node(run, NodeId(0));
  return whole_of(run, graph.outputs[0]);
}

// Returns whether both are the same numbers in the same places of memory.
bool is_same_view(const Tensor& a, const Tensor& b) {
  return a.storage == b.storage && a.offset == b.offset &&
         a.strides == b.strides && a.shape == b.shape && a.element == b.element;
}

// Returns the error, or 0 if the two agree as far as the arithmetic shows.
double parted(const Tensor& expected, const Tensor& got,
              Arithmetic arithmetic) {
  if (expected.shape != got.shape) return kInfinity;
  if (is_same_view(expected, got) || bitwise_equal(expected, got)) return 0;
  if (arithmetic == Arithmetic::Field) return 1;
  const double error = structural_error(expected, got);
  return error > kMismatch ? error : 0;
}

const GraphNode& node_of(const Program& program, const Instruction& at) {
  return program.graph->nodes[at.node];
}

// Rows of scores. Every entry of a choice selects one score of its row.
struct Scores {
  std::vector<double> numbers;
  std::vector<double> scales;  // per row
  int64_t width = 0;

  // Returns the gap of two scores of a row as structural_error() measures it;
  // NaN if an index is out of range.
  double gap(size_t row, double a, double b) const {
    const auto count = static_cast<double>(width);
    if (!(a >= 0 && a < count && b >= 0 && b < count)) return std::nan("");
    const double x = at(row, a);
    const double y = at(row, b);
    if (x == y || (std::isnan(x) && std::isnan(y))) return 0;
    const double d = std::abs(x - y) / scales[row];
    return std::isfinite(d) ? d : kInfinity;
  }
  double at(size_t row, double index) const {
    return numbers[row * static_cast<size_t>(width) +
                   static_cast<size_t>(index)];
  }
};

// Returns the rows of a device, whole along the last dimension.
Scores scores_of(const Program& program, const Layout& layout,
                 const Tensor& scores, int64_t device) {
  Layout rows = layout;
  rows.spec.dims.back().clear();
  const int64_t width = scores.shape.back();
  Shape per_row = scores.shape;
  per_row.back() = 1;
  const Tensor scales = make_tensor(Element::F64, per_row, row_scales(scores));
  return {values_of(shard_of(program.mesh, rows, scores, device)),
          values_of(shard_of(program.mesh, rows, scales, device)), width};
}

}  // namespace

Isolated isolate(const Program& program, NodeId node,
                 const PartitionOptions& options) {
  const Graph& whole = *program.graph;
  Isolated one{std::make_unique<Graph>(), {}, {program.mesh}};
  Graph& graph = *one.graph;
  graph.name = whole.name;
  graph.nodes = {whole.nodes[node]};
  GraphNode& only = graph.nodes.front();
  // A value from within a shard_map cannot be drawn afresh: only the whole
  // graph shows what is done with it.
  if (only.inner_operand) only.shard_map.reset();
  only.inner_operand.reset();
  only.layer = -1;
  WantedLayouts wanted;
  const auto add = [&](ValueId value, Value::Kind kind) {
    graph.values.push_back(whole.values[value]);
    graph.values.back().kind = kind;
    graph.values.back().node =
        kind == Value::Kind::Result ? NodeId(0) : NodeId();
    return wanted.push_back(program.layouts[value].without_partial_sums());
  };
  for (ValueId& operand : only.operands) {
    const auto known = std::ranges::find(one.operands, operand);
    if (known != one.operands.end()) {
      operand = one.operands.id_of(*known);
      continue;
    }
    one.operands.push_back(operand);
    operand =
        add(operand, whole.values[operand].is_weight ? Value::Kind::Parameter
                                                     : Value::Kind::Input);
  }
  only.result = add(only.result, Value::Kind::Result);
  graph.outputs = {only.result};
  if (const int64_t limit = index_limit(graph, only); limit > 0) {
    Value& indices = graph.values[only.operands[1]];
    indices.integers_below = limit;
    indices.type = NumberType::Integer;
  }
  one.program = partition(graph, program.mesh, wanted, options);
  return one;
}

std::optional<double> bound_ratio_of(const Program& program, NodeId node,
                                     const ReadWhole& operand,
                                     const SimulateOptions& options) {
  if (!program.graph->nodes[node].op->is_product) return std::nullopt;
  const Isolated one = isolate(program, node, options.partition);
  const Graph& graph = *one.graph;
  PerValue<Tensor> plain;
  for (const ValueId value : one.operands) plain.push_back(operand(value));
  // Converts one operand after the other: each is as large as the weight.
  PerValue<Tensor> wide;
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
  const RegisterId output = one.program.outputs[0];
  const Tensor s = assemble(program.mesh, one.program.registers[output].layout,
                            y64.shape, run.registers[output]);
  const Instruction& product = *std::ranges::find(
      one.program.instructions, Instruction::Kind::Compute, &Instruction::kind);
  const Tensor parts =
      sum_of_parts(one.program, product, run).value_or(products);
  int64_t length = 1;
  int64_t shards = 1;
  const ShardingRule& rule = graph.nodes.front().rule;
  for (size_t f = 0; f < rule.factors.size(); ++f) {
    if (rule.factors[f].kind != FactorKind::Sum) continue;
    length *= rule.factors[f].size;
    shards *= shard_count(program.mesh, product.factor_axes[f]);
  }
  return bound_ratio(y64, s, products, parts, length, shards, options.reduce,
                     options.storage);
}

std::optional<Divergence> difference_of(const Program& program,
                                        RegisterId number, const Layout& layout,
                                        const DeviceTensors& parts,
                                        const Tensor& unsharded,
                                        Arithmetic arithmetic) {
  const ValueId value = program.registers[number].value;
  Tensor last_expected;
  Tensor last_part;
  for (size_t device = 0; device < parts.size(); ++device) {
    const Tensor expected =
        shard_of(program.mesh, layout, unsharded, static_cast<int64_t>(device));
    // Devices may share what they hold (sim/delivery.h).
    const Tensor& part = parts[device];
    if (device > 0 && is_same_view(part, last_part) &&
        is_same_view(expected, last_expected)) {
      continue;
    }
    const double error = parted(expected, part, arithmetic);
    if (error > 0) {
      return Divergence{
          value, static_cast<int64_t>(device), error, false, {}, number, {}};
    }
    last_expected = expected;
    last_part = part;
  }
  return std::nullopt;
}

std::optional<Divergence> divergence_of(const Program& program,
                                        RegisterId number,
                                        const DeviceTensors& parts,
                                        const Tensor& unsharded,
                                        Arithmetic arithmetic) {
  const Layout& layout = program.registers[number].layout;
  if (!layout.partial.empty()) return std::nullopt;
  return difference_of(program, number, layout, parts, unsharded, arithmetic);
}

std::optional<Divergence> first_divergence(
    PairedRuns& runs, const std::function<bool(int phase)>& begin) {
  const Program& program = runs.program;
  std::optional<Divergence> found;
  const auto compare = [&](const Instruction& at, DeviceTensors& made) {
    if (found) return;
    const ValueId value = program.registers[at.result].value;
    found =
        divergence_of(program, at.result, made, whole_of(runs.unsharded, value),
                      runs.options.arithmetic);
  };
  for (int s = 0; s < runs.lives.phases && !found; ++s) {
    if (begin && !begin(s)) break;
    advance_unsharded(runs, s);
    runs.sharded.advance(s, compare);
    release_results(runs, s);
    release_values(runs.cache, s);
  }
  return found;
}

bool is_decision(const Program& program, const Instruction& instruction) {
  return instruction.kind == Instruction::Kind::Compute &&
         node_of(program, instruction).op->is_decision;
}

std::optional<Divergence> wrong_choice(const Program& program,
                                       const Instruction& instruction,
                                       const Tensor& scores,
                                       const Tensor& recorded,
                                       const DeviceTensors& made) {
  const Register& result = program.registers[instruction.result];
  const bool by_index = node_of(program, instruction).op->chooses_indices;
  for (size_t d = 0; d < made.size(); ++d) {
    const auto device = static_cast<int64_t>(d);
    Divergence found{result.value, device, kInfinity, false};
    const Tensor part = shard_of(program.mesh, result.layout, recorded, device);
    if (part.shape != made[d].shape) return found;
    const std::vector<double> taken = values_of(part);
    const std::vector<double> own = values_of(made[d]);
    if (own == taken) continue;
    if (!by_index) return found;
    const Scores of = scores_of(program, result.layout, scores, device);
    const auto choices = static_cast<size_t>(part.shape.back());
    for (size_t i = 0; i < own.size(); ++i) {
      if (own[i] == taken[i]) continue;
      const double gap = of.gap(i / choices, own[i], taken[i]);
      if (gap <= kTie) continue;
      found.error = std::isnan(gap) ? kInfinity : gap;
      found.choice = OtherChoice{static_cast<int64_t>(own[i]),
                                 static_cast<int64_t>(taken[i])};
      return found;
    }
  }
  return std::nullopt;
}

int64_t replay(const Program& program, const Instruction& instruction,
               const Tensor& recorded, DeviceTensors& made) {
  const Layout& layout = program.registers[instruction.result].layout;
  const Tensor choice = converted(recorded, made[0].element);
  const auto part_of = [&](const Tensor& whole, size_t device) {
    return shard_of(program.mesh, layout, whole, static_cast<int64_t>(device));
  };
  for (size_t device = 0; device < made.size(); ++device) {
    if (part_of(choice, device).shape != made[device].shape) return 0;
  }
  // 1 where some device would have chosen differently: replicas may differ.
  const Tensor turned = make_tensor(Element::F64, recorded.shape);
  for (size_t device = 0; device < made.size(); ++device) {
    const Tensor part = part_of(choice, device);
    const std::vector<double> taken = values_of(part);
    std::vector<double> own = values_of(made[device]);
    for (size_t i = 0; i < own.size(); ++i) own[i] = own[i] != taken[i] ? 1 : 0;
    max_into(part_of(turned, device),
             make_tensor(Element::F64, part.shape, own));
    made[device] = part;
  }
  const std::vector<double> all = values_of(turned);
  return static_cast<int64_t>(std::count(all.begin(), all.end(), 1.0));
}

}  // namespace shardplan
