// SPDX-License-Identifier: Apache-2.0
#include "sim/paired_runs.h"

#include <algorithm>
#include <map>

#include <doctest/doctest.h>

#include "sim/simulate.h"
#include "tests/support/small_graph.h"

namespace shardplan {
namespace {

using testing::SmallGraph;

// w is used by nodes 0 and 1, then by the last; the ids by the first alone.
struct Three {
  explicit Three(int between) : g("tp=1") {
    ids = g.input({4}, "", 300);
    x = g.input({8, 8}, "");
    w = g.parameter({8, 8}, "");
    int y = g.einsum("bd,df->bf", x, w);
    y = g.einsum("bd,df->bf", y, w);
    for (int i = 0; i < between; ++i) y = g.node("relu", {y});
    last = g.einsum("bd,df->bf", y, w);
    g.node("embedding", {last, ids});
    program.emplace(g.plan());
    lives = lifetimes_of(*program);
    given = g.values();
  }
  ValueCache cache(Storage storage = Storage::F32) {
    return {&g.graph, &lives,
            [this](int value, Element element) {
              ++reads[value];
              CHECK(element == Element::F32);
              return given[static_cast<size_t>(value)];
            },
            false, storage};
  }
  SmallGraph g;
  int ids = 0, x = 0, w = 0, last = 0;
  std::optional<Program> program;
  Lifetimes lives;
  std::vector<Tensor> given;
  std::map<int, int> reads;
};

TEST_CASE("held values: all runs read the same, once") {
  Three t(0);
  ValueCache cache = t.cache();
  const Tensor single = cached_value(cache, t.w, Element::F32);
  const Tensor wide = cached_value(cache, t.w, Element::F64);
  CHECK(values_of(single) == values_of(wide));
  CHECK(wide.element == Element::F64);
  CHECK(cached_value(cache, t.w, Element::F64).storage == wide.storage);
  CHECK(t.reads[t.w] == 1);
}

TEST_CASE("held values: a weight is let go of, and read again far on") {
  for (const int between : {0, 20}) {
    CAPTURE(between);
    Three t(between);
    ValueCache cache = t.cache();
    cached_value(cache, t.w, Element::F64);
    cached_value(cache, t.x, Element::F64);
    release_values(cache, 0);
    cached_value(cache, t.w, Element::F64);
    CHECK(t.reads[t.w] == 1);
    release_values(cache, 1);
    const auto w = static_cast<size_t>(t.w);
    CHECK((cache.doubles[w].storage == nullptr) == (between == 20));
    // The input was read for the last time.
    CHECK(cache.doubles[static_cast<size_t>(t.x)].storage == nullptr);
    cached_value(cache, t.w, Element::F64);
    CHECK(t.reads[t.w] == (between == 20 ? 2 : 1));
  }
}

TEST_CASE("held values: doubles go first, unless they are needed again") {
  for (const int between : {0, 20}) {
    CAPTURE(between);
    Three t(between);
    ValueCache cache = t.cache();
    for (const int value : {t.w, t.ids})
      cached_value(cache, value, Element::F64);
    release_doubles(cache, 1);
    const auto w = static_cast<size_t>(t.w);
    CHECK((cache.doubles[w].storage == nullptr) == (between == 20));
    CHECK(cache.singles[w].storage != nullptr);
    CHECK(cache.doubles[static_cast<size_t>(t.ids)].storage != nullptr);
  }
}

TEST_CASE("held values: inputs are kept for as long as anyone reads them") {
  Three t(20);
  ValueCache cache = t.cache();
  cached_value(cache, t.ids, Element::F32);
  release_values(cache, 0);
  cached_value(cache, t.ids, Element::F32);
  CHECK(t.reads[t.ids] == 1);
}

TEST_CASE("held values: every run computes with what is stored") {
  Three t(0);
  ValueCache cache = t.cache(Storage::BF16);
  const std::vector<double> before =
      values_of(t.given[static_cast<size_t>(t.w)]);
  const std::vector<double> single =
      values_of(cached_value(cache, t.w, Element::F32));
  CHECK(values_of(cached_value(cache, t.w, Element::F64)) == single);
  CHECK(single != before);
  for (size_t i = 0; i < single.size(); ++i) {
    CHECK(single[i] == rounded(static_cast<float>(before[i]), Storage::BF16));
  }
  // What was given is not written to; integers are no measurements.
  CHECK(values_of(t.given[static_cast<size_t>(t.w)]) == before);
  CHECK(values_of(cached_value(cache, t.ids, Element::F32)) ==
        values_of(t.given[static_cast<size_t>(t.ids)]));
}

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
  ValueCache cache{&deep.g.graph, &lives, read_from(deep.g.values())};
  PairedRuns runs(*deep.program, lives, cache, {Arithmetic::F64, 1, false});
  for (int s = 0; s + 1 < lives.phases; ++s) {
    advance_unsharded(runs, s);
    runs.sharded.advance(s);
    release_results(runs, s);
    release_values(cache, s);
    for (size_t v = 0; v < runs.unsharded.results.size(); ++v) {
      const bool there = runs.unsharded.results[v].storage != nullptr;
      if (there) CHECK(is_needed_later(lives.needed[v], s));
    }
  }
  const auto output = static_cast<size_t>(deep.g.graph.outputs[0]);
  CHECK(runs.unsharded.results[output].storage != nullptr);
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
  ValueCache cache{&g.graph, &lives, read_from(g.values()), false,
                   Storage::BF16};
  PairedRuns runs(program, lives, cache,
                  {Arithmetic::F32, 1, false, Storage::BF16, Storage::BF16});
  for (int s = 0; s < lives.phases; ++s) {
    advance_unsharded(runs, s);
    runs.sharded.advance(s);
  }
  CHECK(values_of(whole_of(runs.unsharded, rows)) ==
        values_of(g.values()[static_cast<size_t>(ids)]));
  const std::vector<double> numbers = values_of(whole_of(runs.unsharded, y));
  for (const double number : numbers) {
    CHECK(rounded(static_cast<float>(number), Storage::BF16) == number);
  }
  const Execution run = runs.sharded.finish();
  const auto output = static_cast<size_t>(program.outputs[1]);
  CHECK(values_of(assemble(program.mesh, program.registers[output].layout, {4},
                           run.registers[output])) == numbers);
}

}  // namespace

}  // namespace shardplan
