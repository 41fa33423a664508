// SPDX-License-Identifier: Apache-2.0
#include "sim/price.h"

#include <cmath>
#include <map>
#include <numeric>

#include <doctest/doctest.h>

#include "graph/graph.h"
#include "sim/execute.h"
#include "sim/simulate.h"
#include "sim/values.h"
#include "sim/verdict.h"
#include "tests/support/random_graph.h"
#include "tests/support/small_graph.h"

namespace shardplan {
namespace {

using testing::layout;
using testing::partial;
using testing::SmallGraph;

Tensor third() {
  return make_tensor(Element::F32, {2}, std::vector<double>{1.0 / 3, 1});
}

TEST_CASE("precision: parts of a sum are kept in the reduce type") {
  SmallGraph g("tp=4");
  const int x = g.input({8}, "tp");
  const int ids = g.input({8}, "None", 100);
  Program program = g.plan();
  Layout largest = partial("None", 1, {"tp"});
  largest.reduction = Reduction::Max;
  program.registers = {{x, layout("tp", 1), {2}},
                       {x, partial("None", 1, {"tp"}), {8}},
                       {x, largest, {8}},
                       {ids, partial("None", 1, {"tp"}), {8}}};
  CHECK(
      register_types(program, {Arithmetic::F32, Storage::BF16, Storage::F16}) ==
      std::vector<Storage>{Storage::BF16, Storage::F16, Storage::BF16,
                           Storage::F32});
}

TEST_CASE("precision: only runs in float32 round") {
  const float expected = rounded(1.0F / 3, Storage::F16);
  const Tensor plain = third();
  keep(plain, Arithmetic::F32, Storage::F16);
  CHECK(plain.data<float>()[0] == expected);
  const Tensor wide = converted(third(), Element::F64);
  const Tensor before = copy(wide);
  keep(wide, Arithmetic::F64, Storage::F16);
  keep(wide, Arithmetic::Field, Storage::F16);
  CHECK(bitwise_equal(wide, before));
  CHECK(kept(wide, {}, Arithmetic::F64, Storage::F16).storage == wide.storage);
}

TEST_CASE("precision: what others hold is copied before it is rounded") {
  const Tensor whole = third();
  const Tensor before = copy(whole);
  const Tensor shard = slice(whole, 0, 0, 1);
  const Tensor loaded = kept(shard, {}, Arithmetic::F32, Storage::BF16);
  CHECK(bitwise_equal(whole, before));
  CHECK(loaded.data<float>()[0] == rounded(1.0F / 3, Storage::BF16));
  // A view of an operand, which was rounded when it was made.
  const Tensor view = reshaped(loaded, {1, 1});
  const std::vector<Tensor> operands = {loaded};
  CHECK(kept(view, operands, Arithmetic::F32, Storage::BF16).storage ==
        loaded.storage);
  CHECK(kept(whole, {}, Arithmetic::F32, Storage::F32).storage ==
        whole.storage);
}

TEST_CASE("precision: a collective sends what its operand is kept in") {
  SmallGraph g("tp=4");
  const int x = g.input({2, 8}, "None, tp");
  const int h = g.einsum("bd,df->bf", x, g.parameter({8, 4}, "tp, None"));
  g.want(h, "None, None");
  g.einsum("bd,df->bf", h, g.parameter({4, 8}, "tp, None"));
  const KeptTypes mixed{Arithmetic::F32, Storage::BF16, Storage::F16};
  for (const Overlap overlap : {Overlap::Off, Overlap::Ring}) {
    const Program program = g.plan({overlap, nullptr});
    const std::vector<Storage> registers = register_types(program, mixed);
    int sums = 0;
    for (const Instruction& at : program.instructions) {
      const bool joined =
          at.kind == Instruction::Kind::Compute && at.overlap != Overlap::Off;
      if (at.kind != Instruction::Kind::Collective && !joined) continue;
      const TransferTypes types = transfer_types(at, registers, mixed);
      CHECK(types.arithmetic == Arithmetic::F32);
      const bool sum = at.collective == CollectiveKind::AllReduce ||
                       at.collective == CollectiveKind::ReduceScatter;
      CHECK(types.sent == (sum ? Storage::F16 : Storage::BF16));
      CHECK(types.result == Storage::BF16);
      sums += sum;
    }
    CHECK(sums > 0);
  }
}

// The largest relative error of x w, of positive numbers, with the contraction
// cut over `devices`; all sums are formed in `reduce`.
double error_of(const char* algorithm, int64_t devices, Storage reduce) {
  SmallGraph g("tp=" + std::to_string(devices));
  const int x = g.input({8, 128}, "None, tp");
  const int w = g.parameter({128, 64}, "tp, None");
  const int y = g.einsum("bd,df->bf", x, w);
  g.want(y, "None, None");
  const Program program = g.plan({Overlap::Off, find_algorithm(algorithm)});
  std::vector<Tensor> values = g.values();
  std::vector<Tensor> exact(values.size());
  for (const int v : {x, w}) {
    const auto index = static_cast<size_t>(v);
    Tensor& value = values[index];
    for (int64_t i = 0; i < value.elements(); ++i) {
      float& number = value.data<float>()[i];
      number = rounded(1 + std::abs(number), Storage::BF16);
    }
    exact[index] = converted(value, Element::F64);
  }
  const std::vector<double> truth = values_of(
      evaluate(g.graph, exact, Arithmetic::F64)[static_cast<size_t>(y)]);
  // Kept in float32, so that nothing but the sums is rounded.
  const Execution run = execute(
      program, values, {Arithmetic::F32, 1, false, Storage::F32, reduce});
  const std::vector<double> got =
      values_of(run.registers[static_cast<size_t>(program.outputs[0])][0]);
  double largest = 0;
  for (size_t i = 0; i < truth.size(); ++i) {
    largest = std::max(largest, std::abs(got[i] - truth[i]) / truth[i]);
  }
  return largest;
}

TEST_CASE(
    "precision: errors of sums grow with the devices around a ring, with "
    "their logarithm up a tree") {
  // p - 1 additions one behind the other, against two on each of log2 p levels;
  // terms are rounded before they are sent, too (Higham, section 4.2).
  const double u = unit_roundoff(Storage::BF16);
  double ring_before = 0;
  for (const int64_t devices : {4, 16, 64}) {
    CAPTURE(devices);
    const double ring = error_of("ring", devices, Storage::BF16);
    const double tree = error_of("binary-tree", devices, Storage::BF16);
    const auto levels =
        static_cast<int64_t>(std::log2(static_cast<double>(devices)));
    CHECK(ring <= gamma(devices, u).value());
    CHECK(tree <= gamma(2 * levels + 1, u).value());
    CHECK(ring > ring_before);
    if (devices == 64) CHECK(ring > 3 * tree);
    CHECK(error_of("ring", devices, Storage::F32) < 1e-3 * ring);
    ring_before = ring;
  }
}

TEST_CASE(
    "precision: random plans keep their bounds and prices in every type") {
  static const Storage kTypes[] = {Storage::F32, Storage::BF16, Storage::F16};
  int bounded = 0;
  for (uint64_t seed = 2000; seed < 2060; ++seed) {
    CAPTURE(seed);
    testing::Random random(seed);
    const Mesh mesh = testing::random_mesh(random, 8);
    const Graph graph = testing::random_graph(random, 6);
    SimulateOptions options;
    options.storage = kTypes[seed % 3];
    options.reduce = kTypes[seed / 3 % 3];
    const Program program =
        partition(graph, mesh, testing::random_layouts(random, mesh, graph),
                  options.partition);
    Diagnostics diags;
    const auto values = make_values(graph, ValueSource::Random, 7, diags);
    REQUIRE(values.has_value());
    const Simulation s = simulate(program, *values, options);
    CHECK_FALSE(s.mismatch.has_value());
    CHECK(s.bytes_moved == s.bytes_priced);
    if (!s.bound_ratio) continue;
    ++bounded;
    // What overflows float16 has an error that nothing bounds.
    const bool overflows = std::isinf(*s.bound_ratio);
    CHECK((*s.bound_ratio <= 1 ||
           (overflows && options.storage != Storage::F32)));
  }
  CHECK(bounded > 20);
}

// A residual stream through layers of two products each, up and down again.
Simulation stream(int64_t devices, const char* algorithm, Storage storage,
                  Storage reduce, int layers) {
  SmallGraph g("tp=" + std::to_string(devices));
  int x = g.input({16, 64}, "None, None");
  for (int layer = 0; layer < layers; ++layer) {
    const int up = g.einsum("bd,df->bf", x, g.parameter({64, 128}, "None, tp"));
    const int down = g.einsum("bf,fd->bd", g.node("silu", {up}),
                              g.parameter({128, 64}, "tp, None"));
    x = g.node("add", {x, down});
    g.want(x, "None, None");
    g.graph.probes.push_back(x);
  }
  SimulateOptions options;
  options.storage = storage;
  options.reduce = reduce;
  options.partition.algorithm = find_algorithm(algorithm);
  return simulate(g.plan(options.partition), g.values(), options);
}

TEST_CASE("precision: errors grow with the layers, and with tp around a ring") {
  const Storage bf16 = Storage::BF16;
  const Simulation one = stream(1, "ring", bf16, bf16, 4);
  REQUIRE(one.probes.size() == 4);
  CHECK(one.error_amplification == 1);
  CHECK(one.probes[3].unsharded > one.probes[0].unsharded);
  CHECK(one.probes[3].unsharded < 0.1);
  const Simulation ring = stream(16, "ring", bf16, bf16, 4);
  const Simulation tree = stream(16, "binary-tree", bf16, bf16, 4);
  const Simulation exact = stream(16, "ring", bf16, Storage::F32, 4);
  CHECK(ring.probes[3].unsharded == one.probes[3].unsharded);
  CHECK(ring.probes[3].sharded > tree.probes[3].sharded);
  CHECK(tree.probes[3].sharded > exact.probes[3].sharded);
  CHECK(exact.probes[3].sharded < 1.05 * one.probes[3].unsharded);
  // Sums of float32 move twice the bytes.
  CHECK(exact.bytes_moved == 2 * ring.bytes_moved);
  CHECK(ring.structural_error < 1e-12);
}

TEST_CASE("price: an all-reduce of 8 floats over 4 devices") {
  testing::SmallGraph g("dp=2,tp=4");
  const int x = g.input({2, 8}, "None, tp");
  g.want(g.einsum("bd,df->bf", x, g.parameter({8, 4}, "tp, None")),
         "None, None");
  const Program program = g.plan();
  const std::vector<CollectivePrice> prices =
      price(program, Storage::F32, Storage::F32);
  REQUIRE(prices.size() == 1);
  CHECK(prices[0].kind == CollectiveKind::AllReduce);
  CHECK(prices[0].axes == AxisNames{"tp"});
  CHECK(prices[0].algorithm == "ring");
  CHECK(prices[0].cause == Cause::PartialSum);
  // 2 (n - 1) copies of 32 bytes in each of the two groups.
  CHECK(prices[0].bytes == 2 * 6 * 32);
}

TEST_CASE("price: sums are sent in the reduce type, all else as it is kept") {
  testing::SmallGraph g("tp=4");
  const int x = g.input({2, 8}, "None, tp");
  const int h = g.einsum("bd,df->bf", x, g.parameter({8, 4}, "tp, None"));
  g.want(h, "None, None");
  g.want(g.node("relu", {g.input({8}, "tp")}), "None");
  const Program program = g.plan();
  const auto bytes = [&](Storage storage, Storage reduce) {
    std::map<CollectiveKind, int64_t> result;
    for (const CollectivePrice& one : price(program, storage, reduce)) {
      result[one.kind] += one.bytes;
    }
    return result;
  };
  const auto plain = bytes(Storage::F32, Storage::F32);
  const int64_t sums = plain.at(CollectiveKind::AllReduce);
  const int64_t gathers = plain.at(CollectiveKind::AllGather);
  CHECK(sums == 2 * 3 * 32);
  CHECK(gathers == 3 * 32);
  using Bytes = std::map<CollectiveKind, int64_t>;
  CHECK(bytes(Storage::BF16, Storage::F32) ==
        Bytes{{CollectiveKind::AllReduce, sums},
              {CollectiveKind::AllGather, gathers / 2}});
  CHECK(bytes(Storage::F32, Storage::F16) ==
        Bytes{{CollectiveKind::AllReduce, sums / 2},
              {CollectiveKind::AllGather, gathers}});
}

TEST_CASE(
    "price: every instruction sends what it costs, with every algorithm, "
    "form of overlap and type") {
  static const Overlap kForms[] = {Overlap::Off, Overlap::Ring,
                                   Overlap::Bidirectional, Overlap::Split};
  static const Storage kTypes[] = {Storage::F32, Storage::BF16, Storage::F16};
  int64_t compared = 0;
  for (uint64_t seed = 0; seed < 120; ++seed) {
    CAPTURE(seed);
    testing::Random random(seed);
    const Mesh m = testing::random_mesh(random, 16);
    const Graph graph = testing::random_graph(random, 6);
    const WantedLayouts wanted = testing::random_layouts(random, m, graph);
    const Algorithm& algorithm = algorithms()[seed % algorithms().size()];
    const Program program =
        partition(graph, m, wanted, {kForms[seed / 3 % 4], &algorithm});
    Diagnostics diags;
    const auto values = make_values(graph, ValueSource::Random, 1, diags);
    const Storage storage = kTypes[seed % 3];
    const Storage reduce = kTypes[seed / 3 % 3];
    const Execution run =
        execute(program, *values, {Arithmetic::F32, 1, false, storage, reduce});
    std::vector<int64_t> priced(program.instructions.size());
    for (const CollectivePrice& one : price(program, storage, reduce)) {
      priced[static_cast<size_t>(one.instruction)] = one.bytes;
    }
    for (size_t i = 0; i < priced.size(); ++i) {
      CAPTURE(i);
      CHECK(std::accumulate(run.sent[i].begin(), run.sent[i].end(),
                            int64_t{0}) == priced[i]);
      compared += priced[i] > 0;
    }
  }
  CHECK(compared > 100);
}

}  // namespace

}  // namespace shardplan
