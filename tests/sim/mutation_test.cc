// SPDX-License-Identifier: Apache-2.0
// Whether the simulator would notice: correct programs with one fault each, and
// correct programs without any.
//
// Faults that change nothing are not counted: the register in which a fault is
// must differ from that of the correct run on some device. Nor are those that a
// later operation throws away, such as rows that a slice leaves out: with other
// values too, all devices have the outputs of the correct program.
// SHARDPLAN_MUTATIONS multiplies the number of programs
// (docs/design/mutations.md).
#include <algorithm>
#include <array>
#include <cstdlib>
#include <string>

#include <doctest/doctest.h>

#include "sim/execute.h"
#include "sim/simulate.h"
#include "tests/support/faults.h"
#include "tests/support/small_graph.h"
#include "tests/support/whole_values.h"

namespace shardplan {
namespace {

using testing::FaultKind;
using testing::FaultyProgram;
using testing::kFaultKinds;
using testing::Random;

uint64_t times(uint64_t count) {
  const char* text = std::getenv("SHARDPLAN_MUTATIONS");
  const auto factor = text == nullptr ? 1 : std::strtoull(text, nullptr, 10);
  return count * std::max<uint64_t>(1, factor);
}

enum class Shapes : uint8_t { Any, Orders };

Graph graph_of(uint64_t seed, Shapes shapes, Random& random) {
  if (shapes == Shapes::Orders) return testing::random_orders(random);
  return seed % 2 == 0
             ? testing::random_graph(
                   random, static_cast<int>(testing::draw(random, 1, 10)))
             : testing::random_layers(random);
}

// A mesh, a graph and layouts, all from a seed.
struct Plan {
  explicit Plan(uint64_t seed, Shapes shapes = Shapes::Any)
      : random(seed),
        mesh(testing::random_mesh(random, 16)),
        graph(graph_of(seed, shapes, random)),
        wanted(testing::random_layouts(random, mesh, graph)),
        program(partition(graph, mesh, wanted, {})) {}

  PerValue<Tensor> values(ValueSource source) const {
    Diagnostics diags;
    return make_values(graph, source, 11, diags).value();
  }

  Random random;
  Mesh mesh;
  Graph graph;
  WantedLayouts wanted;
  Program program;
};

struct Tally {
  int faults = 0;
  int caught = 0;
  int located = 0;
  int harmless = 0;  // not among the faults
};
using Tallies = std::array<Tally, kFaultKinds>;

bool same_on_all_devices(const DeviceTensors& a, const DeviceTensors& b) {
  return std::equal(a.begin(), a.end(), b.begin(), bitwise_equal);
}

ExecuteOptions keeping(ValueSource source) {
  return {source == ValueSource::Field ? Arithmetic::Field : Arithmetic::F32, 1,
          true};
}

// Whether all devices have the outputs of the correct program, with values of
// their own.
bool is_harmless(const Plan& plan, const FaultyProgram& fault) {
  Diagnostics diags;
  auto values = make_values(plan.graph, ValueSource::Field, 23, diags).value();
  const Execution correct =
      execute(plan.program, values, keeping(ValueSource::Field));
  values.resize(fault.graph->values.size());
  const Execution run =
      execute(fault.program, values, keeping(ValueSource::Field));
  for (size_t i = 0; i < plan.program.outputs.size(); ++i) {
    const RegisterId output = plan.program.outputs[i];
    if (!same_on_all_devices(run.registers[output],
                             correct.registers[output])) {
      return false;
    }
  }
  return true;
}

void try_fault(FaultKind kind, Plan& plan, const PerValue<Tensor>& values,
               ValueSource source, const Execution& correct, Tally& tally) {
  const auto fault = testing::inject(kind, plan.program, plan.random);
  if (!fault) return;
  PerValue<Tensor> given = values;
  given.resize(fault->graph->values.size());
  const Execution run = execute(fault->program, given, keeping(source));
  const RegisterId faulty = fault->faulty;
  if (same_on_all_devices(run.registers[faulty], correct.registers[faulty])) {
    return;
  }
  SimulateOptions options;
  options.values = source;
  const Simulation result = simulate(fault->program, given, options);
  if (!result.mismatch) {
    const bool harmless = is_harmless(plan, *fault);
    ++(harmless ? tally.harmless : tally.faults);
    return;
  }
  ++tally.faults;
  ++tally.caught;
  const std::vector<ValueId> near = testing::values_near(*fault);
  tally.located +=
      std::count(near.begin(), near.end(), result.mismatch->value) > 0;
}

// The first kind of fault that has to do with order.
constexpr int kOfOrder = static_cast<int>(FaultKind::SumForMaximum);

void try_all(Plan& plan, int first, int end, ValueSource source,
             Tallies& tallies) {
  const PerValue<Tensor> values = plan.values(source);
  const Execution correct = execute(plan.program, values, keeping(source));
  for (int k = first; k < end; ++k) {
    try_fault(static_cast<FaultKind>(k), plan, values, source, correct,
              tallies[static_cast<size_t>(k)]);
  }
}

Tallies try_faults(uint64_t first_seed, uint64_t programs, ValueSource source) {
  Tallies tallies;
  for (uint64_t seed = first_seed; seed < first_seed + programs; ++seed) {
    Plan plan(seed);
    try_all(plan, 0, kOfOrder, source, tallies);
    // Which number is larger matters in few graphs.
    Plan orders(seed, Shapes::Orders);
    try_all(orders, kOfOrder, kFaultKinds, source, tallies);
  }
  return tallies;
}

void check_rates(const Tallies& tallies, int least) {
  Tally all;
  for (int k = 0; k < kFaultKinds; ++k) {
    const Tally& of_kind = tallies[static_cast<size_t>(k)];
    const std::string name(testing::fault_name(static_cast<FaultKind>(k)));
    CAPTURE(name);
    CAPTURE(of_kind.faults);
    CAPTURE(of_kind.caught);
    MESSAGE(name, ": ", of_kind.faults, " faults, ", of_kind.caught,
            " caught, ", of_kind.located, " located, ", of_kind.harmless,
            " without effect");
    CHECK(of_kind.faults > 0);
    CHECK(of_kind.caught * 100 >= of_kind.faults * 95);
    all.faults += of_kind.faults;
    all.caught += of_kind.caught;
    all.located += of_kind.located;
  }
  CHECK(all.faults >= least);
  CHECK(all.caught * 100 >= all.faults * 99);
  CHECK(all.located * 100 >= all.caught * 95);
}

TEST_CASE("mutation: in the field, a fault in a program is caught and named") {
  check_rates(try_faults(0, times(320), ValueSource::Field), 1000);
}

TEST_CASE("mutation: in floating point, a fault in a program is caught") {
  check_rates(try_faults(50'000, times(60), ValueSource::Random), 150);
}

TEST_CASE("mutation: correct plans raise no alarm") {
  int alarms = 0;
  int doubts = 0;
  for (uint64_t seed = 100'000; seed < 100'000 + times(100); ++seed) {
    const Plan plan(seed, seed % 8 < 2 ? Shapes::Orders : Shapes::Any);
    SimulateOptions options;
    options.values = seed % 4 == 0 ? ValueSource::Random : ValueSource::Field;
    const Simulation result =
        simulate(plan.program, plan.values(options.values), options);
    alarms += result.mismatch.has_value();
    doubts += verdict_of(result) == Verdict::Inconclusive;
    if (result.mismatch) MESSAGE("false alarm at seed ", seed);
  }
  CHECK(alarms == 0);
  MESSAGE(doubts, " plans whose values could not have exposed a fault");
}

}  // namespace
}  // namespace shardplan
