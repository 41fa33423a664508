// SPDX-License-Identifier: Apache-2.0
#include "spmd/overlap.h"

#include <doctest/doctest.h>

#include "sim/simulate.h"
#include "tests/support/random_graph.h"
#include "tests/support/small_graph.h"

namespace shardplan {
namespace {

using testing::moves;
using testing::SmallGraph;

constexpr Overlap kForms[] = {Overlap::Ring, Overlap::Bidirectional,
                              Overlap::Split};

// The sequence is sharded before and after: an all-gather feeds the first
// product, and a reduce-scatter drains the second.
struct SequenceParallel {
  SequenceParallel() : g("tp=4") {
    const int x = g.input({2, 8, 16}, "None, tp, None");
    const int up = g.parameter({16, 64}, "None, tp");
    const int down = g.parameter({64, 16}, "tp, None");
    const int h = g.node("gelu", {g.einsum("bsd,df->bsf", x, up)});
    g.want(g.einsum("bsf,fd->bsd", h, down), "None, tp, None");
  }
  SmallGraph g;
};

TEST_CASE("overlap: products are joined with what feeds and drains them") {
  SequenceParallel s;
  CHECK(moves(s.g.plan()) ==
        "all-gather over tp of x0 (implicit); "
        "reduce-scatter over tp of v5 (partial sum)");
  for (const Overlap form : kForms) {
    const Program program = s.g.plan({form, nullptr});
    CHECK(moves(program) ==
          "overlapped all-gather over tp of x0 (implicit); "
          "overlapped reduce-scatter over tp of v5 (partial sum)");
    for (const Instruction& at : program.instructions) {
      if (at.overlap == Overlap::Off) continue;
      CHECK(at.overlap == form);
      CHECK(at.algorithm == &overlap_algorithm(form));
      CHECK(at.dim == 1);
    }
  }
}

TEST_CASE(
    "overlap: a gathered value that two products read is gathered apart") {
  SmallGraph g("tp=2");
  const int x = g.input({2, 4, 8}, "None, tp, None");
  for (int i = 0; i < 2; ++i) {
    g.einsum("bsd,df->bsf", x, g.parameter({8, 16}, "None, tp"));
  }
  CHECK(moves(g.plan({Overlap::Ring, nullptr})) ==
        "all-gather over tp of x0 (implicit)");
}

TEST_CASE("overlap: an all-gather that feeds something else stays") {
  SmallGraph g("tp=2");
  const int x = g.input({4, 8}, "tp, None");
  g.node("relu", {g.constrained(x, "None, None")});
  CHECK(moves(g.plan({Overlap::Ring, nullptr})) ==
        "all-gather over tp of v1 (declared)");
}

TEST_CASE("overlap: the forms are the algorithms of these names") {
  CHECK(overlap_algorithm(Overlap::Ring).name == "ring");
  CHECK(overlap_algorithm(Overlap::Bidirectional).name == "bidirectional-ring");
  CHECK(overlap_algorithm(Overlap::Split).name == "split-ring");
}

TEST_CASE("overlap: results are the same, and so are the bytes") {
  SequenceParallel s;
  SimulateOptions options;
  options.values = ValueSource::Field;
  const Program apart = s.g.plan();
  const std::vector<Tensor> values = s.g.values(ValueSource::Field);
  const Simulation plain = simulate(apart, values, options);
  CHECK_FALSE(plain.mismatch.has_value());
  for (const Overlap form : kForms) {
    options.partition.overlap = form;
    const Simulation joined =
        simulate(s.g.plan({form, nullptr}), values, options);
    CHECK_FALSE(joined.mismatch.has_value());
    CHECK(joined.bytes_moved == plain.bytes_moved);
    CHECK(joined.bytes_priced == plain.bytes_priced);
    CHECK(joined.flops >= plain.flops);
  }
}

}  // namespace
}  // namespace shardplan
