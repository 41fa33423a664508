// SPDX-License-Identifier: Apache-2.0
#include "sim/lanes.h"

#include <algorithm>

#include <doctest/doctest.h>

#include "sim/simulate.h"
#include "tests/support/small_graph.h"

namespace shardplan {
namespace {

using testing::SmallGraph;

constexpr int64_t kWidth = 64;

// `layers` blocks of two products and a residual, sharded as Megatron shards
// them, over weights that are gathered before use.
struct Deep {
  explicit Deep(int layers) : g("fsdp=2,tp=2") {
    int x = g.input({8, kWidth}, "fsdp, None");
    for (int i = 0; i < layers; ++i) {
      const int up = g.parameter({kWidth, 4 * kWidth}, "fsdp, tp");
      const int down = g.parameter({4 * kWidth, kWidth}, "tp, fsdp");
      const int h = g.node("gelu", {g.einsum("bd,df->bf", x, up)});
      x = g.node("add", {x, g.einsum("bf,fd->bd", h, down)});
      g.want(x, "fsdp, None");
      g.graph.probes.push_back(x);
    }
    program.emplace(g.plan());
  }
  // The most bytes of tensors at once while it is simulated.
  int64_t peak(ValueSource source) const {
    Diagnostics diags;
    const auto read = draw_values(g.graph, source, 1, diags);
    REQUIRE(read.has_value());
    SimulateOptions options;
    options.values = source;
    const int64_t before = tensor_memory().held;
    restart_peak();
    const Simulation s = simulate(*program, *read, options);
    CHECK_FALSE(s.mismatch.has_value());
    return tensor_memory().peak - before;
  }
  SmallGraph g;
  std::optional<Program> program;
};

TEST_CASE("lanes: memory does not grow with the number of layers") {
  for (const ValueSource source : {ValueSource::Random, ValueSource::Field}) {
    const int64_t shallow = Deep(3).peak(source);
    const int64_t deep = Deep(12).peak(source);
    CHECK(deep <= shallow);
    // A weight of 4 kWidth^2 numbers in both precisions, whole and gathered by
    // four devices, and the next one; not the 24 of the model.
    CHECK(deep < 6 * 4 * kWidth * kWidth * 12);
  }
}

TEST_CASE("lanes: results stay while a run needs them, and no longer") {
  Deep deep(2);
  const Lifetimes lives = lifetimes_of(*deep.program);
  HeldValues held{&deep.g.graph, &lives, read_from(deep.g.values())};
  Lanes lanes(*deep.program, lives, held, {Arithmetic::F64, 1, false});
  for (int s = 0; s + 1 < lives.stretches; ++s) {
    advance_unsharded(lanes, s);
    lanes.sharded.advance(s);
    release_results(lanes, s);
    release_values(held, s);
    for (size_t v = 0; v < lanes.unsharded.results.size(); ++v) {
      const bool there = lanes.unsharded.results[v].storage != nullptr;
      if (there) CHECK(is_needed_later(lives.needed[v], s));
    }
  }
  const auto output = static_cast<size_t>(deep.g.graph.outputs[0]);
  CHECK(lanes.unsharded.results[output].storage != nullptr);
}

TEST_CASE("lanes: results in low precision are rounded, integers are not") {
  SmallGraph g("tp=2");
  const int ids = g.input({4}, "None", 100'000);
  const int rows =
      g.node("reshape", {ids}, {{"shape", std::vector<int64_t>{2, 2}}});
  const int x = g.input({4}, "tp");
  const int y = g.node("exp", {x});
  const Program program = g.plan();
  const Lifetimes lives = lifetimes_of(program);
  HeldValues held{&g.graph, &lives, read_from(g.values()), false,
                  Storage::BF16};
  Lanes lanes(program, lives, held,
              {Arithmetic::F32, 1, false, Storage::BF16, Storage::BF16});
  for (int s = 0; s < lives.stretches; ++s) {
    advance_unsharded(lanes, s);
    lanes.sharded.advance(s);
  }
  CHECK(values_of(whole_of(lanes.unsharded, rows)) ==
        values_of(g.values()[static_cast<size_t>(ids)]));
  const std::vector<double> numbers = values_of(whole_of(lanes.unsharded, y));
  for (const double number : numbers) {
    CHECK(rounded(static_cast<float>(number), Storage::BF16) == number);
  }
  const Execution run = lanes.sharded.finish();
  const auto output = static_cast<size_t>(program.outputs[1]);
  CHECK(values_of(assemble(program.mesh, program.registers[output].layout, {4},
                           run.registers[output])) == numbers);
}

}  // namespace
}  // namespace shardplan
