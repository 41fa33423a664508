// SPDX-License-Identifier: Apache-2.0
// Our partitioner and executor against JAX and XLA on the same small programs
// (tests/support/recorded_programs.h): equal results, and a table of what each
// sends, which scripts/validate compares in docs/validation.md.
#include "tests/support/recorded_programs.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "graph/build.h"
#include "graph/evaluate.h"
#include "graph/field.h"
#include "sim/execute.h"
#include "sim/verdict.h"
#include "spmd/partition.h"
#include "tests/support/messages.h"
#include "tests/support/source_dir.h"

namespace shardplan {
namespace {

using testing::recorded_numbers;
using testing::recorded_programs;
using testing::RecordedProgram;

// A recorded program, ready to run. Does not move: `program` points into it.
struct Case {
  Graph graph;
  Program program{Mesh({{"dp", 1}}), &graph, {}, {}, {}, {}};
  std::vector<Tensor> values;  // of inputs and parameters, in doubles
};

std::unique_ptr<Case> prepare(const RecordedProgram& recorded) {
  Diagnostics diags;
  const testing::DescribedProgram described = testing::described(recorded);
  auto graph = build_graph(described.graph, described.parameters, diags);
  REQUIRE_MESSAGE(graph, testing::messages(diags));
  auto made = std::make_unique<Case>();
  made->graph = std::move(*graph);
  const std::vector<Value>& values = made->graph.values;
  WantedLayouts wanted(values.size());
  made->values.resize(values.size());
  for (size_t v = 0; v < values.size(); ++v) {
    const size_t rank = values[v].shape.size();
    if (values[v].kind == Value::Kind::Parameter) {
      wanted[v] =
          layout_of(recorded.mesh, recorded.specs.at(values[v].name), rank);
    } else if (values[v].spec) {
      wanted[v] = layout_of(recorded.mesh, *values[v].spec, rank);
    }
    if (values[v].kind == Value::Kind::Result) continue;
    made->values[v] =
        make_tensor(Element::F64, values[v].shape,
                    recorded_numbers(values[v].name, values[v].shape,
                                     values[v].integers_below));
  }
  made->program = partition(made->graph, recorded.mesh, wanted, {});
  return made;
}

// The outputs of a sharded run, put together.
std::vector<Tensor> run(const Case& what, Arithmetic arithmetic,
                        std::span<const Tensor> values) {
  ExecuteOptions options;
  options.arithmetic = arithmetic;
  const Execution execution = execute(what.program, values, options);
  std::vector<Tensor> outputs;
  for (const int number : what.program.outputs) {
    const auto r = static_cast<size_t>(number);
    const Register& at = what.program.registers[r];
    outputs.push_back(
        assemble(what.program.mesh, at.layout,
                 what.graph.values[static_cast<size_t>(at.value)].shape,
                 execution.registers[r]));
  }
  return outputs;
}

TEST_CASE("sharded runs give the results that JAX recorded") {
  for (const RecordedProgram& recorded : recorded_programs()) {
    CAPTURE(recorded.name);
    const auto what = prepare(recorded);
    std::vector<Tensor> values;
    for (const Tensor& value : what->values) {
      values.push_back(value.storage ? converted(value, Element::F32) : value);
    }
    const std::vector<Tensor> outputs = run(*what, Arithmetic::F32, values);
    REQUIRE(outputs.size() == recorded.results.size());
    for (size_t i = 0; i < outputs.size(); ++i) {
      REQUIRE(outputs[i].shape == recorded.results[i].shape);
      const Tensor expected = make_tensor(
          Element::F64, recorded.results[i].shape, recorded.results[i].values);
      CHECK(structural_error(expected, converted(outputs[i], Element::F64)) <
            1e-5);
    }
  }
}

TEST_CASE("sharded runs of the recorded programs equal unsharded ones") {
  for (const RecordedProgram& recorded : recorded_programs()) {
    CAPTURE(recorded.name);
    const auto what = prepare(recorded);
    std::vector<Tensor> residues = what->values;
    for (size_t v = 0; v < residues.size(); ++v) {
      const Value& value = what->graph.values[v];
      if (!residues[v].storage || value.integers_below != 0) continue;
      std::vector<double> numbers = values_of(residues[v]);
      for (double& x : numbers) x = field::constant(x);
      residues[v] = make_tensor(Element::F64, value.shape, numbers);
    }
    for (const Arithmetic arithmetic : {Arithmetic::F64, Arithmetic::Field}) {
      const auto& values =
          arithmetic == Arithmetic::F64 ? what->values : residues;
      const std::vector<Tensor> outputs = run(*what, arithmetic, values);
      const std::vector<Tensor> all = evaluate(what->graph, values, arithmetic);
      for (size_t i = 0; i < outputs.size(); ++i) {
        const Tensor& expected =
            all[static_cast<size_t>(what->graph.outputs[i])];
        if (arithmetic == Arithmetic::F64) {
          CHECK(structural_error(expected, outputs[i]) < kMismatch);
        } else {
          CHECK(bitwise_equal(expected, outputs[i]));
        }
      }
    }
  }
}

std::string in_quotes(const std::string& text) { return '"' + text + '"'; }

// One line: `"matmul: rows": [["all-reduce", "tp", 1792]]`, where bytes are
// those that the busiest device was seen to send.
std::string line_of(const RecordedProgram& recorded) {
  const auto what = prepare(recorded);
  const Execution execution =
      execute(what->program, what->values, {.arithmetic = Arithmetic::F64});
  std::string rows;
  for (size_t i = 0; i < execution.sent.size(); ++i) {
    const Instruction& at = what->program.instructions[i];
    const int64_t bytes =
        *std::max_element(execution.sent[i].begin(), execution.sent[i].end());
    if (bytes == 0) continue;
    std::string axes;
    for (const AxisName& axis : at.axes)
      axes += (axes.empty() ? "" : "+") + axis;
    rows += (rows.empty() ? "[" : ", [") +
            in_quotes(std::string(collective_name(at.collective))) + ", " +
            in_quotes(axes) + ", " + std::to_string(bytes) + "]";
  }
  return in_quotes(recorded.name) + ": [" + rows + "]";
}

TEST_CASE("our collectives of the recorded programs stay fixed") {
  std::string text;
  for (const RecordedProgram& recorded : recorded_programs()) {
    text += (text.empty() ? "{\n" : ",\n") + line_of(recorded);
  }
  text += "\n}\n";
  const auto path = source_dir() / "tests/data/validation/xla_ours.json";
  if (std::getenv("SHARDPLAN_UPDATE") != nullptr) {  // NOLINT
    std::ofstream(path) << text;
  }
  std::stringstream known;
  known << std::ifstream(path).rdbuf();
  CHECK(known.str() == text);
}

}  // namespace
}  // namespace shardplan
