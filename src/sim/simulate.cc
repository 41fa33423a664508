// SPDX-License-Identifier: Apache-2.0
#include "sim/simulate.h"

#include <algorithm>

#include "graph/evaluate.h"
#include "sim/execute.h"
#include "sim/isolate.h"
#include "sim/locate.h"
#include "sim/products.h"
#include "sim/verdict.h"

namespace shardplan {
namespace {

std::vector<Tensor> in_doubles(std::span<const Tensor> values) {
  std::vector<Tensor> result;
  for (const Tensor& value : values) {
    result.push_back(value.storage == nullptr ? value
                                              : converted(value, Element::F64));
  }
  return result;
}

class Simulator {
 public:
  Simulator(const Program& program, std::span<const Tensor> values,
            const SimulateOptions& options)
      : program_(program),
        graph_(*program.graph),
        values_(values),
        options_(options) {}

  Simulation run() {
    if (options_.values == ValueSource::Field) {
      run_in_field();
    } else {
      run_in_floats();
    }
    return std::move(result_);
  }

 private:
  void say(const char* stage) const {
    if (options_.progress) options_.progress(stage);
  }

  std::vector<Tensor> outputs_of(const std::vector<Tensor>& all) const {
    std::vector<Tensor> outputs;
    for (const int value : graph_.outputs) {
      outputs.push_back(all[static_cast<size_t>(value)]);
    }
    return outputs;
  }

  std::vector<Tensor> outputs_of(const Execution& run) const {
    std::vector<Tensor> outputs;
    for (size_t i = 0; i < program_.outputs.size(); ++i) {
      const auto number = static_cast<size_t>(program_.outputs[i]);
      const auto value = static_cast<size_t>(graph_.outputs[i]);
      outputs.push_back(
          assemble(program_.mesh, program_.registers[number].layout,
                   graph_.values[value].shape, run.registers[number]));
    }
    return outputs;
  }

  ExecuteOptions how(Arithmetic arithmetic, bool keep) const {
    return {arithmetic, options_.threads, keep, options_.storage,
            options_.reduce};
  }

  // Replicas must agree as well: what one of them computes is not looked at
  // when the whole is put together.
  bool replicas_agree(const Execution& run, const std::vector<Tensor>& outputs,
                      Arithmetic arithmetic) const {
    for (size_t i = 0; i < outputs.size(); ++i) {
      const auto number = static_cast<size_t>(program_.outputs[i]);
      for (int64_t device = 0; device < program_.mesh.devices(); ++device) {
        const Tensor expected =
            shard_of(program_.mesh, program_.registers[number].layout,
                     outputs[i], device);
        const Tensor& got = run.registers[number][static_cast<size_t>(device)];
        const bool same = arithmetic == Arithmetic::Field
                              ? bitwise_equal(expected, got)
                              : structural_error(expected, got) <= kMismatch;
        if (!same) return false;
      }
    }
    return true;
  }

  // A run again, keeping everything, to find where it goes wrong.
  void locate(std::span<const Tensor> values,
              const std::vector<Tensor>& unsharded, Arithmetic arithmetic) {
    const Execution kept = execute(program_, values, how(arithmetic, true));
    result_.mismatch = first_divergence(program_, kept, unsharded, arithmetic);
    if (!result_.mismatch) {
      result_.mismatch =
          Divergence{graph_.outputs.at(0), 0, result_.structural_error, false};
    }
  }

  void count(const Execution& run) {
    result_.flops = *std::max_element(run.flops.begin(), run.flops.end());
    for (CollectivePrice& priced :
         price(program_, options_.storage, options_.reduce)) {
      const auto& sent = run.sent[static_cast<size_t>(priced.instruction)];
      MovedBytes row{std::move(priced), 0, 0};
      for (const int64_t bytes : sent) {
        row.moved += bytes;
        row.bytes_per_device = std::max(row.bytes_per_device, bytes);
      }
      result_.bytes_priced += row.priced.bytes;
      result_.collectives.push_back(std::move(row));
    }
    result_.bytes_moved = run.bytes_moved();
    for (const GraphNode& node : graph_.nodes) {
      std::vector<Shape> shapes;
      for (const int operand : node.operands) {
        shapes.push_back(graph_.values[static_cast<size_t>(operand)].shape);
      }
      result_.unsharded_flops += node.op->flops(
          shapes, graph_.values[static_cast<size_t>(node.result)].shape,
          node.attributes);
    }
  }

  void run_in_floats() {
    const std::vector<Tensor> doubles = in_doubles(values_);
    say("running unsharded");
    const std::vector<Tensor> all64 =
        evaluate(graph_, doubles, Arithmetic::F64, options_.threads);
    const std::vector<Tensor> y64 = outputs_of(all64);
    const std::vector<Tensor> all32 =
        evaluate(graph_, values_, Arithmetic::F32, options_.threads);
    say("running sharded");
    const Execution run64 =
        execute(program_, doubles, how(Arithmetic::F64, false));
    const std::vector<Tensor> s64 = outputs_of(run64);
    const Execution run32 =
        execute(program_, values_, how(Arithmetic::F32, false));
    say("comparing");
    result_.structural_error = structural_error(y64, s64);
    result_.error_amplification =
        error_amplification(y64, outputs_of(all32), outputs_of(run32));
    count(run32);
    if (result_.structural_error > kMismatch ||
        !replicas_agree(run64, y64, Arithmetic::F64)) {
      locate(doubles, all64, Arithmetic::F64);
    } else {
      result_.bound_ratio = largest_bound_ratio(program_, all32, options_);
    }
  }

  void run_in_field() {
    say("running unsharded");
    const std::vector<Tensor> all =
        evaluate(graph_, values_, Arithmetic::Field, options_.threads);
    const std::vector<Tensor> y = outputs_of(all);
    say("running sharded");
    const Execution run =
        execute(program_, values_, how(Arithmetic::Field, false));
    count(run);
    if (!replicas_agree(run, y, Arithmetic::Field)) {
      result_.structural_error = 1;
      locate(values_, all, Arithmetic::Field);
      return;
    }
    say("checking every operation by itself");
    for (size_t n = 0; n < graph_.nodes.size() && !result_.mismatch; ++n) {
      check_alone(static_cast<int>(n));
    }
  }

  void check_alone(int node) {
    const Isolated one = isolate(program_, node, options_.partition);
    const Graph& graph = *one.graph;
    std::vector<Tensor> values(graph.values.size());
    for (size_t i = 0; i < one.operands.size(); ++i) {
      const auto index = static_cast<uint32_t>(one.operands[i]);
      values[i] = random_value(graph.values[i], ValueSource::Field,
                               options_.seed + node + 1, index);
    }
    const std::vector<Tensor> all =
        evaluate(graph, values, Arithmetic::Field, options_.threads);
    const Execution run =
        execute(one.program, values, how(Arithmetic::Field, true));
    const auto parted =
        first_divergence(one.program, run, all, Arithmetic::Field);
    if (!parted) return;
    result_.structural_error = 1;
    result_.mismatch =
        Divergence{graph_.nodes[static_cast<size_t>(node)].result,
                   parted->device, 1, true};
  }

  const Program& program_;
  const Graph& graph_;
  std::span<const Tensor> values_;
  const SimulateOptions& options_;
  Simulation result_;
};

}  // namespace

Simulation simulate(const Program& program, std::span<const Tensor> values,
                    const SimulateOptions& options) {
  return Simulator(program, values, options).run();
}

}  // namespace shardplan
