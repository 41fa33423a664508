// SPDX-License-Identifier: Apache-2.0
#include "sim/simulate.h"

#include <doctest/doctest.h>

#include "tests/support/random_graph.h"

namespace shardplan {
namespace {

using testing::Random;

// The seed in a failure's message makes the same graph again.
Simulation simulated(uint64_t seed, ValueSource source, Overlap overlap,
                     const char* algorithm) {
  Random random(seed);
  const Mesh mesh = testing::random_mesh(random, 16);
  const Graph graph = testing::random_graph(
      random, static_cast<int>(testing::draw(random, 1, 12)));
  const WantedLayouts wanted = testing::random_layouts(random, mesh, graph);
  SimulateOptions options;
  options.values = source;
  options.partition = {overlap, find_algorithm(algorithm)};
  const Program program = partition(graph, mesh, wanted, options.partition);
  Diagnostics diags;
  const auto values = make_values(graph, source, 7, diags);
  REQUIRE(values.has_value());
  return simulate(program, *values, options);
}

TEST_CASE("simulate: random plans compute exactly what the graph computes") {
  static const Overlap kOverlaps[] = {Overlap::Off, Overlap::Ring,
                                      Overlap::Bidirectional, Overlap::Split};
  for (uint64_t seed = 0; seed < 300; ++seed) {
    CAPTURE(seed);
    const std::string_view algorithm =
        algorithms()[seed % algorithms().size()].name;
    const Simulation s =
        simulated(seed, ValueSource::Field, kOverlaps[seed / 2 % 4],
                  std::string(algorithm).c_str());
    CHECK_FALSE(s.mismatch.has_value());
    CHECK(s.bytes_moved == s.bytes_priced);
  }
}

TEST_CASE("simulate: random plans raise no false alarm in floating point") {
  for (uint64_t seed = 1000; seed < 1200; ++seed) {
    CAPTURE(seed);
    const Simulation s =
        simulated(seed, ValueSource::Random, Overlap::Off, "ring");
    CHECK_FALSE(s.mismatch.has_value());
    CHECK(s.bytes_moved == s.bytes_priced);
    if (s.bound_ratio) CHECK(*s.bound_ratio <= 1);
  }
}

}  // namespace
}  // namespace shardplan
