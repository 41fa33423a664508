// SPDX-License-Identifier: Apache-2.0
#include "cli/commands/simulate/cost.h"

#include <algorithm>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "base/text.h"
#include "cli/options.h"
#include "core/spec.h"
#include "graph/graph.h"
#include "spmd/layout.h"

namespace shardplan::cli {
namespace {

// Speed of one processor of a usual machine: multiplications in double
// precision, in float32 and in the field, and numbers drawn or converted.
constexpr double kDoublesPerSecond = 1.5e10;
constexpr double kFloatsPerSecond = 3e10;
constexpr double kResiduesPerSecond = 4e9;
constexpr double kNumbersPerSecond = 1e8;
constexpr double kLong = 10;  // seconds from which a line is printed

double flops_of(const Graph& graph, const GraphNode& node) {
  std::vector<Shape> shapes;
  for (const ValueId operand : node.operands) {
    shapes.push_back(graph.values[operand].shape);
  }
  return static_cast<double>(
      node.op->flops(shapes, graph.values[node.result].shape, node.attributes));
}

std::string duration_text(double seconds) {
  if (seconds < 90) return fmt::format("{:.0f} s", seconds);
  if (seconds < 5400) return fmt::format("{:.0f} min", seconds / 60);
  return fmt::format("{:.0f} h", seconds / 3600);
}

}  // namespace

RunCost cost_of_run(const SimulateInput& input, const Program& program) {
  const Graph& graph = input.graph;
  double whole = 0;
  double sharded = 0;  // over all devices
  for (const Instruction& at : program.instructions) {
    if (at.kind != Instruction::Kind::Compute) continue;
    const double flops = flops_of(graph, graph.nodes[at.node]);
    whole += flops;
    auto devices = static_cast<double>(program.mesh.devices());
    for (const AxisNames& axes : at.factor_axes) {
      devices /= static_cast<double>(shard_count(program.mesh, axes));
    }
    sharded += flops * std::max(1.0, devices);
  }
  double numbers = 0;
  for (const Value& value : graph.values) {
    if (value.kind == Value::Kind::Result) continue;
    numbers += static_cast<double>(
        element_count(value.shape).value_or(int64_t{1} << 62U));
  }
  const bool exact = input.source == ValueSource::Field;
  RunCost cost;
  cost.bytes = least_bytes_held(graph, exact);
  cost.seconds = numbers / kNumbersPerSecond +
                 (exact ? 2 * (whole + sharded) / kResiduesPerSecond
                        : (3 * whole + sharded) / kDoublesPerSecond +
                              (whole + 2 * sharded) / kFloatsPerSecond);
  return cost;
}

void announce_cost(const Context& context, const SimulateInput& input,
                   const Program& program) {
  if (!input.model || context.options.output.quiet) return;
  const RunCost cost = cost_of_run(input, program);
  if (cost.seconds < kLong) return;
  context.progress.clear();
  context.host.write(
      Stream::Err,
      fmt::format("this run needs about {} on one processor and at least {} of "
                  "memory\n",
                  duration_text(cost.seconds), bytes_text(cost.bytes)));
}

}  // namespace shardplan::cli
