// SPDX-License-Identifier: Apache-2.0
// Every reduction of the shipped graphs, dropped, doubled, of another kind or
// over another axis: the diagnosis must name what was done.
#include "sim/reduction_fault.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "base/allocation.h"
#include "base/shipped.h"
#include "base/words.h"
#include "io/graph/graph_file.h"
#include "sim/simulate.h"
#include "spmd/layout.h"
#include "tests/support/built_graph.h"
#include "tests/support/random_graph.h"
#include "tests/support/small_graph.h"
#include "tests/support/whole_values.h"

namespace shardplan {
namespace {

using Problem = ReductionFault::Problem;

bool is_sum_or_max(const Instruction& at) {
  return at.kind == Instruction::Kind::Collective &&
         (at.collective == CollectiveKind::AllReduce ||
          at.collective == CollectiveKind::ReduceScatter);
}

// What a program is broken by, and what must be said of it.
struct Broken {
  Program program;
  Problem problem = Problem::Missing;
  AxisNames axes;
  ValueId value = {};
};

std::optional<Broken> dropped(const Program& program, InstructionId i) {
  Broken broken{program, Problem::Missing, program.instructions[i].axes, {}};
  Instruction& at = broken.program.instructions[i];
  at.kind = Instruction::Kind::Slice;
  if (at.collective == CollectiveKind::AllReduce) at.axes.clear();
  return broken;
}

std::optional<Broken> doubled(const Program& program, InstructionId i) {
  Broken broken{program, Problem::Extra, program.instructions[i].axes, {}};
  Program& made = broken.program;
  Instruction again = made.instructions[i];
  if (again.collective != CollectiveKind::AllReduce) return std::nullopt;
  const auto first = RegisterId(made.registers.size());
  made.registers.push_back(made.registers[again.result]);
  made.instructions[i].result = first;
  again.operands = {first};
  made.instructions.insert(made.instructions.begin() + i.number + 1, again);
  return broken;
}

std::optional<Broken> of_other_kind(const Program& program, InstructionId i) {
  Broken broken{program, Problem::WrongKind, program.instructions[i].axes, {}};
  Reduction& kind = broken.program.instructions[i].reduction;
  kind = kind == Reduction::Sum ? Reduction::Max : Reduction::Sum;
  return broken;
}

std::optional<Broken> over_other_axis(const Program& program, InstructionId i) {
  Broken broken{program, Problem::WrongAxes, program.instructions[i].axes, {}};
  Instruction& at = broken.program.instructions[i];
  if (at.collective != CollectiveKind::AllReduce || at.axes.size() != 1) {
    return std::nullopt;
  }
  for (const Axis& axis : program.mesh.axes()) {
    if (axis.name == at.axes[0] ||
        axis.size != program.mesh.size_of(at.axes[0])) {
      continue;
    }
    at.axes = {axis.name};
    return broken;
  }
  return std::nullopt;
}

using Break = std::optional<Broken> (*)(const Program&, InstructionId);

struct Named {
  int seen = 0;   // faults that changed something
  int right = 0;  // of these, named as what they are
};

// Whether the register holds something else than in the correct run, and is the
// first that does.
void try_break(Break how, const Program& program, InstructionId i,
               ValueSource source, const PerValue<Tensor>& values,
               Named& named) {
  auto broken = how(program, i);
  if (!broken) return;
  const RegisterId result = program.instructions[i].result;
  broken->value = program.registers[result].value;
  SimulateOptions options;
  options.values = source;
  const Simulation run = simulate(broken->program, values, options);
  if (!run.mismatch) return;
  ++named.seen;
  const auto& fault = run.mismatch->fault;
  const bool right = fault && fault->problem == broken->problem &&
                     run.mismatch->value == broken->value &&
                     std::all_of(broken->axes.begin(), broken->axes.end(),
                                 [&](const AxisName& axis) {
                                   return contains(fault->axes, axis);
                                 });
  named.right += right;
  if (right) return;
  MESSAGE(program.graph->values[broken->value].name, " ",
          static_cast<int>(broken->problem), ": ",
          fault ? static_cast<int>(fault->problem) : -1);
}

// A graph and programs of it.
struct Partitioned {
  decltype(testing::shipped_graph("")) built;
  std::vector<Program> programs;
};

// The same for every kind of fault, so they are made once.
const std::vector<Partitioned>& partitioned_graphs() {
  static const std::vector<Partitioned> kAll = [] {
    std::vector<Partitioned> all;
    testing::Random random(15);
    const testing::SmallGraph mesh("dp=2,tp=2");
    for (const std::string& name : shipped_names(kGraphFolder)) {
      Partitioned each{testing::shipped_graph(name), {}};
      REQUIRE_MESSAGE(each.built->graph, each.built->messages);
      const Graph& graph = *each.built->graph;
      // Sanitizers look at few.
      for (int trial = 0; trial < (kCountsAllocations ? 4 : 2); ++trial) {
        const WantedLayouts wanted =
            testing::random_layouts(random, mesh.mesh, graph);
        each.programs.push_back(partition(graph, mesh.mesh, wanted, {}));
      }
      all.push_back(std::move(each));
    }
    return all;
  }();
  return kAll;
}

Named try_shipped_graphs(Break how, ValueSource source) {
  Named named;
  for (const Partitioned& each : partitioned_graphs()) {
    Diagnostics diags;
    const auto values =
        make_values(*each.built->graph, source, 5, diags).value();
    for (const Program& program : each.programs) {
      for (const InstructionId i : program.instructions.ids()) {
        if (!is_sum_or_max(program.instructions[i])) continue;
        try_break(how, program, i, source, values, named);
      }
    }
  }
  return named;
}

void check_named(Break how, int least) {
  for (const ValueSource source : {ValueSource::Field, ValueSource::Random}) {
    CAPTURE(static_cast<int>(source));
    const Named named = try_shipped_graphs(how, source);
    MESSAGE(named.seen, " seen, ", named.right, " named");
    CHECK(named.seen >= least);
    CHECK(named.right == named.seen);
  }
}

TEST_CASE("reduction faults: a dropped one is missing") {
  check_named(dropped, 10);
}

TEST_CASE("reduction faults: a doubled one is one too many") {
  check_named(doubled, 5);
}

TEST_CASE("reduction faults: another kind is told from the right one") {
  check_named(of_other_kind, 10);
}

TEST_CASE("reduction faults: another axis is told from the right one") {
  check_named(over_other_axis, 3);
}

// x [4, 16] cut along its features, and a bias on every device.
Simulation of_added_bias(ValueSource source) {
  testing::SmallGraph g("dp=2,tp=4");
  const ValueId x = g.input({4, 16}, "None, tp");
  const ValueId w = g.parameter({16, 8}, "tp, None");
  const ValueId b = g.parameter({8}, "None");
  const ValueId product = g.einsum("bd,df->bf", x, w);
  const ValueId y = g.node("add", {product, b});
  auto& nodes = g.graph.nodes;
  nodes[NodeId(0)].shard_map =
      ShardMapUse{{{{{}, {"tp"}}}, {{{"tp"}, {}}}}, {{{}, {}}}, {"tp"}};
  nodes[NodeId(1)].shard_map =
      ShardMapUse{{{{{}, {}}}, {{{}}}}, {{{}, {}}}, {"tp"}};
  nodes[NodeId(1)].inner_operand = 0;
  const Program program = g.plan();
  SimulateOptions options;
  options.values = source;
  Simulation run = simulate(program, g.values(source), options);
  REQUIRE(run.mismatch);
  CHECK(run.mismatch->value == y);
  REQUIRE(run.mismatch->fault);
  CHECK(run.mismatch->fault->operand == b);
  return run;
}

TEST_CASE("reduction faults: a bias that every device adds is named") {
  for (const ValueSource source : {ValueSource::Field, ValueSource::Random}) {
    const Simulation run = of_added_bias(source);
    CHECK(run.mismatch->fault->problem == Problem::AddedByAll);
    CHECK(run.mismatch->fault->axes == AxisNames{"tp"});
    CHECK(run.mismatch->fault->times == 4);
  }
}

// The mean of every device's own features, with and without a sum of these.
TEST_CASE("reduction faults: a mean is told from a sum") {
  for (const bool summed : {false, true}) {
    CAPTURE(summed);
    testing::SmallGraph g("dp=2,tp=4");
    const ValueId x = g.input({4, 16}, "None, tp");
    g.node("mean", {x}, {{"dims", std::vector<int64_t>{1}}});
    g.graph.nodes[NodeId(0)].shard_map = ShardMapUse{
        {{{{}, {"tp"}}}}, {{{}}}, summed ? AxisNames{"tp"} : AxisNames{}};
    const Program program = g.plan();
    SimulateOptions options;
    options.values = ValueSource::Field;
    const Simulation run =
        simulate(program, g.values(ValueSource::Field), options);
    REQUIRE(run.mismatch);
    REQUIRE(run.mismatch->fault);
    const ReductionFault& fault = *run.mismatch->fault;
    CHECK(fault.kind == ReducedBy::Mean);
    CHECK(fault.axes == AxisNames{"tp"});
    CHECK(fault.problem == (summed ? Problem::WrongKind : Problem::Missing));
  }
}

TEST_CASE("reduction faults: what no reduction explains is left unexplained") {
  testing::SmallGraph g("tp=2");
  const ValueId x = g.input({4, 8}, "None, tp");
  const ValueId y = g.node("square", {x});
  Program program = g.plan();
  // Devices square each other's shard.
  for (Instruction& at : program.instructions) {
    if (at.kind != Instruction::Kind::Compute) continue;
    Instruction swap;
    swap.kind = Instruction::Kind::Collective;
    swap.collective = CollectiveKind::Permute;
    swap.sources = {1, 0};
    swap.operands = at.operands;
    swap.result = RegisterId(program.registers.size());
    program.registers.push_back(program.registers[at.operands[0]]);
    at.operands = {swap.result};
    program.instructions.insert(program.instructions.begin() + 1, swap);
    break;
  }
  SimulateOptions options;
  options.values = ValueSource::Field;
  const Simulation run =
      simulate(program, g.values(ValueSource::Field), options);
  REQUIRE(run.mismatch);
  CHECK((run.mismatch->value == x || run.mismatch->value == y));
  CHECK_FALSE(run.mismatch->fault);
}

}  // namespace
}  // namespace shardplan
