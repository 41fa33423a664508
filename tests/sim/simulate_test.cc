// SPDX-License-Identifier: Apache-2.0

#include "sim/simulate.h"

#include <algorithm>
#include <map>

#include <doctest/doctest.h>

#include "base/checked.h"
#include "graph/buffers.h"
#include "tests/support/random_graph.h"
#include "tests/support/small_graph.h"
#include "tests/support/whole_values.h"

namespace shardplan {
namespace {

using testing::Random;
using testing::SmallGraph;

// The seed in a failure's message makes the same graph again.
Simulation simulated(uint64_t seed, ValueSource source, Overlap overlap,
                     const char* algorithm) {
  Random random(seed);
  const Mesh mesh = testing::random_mesh(random, 16);
  const Graph graph = testing::random_graph(
      random, static_cast<int>(testing::draw(random, 1, 12)));
  WantedLayouts wanted = testing::random_layouts(random, mesh, graph);
  testing::cut_unevenly(random, mesh, graph, wanted);
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

// Runs in the field counted 4 bytes of every number, whatever the type that was
// asked for and priced.
TEST_CASE(
    "simulate: bytes are those of the type that is sent, however counted") {
  static const ValueSource kSources[] = {ValueSource::Field,
                                         ValueSource::Random};
  static const Storage kTypes[] = {Storage::F32, Storage::BF16, Storage::F16};
  static const Overlap kForms[] = {Overlap::Off, Overlap::Ring};
  for (const Overlap form : kForms) {
    for (const Storage storage : kTypes) {
      for (const Storage reduce : kTypes) {
        std::vector<int64_t> moved;
        for (const ValueSource source : kSources) {
          SmallGraph g("fsdp=2,tp=2");
          const ValueId x = g.input({4, 8}, "fsdp, None");
          const ValueId h =
              g.einsum("bd,df->bf", x, g.parameter({8, 16}, "fsdp, tp"));
          g.want(g.einsum("bf,fd->bd", h, g.parameter({16, 8}, "tp, fsdp")),
                 "fsdp, None");
          SimulateOptions options;
          options.values = source;
          options.storage = storage;
          options.reduce = reduce;
          options.partition.overlap = form;
          const Simulation s =
              simulate(g.plan(options.partition), g.values(source), options);
          CHECK_FALSE(s.mismatch.has_value());
          CHECK(s.bytes_moved == s.bytes_priced);
          moved.push_back(s.bytes_moved);
        }
        CHECK(moved[0] > 0);
        CHECK(moved[0] == moved[1]);
      }
    }
  }
}

TEST_CASE("simulate: bytes that were not priced as moved are a bug of ours") {
  MovedBytes row{
      {{}, CollectiveKind::AllGather, {"tp"}, "ring", 512, Cause::Implicit},
      512,
      128};
  CHECK_NOTHROW(check_price(row));
  row.moved = 1024;
  CHECK_THROWS_WITH_AS(check_price(row),
                       "a collective (all-gather, ring) moved 1024 bytes and "
                       "is priced as 512",
                       InternalError);
}

// x -> up -> gelu -> down, with an all-reduce at the end; then a relu.
struct Mlp {
  Mlp() : g("tp=4") {
    const ValueId x = g.input({2, 8}, "None, None");
    const ValueId h =
        g.einsum("bd,df->bf", x, g.parameter({8, 16}, "None, tp"));
    const ValueId a = g.node("gelu", {h});
    y = g.einsum("bf,fd->bd", a, g.parameter({16, 8}, "tp, None"));
    z = g.node("relu", {y});
    g.want(z, "None, None");
  }
  Instruction& all_reduce(Program& program) const {
    for (Instruction& at : program.instructions) {
      if (at.kind == Instruction::Kind::Collective) return at;
    }
    FAIL("there is no collective");
    return program.instructions[InstructionId(0)];
  }
  Simulation run(const Program& program, ValueSource source) const {
    SimulateOptions options;
    options.values = source;
    return simulate(program, g.values(source), options);
  }
  SmallGraph g;
  ValueId y, z;
};

TEST_CASE("simulate: a correct program, and what it cost") {
  Mlp mlp;
  const Program program = mlp.g.plan();
  const Simulation s = mlp.run(program, ValueSource::Random);
  CHECK_FALSE(s.mismatch.has_value());
  CHECK(s.structural_error < 1e-12);
  REQUIRE(s.bound_ratio.has_value());
  CHECK(*s.bound_ratio <= 1);
  REQUIRE(s.collectives.size() == 1);
  // 64 bytes: 2 (n - 1) copies over all, 2 (n - 1)/n of it per device.
  CHECK(s.collectives[0].moved == 6 * 64);
  CHECK(s.collectives[0].bytes_per_device == 96);
  CHECK(s.bytes_moved == s.bytes_priced);
  // Products and gelu (9 steps) are cut in four, the relu is done by all.
  CHECK(s.unsharded_flops == 2 * 2 * 2 * 8 * 16 + 9 * 2 * 16 + 2 * 8);
  CHECK(s.flops == 2 * 2 * 2 * 8 * 4 + 9 * 2 * 4 + 2 * 8);
}

TEST_CASE("simulate: names the operation and the device where results part") {
  for (const ValueSource source : {ValueSource::Field, ValueSource::Random}) {
    Mlp mlp;
    Program program = mlp.g.plan();
    // Nothing is summed: every device takes its part for the sum.
    Instruction& sum = mlp.all_reduce(program);
    sum.kind = Instruction::Kind::Slice;
    sum.axes.clear();
    const Simulation dropped = mlp.run(program, source);
    REQUIRE(dropped.mismatch.has_value());
    CHECK(dropped.mismatch->value == mlp.y);
    CHECK(dropped.mismatch->device == 0);
    CHECK(dropped.mismatch->error > 1e-6);
    CHECK_FALSE(dropped.mismatch->isolated);
  }
}

TEST_CASE("simulate: the device is the one that has something else") {
  Mlp mlp;
  Program program = mlp.g.plan();
  // Devices 2 and 3 get each other's columns of the first weight.
  Instruction swap;
  swap.kind = Instruction::Kind::Collective;
  swap.collective = CollectiveKind::Permute;
  swap.sources = {0, 1, 3, 2};
  for (const InstructionId i : program.instructions.ids()) {
    Instruction& load = program.instructions[i];
    const auto number = load.result;
    if (program.registers[number].value != ValueId(1)) continue;
    swap.result = load.result;
    load.result = RegisterId(program.registers.size());
    swap.operands = {load.result};
    program.registers.push_back(program.registers[number]);
    program.instructions.insert(program.instructions.begin() + i.number + 1,
                                swap);
    break;
  }
  const Simulation swapped = mlp.run(program, ValueSource::Field);
  REQUIRE(swapped.mismatch.has_value());
  CHECK(swapped.mismatch->value == ValueId(1));
  CHECK(swapped.mismatch->device == 2);
}

// An all-reduce after which the last rank alone has the sum.
Schedule sum_at_last(CollectiveKind /*kind*/, const Ranks& ranks) {
  Schedule schedule = empty_schedule(ranks.count, 1);
  Step& step = schedule.steps.emplace_back();
  for (int r = 0; r + 1 < ranks.count; ++r) {
    step.push_back({r, ranks.count - 1, 0, 1, true});
  }
  return schedule;
}

TEST_CASE(
    "simulate: replicas that differ are a mismatch, though one is right") {
  const Algorithm algorithm{
      "last",
      "",
      [](CollectiveKind, const Ranks&) { return true; },
      sum_at_last,
      [](CollectiveKind, const Ranks& ranks, int rank, int64_t payload) {
        return rank + 1 < ranks.count ? payload : 0;
      },
      [](CollectiveKind, const Ranks& ranks) {
        return static_cast<int64_t>(ranks.count) - 1;
      }};
  for (const ValueSource source : {ValueSource::Field, ValueSource::Random}) {
    Mlp mlp;
    Program program = mlp.g.plan();
    mlp.all_reduce(program).algorithm = &algorithm;
    const Simulation s = mlp.run(program, source);
    REQUIRE(s.mismatch.has_value());
    CHECK(s.mismatch->value == mlp.y);
    CHECK(s.mismatch->device == 0);
  }
}

TEST_CASE("simulate: says how far it is, and stops when asked to") {
  Mlp mlp;
  const Program program = mlp.g.plan();
  for (const ValueSource source : {ValueSource::Field, ValueSource::Random}) {
    std::vector<std::string> said;
    int asked = 0;
    SimulateOptions options;
    options.values = source;
    options.progress = [&](const char* stage) { said.emplace_back(stage); };
    options.stop = [&] { return ++asked == 3; };
    const Simulation s = simulate(program, mlp.g.values(source), options);
    CHECK(s.stopped);
    CHECK(asked == 3);
    CHECK(s.collectives.empty());
    CHECK(said == std::vector<std::string>{"running (node 1 of 4)",
                                           "running (node 2 of 4)",
                                           "running (node 3 of 4)"});
    options.stop = {};
    CHECK_FALSE(simulate(program, mlp.g.values(source), options).stopped);
  }
}

TEST_CASE("simulate: the share of the work that is done grows from 0") {
  Mlp mlp;
  const Program program = mlp.g.plan();
  for (const ValueSource source : {ValueSource::Field, ValueSource::Random}) {
    std::vector<double> done;
    SimulateOptions options;
    options.values = source;
    options.step = [&](const char* work, const char*, double share) {
      if (std::string(work) == "running") done.push_back(share);
    };
    CHECK_FALSE(simulate(program, mlp.g.values(source), options).stopped);
    REQUIRE(done.size() == 4);
    CHECK(done[0] == 0);
    CHECK(std::is_sorted(done.begin(), done.end()));
    CHECK(done[3] < 1);
    // Products are nearly all of it.
    CHECK(done[1] > 0.1);
  }
}

TEST_CASE("simulate: stops as well where it looks for a difference") {
  Mlp mlp;
  Program program = mlp.g.plan();
  Instruction& sum = mlp.all_reduce(program);
  sum.kind = Instruction::Kind::Slice;
  sum.axes.clear();
  SimulateOptions options;
  int asked = 0;
  // Five phases of the runs, then the first of the search.
  options.stop = [&] { return ++asked == 6; };
  CHECK(simulate(program, mlp.g.values(), options).stopped);
  CHECK(asked == 6);
}

TEST_CASE("simulate: errors at probes, in their order") {
  Mlp mlp;
  mlp.g.graph.probes = {mlp.z, mlp.y};
  const Program program = mlp.g.plan();
  const Simulation s = mlp.run(program, ValueSource::Random);
  REQUIRE(s.probes.size() == 2);
  CHECK(s.probes[0].value == mlp.z);
  CHECK(s.probes[1].value == mlp.y);
  for (const ProbeError& probe : s.probes) {
    CHECK(probe.unsharded > 0);
    CHECK(probe.unsharded < 1e-6);
    CHECK(probe.sharded > 0);
    CHECK(probe.sharded < 1e-6);
  }
  SimulateOptions options;
  options.storage = Storage::BF16;
  options.reduce = Storage::BF16;
  const Simulation low = simulate(program, mlp.g.values(), options);
  CHECK_FALSE(low.mismatch.has_value());
  // bf16 has 16 bits less than float32.
  CHECK(low.probes[1].sharded > 1e-4);
  CHECK(low.probes[1].sharded < 1e-1);
  CHECK(mlp.run(program, ValueSource::Field).probes.empty());
}

TEST_CASE("simulate: values are asked for one node at a time") {
  Mlp mlp;
  const Program program = mlp.g.plan();
  const PerValue<Tensor> values = mlp.g.values();
  std::vector<int> asked;
  const ReadValue read = [&](ValueId value, Element element) {
    asked.push_back(value.number);
    CHECK(element == Element::F32);
    return values[value];
  };
  const Simulation s = simulate(program, read, {});
  CHECK_FALSE(s.mismatch.has_value());
  // The input and the first weight, then the second.
  CHECK(asked == std::vector<int>{0, 1, 4});
}

using testing::SmallGraph;

// w is used by nodes 0 and 1, then by the last; the ids by the first alone.
struct Three {
  explicit Three(int between) : g("tp=1") {
    ids = g.input({4}, "", 300);
    x = g.input({8, 8}, "");
    w = g.parameter({8, 8}, "");
    ValueId y = g.einsum("bd,df->bf", x, w);
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
            [this](ValueId value, Element element) {
              ++reads[value];
              CHECK(element == Element::F32);
              return given[value];
            },
            false, storage};
  }
  SmallGraph g;
  ValueId ids, x, w, last;
  std::optional<Program> program;
  Lifetimes lives;
  PerValue<Tensor> given;
  std::map<ValueId, int> reads;
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
    const auto w = t.w;
    CHECK((cache.doubles[w].storage == nullptr) == (between == 20));
    // The input was read for the last time.
    CHECK(cache.doubles[t.x].storage == nullptr);
    cached_value(cache, t.w, Element::F64);
    CHECK(t.reads[t.w] == (between == 20 ? 2 : 1));
  }
}

TEST_CASE("held values: doubles go first, unless they are needed again") {
  for (const int between : {0, 20}) {
    CAPTURE(between);
    Three t(between);
    ValueCache cache = t.cache();
    for (const ValueId value : {t.w, t.ids})
      cached_value(cache, value, Element::F64);
    release_doubles(cache, 1);
    const auto w = t.w;
    CHECK((cache.doubles[w].storage == nullptr) == (between == 20));
    CHECK(cache.singles[w].storage != nullptr);
    CHECK(cache.doubles[t.ids].storage != nullptr);
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
  const std::vector<double> before = values_of(t.given[t.w]);
  const std::vector<double> single =
      values_of(cached_value(cache, t.w, Element::F32));
  CHECK(values_of(cached_value(cache, t.w, Element::F64)) == single);
  CHECK(single != before);
  for (size_t i = 0; i < single.size(); ++i) {
    CHECK(single[i] == rounded(static_cast<float>(before[i]), Storage::BF16));
  }
  // What was given is not written to; integers are no measurements.
  CHECK(values_of(t.given[t.w]) == before);
  CHECK(values_of(cached_value(cache, t.ids, Element::F32)) ==
        values_of(t.given[t.ids]));
}

constexpr int64_t kWidth = 64;

// `layers` blocks of two products and a residual, sharded as Megatron shards
// them, over weights that are gathered before use.
struct Deep {
  explicit Deep(int layers) : g("fsdp=2,tp=2") {
    ValueId x = g.input({8, kWidth}, "fsdp, None");
    for (int i = 0; i < layers; ++i) {
      const ValueId up = g.parameter({kWidth, 4 * kWidth}, "fsdp, tp");
      const ValueId down = g.parameter({4 * kWidth, kWidth}, "tp, fsdp");
      const ValueId h = g.node("gelu", {g.einsum("bd,df->bf", x, up)});
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
    const int64_t before = buffer_memory().held;
    restart_buffer_peak();
    const Simulation s = simulate(*program, *read, options);
    CHECK_FALSE(s.mismatch.has_value());
    return buffer_memory().peak - before;
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
    for (const ValueId v : runs.unsharded.results.ids()) {
      const bool there = runs.unsharded.results[v].storage != nullptr;
      if (there) CHECK(is_needed_later(lives.needed[v], s));
    }
  }
  const auto output = deep.g.graph.outputs[0];
  CHECK(runs.unsharded.results[output].storage != nullptr);
}

TEST_CASE("lanes: results in low precision are rounded, integers are not") {
  SmallGraph g("tp=2");
  const ValueId ids = g.input({4}, "None", 100'000);
  const ValueId rows =
      g.node("reshape", {ids}, {{"shape", std::vector<int64_t>{2, 2}}});
  const ValueId x = g.input({4}, "tp");
  const ValueId y = g.node("exp", {x});
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
        values_of(g.values()[ids]));
  const std::vector<double> numbers = values_of(whole_of(runs.unsharded, y));
  for (const double number : numbers) {
    CHECK(rounded(static_cast<float>(number), Storage::BF16) == number);
  }
  const Execution run = runs.sharded.finish();
  const auto output = program.outputs[1];
  CHECK(values_of(assemble(program.mesh, program.registers[output].layout, {4},
                           run.registers[output])) == numbers);
}

}  // namespace

}  // namespace shardplan
