// SPDX-License-Identifier: Apache-2.0

#include "sim/transfers.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include <doctest/doctest.h>

#include "graph/elementwise.h"
#include "graph/graph.h"
#include "sim/execute.h"
#include "sim/simulate.h"
#include "sim/values.h"
#include "sim/verdict.h"
#include "spmd/layout.h"
#include "tests/support/builders.h"
#include "tests/support/random_graph.h"
#include "tests/support/small_graph.h"
#include "tests/support/whole_values.h"

namespace shardplan {
namespace {

using testing::mesh;
using testing::spec;

// Integers, all different.
DeviceTensors numbered(const Mesh& m, const Shape& shape) {
  DeviceTensors tensors;
  double next = 1;
  for (int64_t device = 0; device < m.devices(); ++device) {
    Tensor tensor = make_tensor(Element::F64, shape);
    for (int64_t i = 0; i < tensor.elements(); ++i) {
      tensor.data<double>()[i] = next++;
    }
    tensors.push_back(tensor);
  }
  return tensors;
}

Tensor rows_of(const Tensor& t, int dim, size_t index, size_t count) {
  const Slice part =
      part_of(t.shape[static_cast<size_t>(dim)], static_cast<int64_t>(index),
              static_cast<int64_t>(count));
  return slice(t, dim, part.begin, part.end);
}

// What the device of rank `rank` has afterwards, by definition.
Tensor by_definition(CollectiveKind kind, const std::vector<Tensor>& group,
                     size_t rank, const Shape& shape) {
  const size_t n = group.size();
  Tensor result = make_tensor(Element::F64, shape);
  for (size_t s = 0; s < n; ++s) {
    switch (kind) {
      case CollectiveKind::AllGather:
        copy_into(rows_of(result, 0, s, n), group[s]);
        break;
      case CollectiveKind::ReduceScatter:
        add_into(result, rows_of(group[s], 0, rank, n), Arithmetic::F64);
        break;
      case CollectiveKind::AllReduce:
        add_into(result, group[s], Arithmetic::F64);
        break;
      default:
        copy_into(rows_of(result, 1, s, n), rows_of(group[s], 0, rank, n));
    }
  }
  return result;
}

void check(const Algorithm& algorithm, CollectiveKind kind, const Mesh& m,
           const AxisNames& axes) {
  const Ranks ranks = ranks_along(m, axes);
  if (!algorithm.supports(kind, ranks)) return;
  const int64_t n = ranks.count;
  Instruction at;
  at.kind = Instruction::Kind::Collective;
  at.collective = kind;
  at.axes = axes;
  at.algorithm = &algorithm;
  at.operands = {RegisterId(0)};
  at.result = RegisterId(1);
  Shape before = {3 * n, 2};
  Shape after = before;
  if (kind == CollectiveKind::AllGather) after[0] *= n;
  if (kind == CollectiveKind::ReduceScatter) after[0] /= n;
  if (kind == CollectiveKind::AllToAll) {
    at.grown = 1;
    after = {3, 2 * n};
  }
  const DeviceTensors operand = numbered(m, before);
  std::vector<int64_t> sent(operand.size());
  const DeviceTensors got =
      run_collective(m, at, operand, {Arithmetic::F64}, 1, sent);
  for (const std::vector<int>& group : device_groups(m, axes)) {
    std::vector<Tensor> parts;
    for (const int device : group) {
      parts.push_back(operand[static_cast<size_t>(device)]);
    }
    for (size_t r = 0; r < group.size(); ++r) {
      CHECK(bitwise_equal(got[static_cast<size_t>(group[r])],
                          by_definition(kind, parts, r, after)));
    }
  }
  Graph graph;
  graph.values.resize(1);
  Program program{m, &graph};
  program.registers = {{ValueId(0), {}, before}, {ValueId(0), {}, after}};
  program.instructions = {at};
  CHECK(std::accumulate(sent.begin(), sent.end(), int64_t{0}) ==
        price(program, Storage::F32, Storage::F32).at(0).bytes);
}

TEST_CASE(
    "transfers: every algorithm gives what its collective means, and "
    "sends what it costs") {
  struct Place {
    const char* mesh;
    AxisNames axes;
  };
  for (const Place& place : std::vector<Place>{{"a=2", {"a"}},
                                               {"a=3", {"a"}},
                                               {"a=5", {"a"}},
                                               {"a=8", {"a"}},
                                               {"a=2,b=3", {"b"}},
                                               {"a=2,b=3", {"a", "b"}},
                                               {"a=4,b=2", {"b", "a"}}}) {
    for (const Algorithm& algorithm : algorithms()) {
      for (const CollectiveKind kind :
           {CollectiveKind::AllGather, CollectiveKind::ReduceScatter,
            CollectiveKind::AllReduce, CollectiveKind::AllToAll}) {
        CAPTURE(place.mesh);
        CAPTURE(std::string(algorithm.name));
        CAPTURE(std::string(collective_name(kind)));
        check(algorithm, kind, mesh(place.mesh), place.axes);
      }
    }
  }
}

// What two devices have after a reduce-scatter of maxima.
DeviceTensors scatter_maximum(const DeviceTensors& terms,
                              const TransferTypes& types, int threads,
                              std::vector<int64_t>& sent) {
  Instruction at;
  at.collective = CollectiveKind::ReduceScatter;
  at.axes = {"a"};
  at.algorithm = find_algorithm("ring");
  at.reduction = Reduction::Max;
  return run_collective(mesh("a=2"), at, terms, types, threads, sent);
}

TEST_CASE("transfers: a maximum is that of all, and no sum in the field") {
  const std::vector<Tensor> terms = {
      make_tensor(Element::F64, {2}, std::vector<double>{1, 8}),
      make_tensor(Element::F64, {2}, std::vector<double>{5, 2})};
  std::vector<int64_t> sent(2);
  const auto largest = scatter_maximum(terms, {Arithmetic::F64}, 2, sent);
  CHECK(values_of(largest[0]) == std::vector<double>{5});
  CHECK(values_of(largest[1]) == std::vector<double>{8});
  CHECK(sent == std::vector<int64_t>{4, 4});
  const auto exact = scatter_maximum(terms, {Arithmetic::Field}, 2, sent);
  CHECK(values_of(exact[0]) == std::vector<double>{field::maximum(1, 5)});
  CHECK(values_of(exact[1]) == std::vector<double>{field::maximum(8, 2)});
  CHECK(values_of(exact[0]) != std::vector<double>{6});
}

// The sums that a schedule forms, number by number, each rounded as it is
// formed.
std::vector<Tensor> summed_in(Storage type, const Schedule& schedule,
                              const std::vector<Tensor>& terms) {
  std::vector<std::vector<float>> slots;
  for (const Tensor& term : terms) {
    std::vector<float>& mine = slots.emplace_back();
    for (const double number : values_of(term)) {
      mine.push_back(rounded(static_cast<float>(number), type));
    }
  }
  execute(schedule, slots, [type](float arriving, float own) {
    return rounded(arriving + own, type);
  });
  std::vector<Tensor> sums;
  for (const std::vector<float>& mine : slots) {
    sums.push_back(make_tensor(Element::F32, terms[0].shape,
                               std::vector<double>(mine.begin(), mine.end())));
  }
  return sums;
}

TEST_CASE(
    "transfers: every addition on the way is rounded, in the order of the "
    "schedule, and the result once more") {
  const Mesh m = mesh("a=8");
  const Ranks ranks = ranks_along(m, {"a"});
  for (const Algorithm& algorithm : algorithms()) {
    if (!algorithm.supports(CollectiveKind::AllReduce, ranks)) continue;
    CAPTURE(std::string(algorithm.name));
    const Schedule schedule =
        algorithm.schedule(CollectiveKind::AllReduce, ranks);
    testing::Random random(7);
    DeviceTensors terms;
    for (int64_t device = 0; device < 8; ++device) {
      // One number per chunk.
      const Tensor term = make_tensor(Element::F32, {schedule.chunks});
      for (int64_t i = 0; i < schedule.chunks; ++i) {
        term.data<float>()[i] =
            static_cast<float>(testing::draw(random, 1000, 9999)) / 7.0F;
      }
      terms.push_back(term);
    }
    Instruction at;
    at.kind = Instruction::Kind::Collective;
    at.collective = CollectiveKind::AllReduce;
    at.axes = {"a"};
    at.algorithm = &algorithm;
    for (const Storage sent : {Storage::BF16, Storage::F16, Storage::F32}) {
      const std::vector<Tensor> expected = summed_in(sent, schedule, terms);
      for (const Storage result : {Storage::F32, Storage::BF16}) {
        std::vector<int64_t> bytes(8);
        const DeviceTensors got = run_collective(
            m, at, terms, {Arithmetic::F32, sent, result}, 1, bytes);
        for (size_t d = 0; d < got.size(); ++d) {
          round_to(expected[d], result);
          CHECK(bitwise_equal(got[d], expected[d]));
        }
      }
    }
  }
}

TEST_CASE("transfers: a maximum is not rounded") {
  const std::vector<Tensor> terms = {
      make_tensor(Element::F32, {2}, std::vector<double>{1.001, 8}),
      make_tensor(Element::F32, {2}, std::vector<double>{1, 8.001})};
  std::vector<int64_t> sent(2);
  const auto largest = scatter_maximum(
      terms, {Arithmetic::F32, Storage::BF16, Storage::F32}, 1, sent);
  CHECK(largest[0].data<float>()[0] == 1.001F);
  CHECK(largest[1].data<float>()[0] == 8.001F);
}

TEST_CASE("transfers: a permutation moves what is somewhere else") {
  const Mesh m = mesh("a=4");
  const std::vector<int> sources = {0, 2, 3, 1};
  const DeviceTensors operand = numbered(m, {3});
  std::vector<int64_t> sent(4);
  const TransferTypes types = {Arithmetic::F64};
  const DeviceTensors got = permute(sources, operand, types.sent, sent);
  for (size_t d = 0; d < 4; ++d) {
    CHECK(bitwise_equal(got[d], operand[static_cast<size_t>(sources[d])]));
  }
  CHECK(sent == std::vector<int64_t>{0, 12, 12, 12});
}

TEST_CASE("transfers: parts of a size are as even as integers allow") {
  CHECK(part_of(10, 0, 4) == Slice{0, 2});
  CHECK(part_of(10, 1, 4) == Slice{2, 5});
  CHECK(part_of(10, 3, 4) == Slice{7, 10});
  CHECK(part_of(2, 0, 3) == Slice{0, 0});
}

// Parts whose sum along the partial axes is the whole.
DeviceTensors parts_of(const Mesh& m, const Layout& from, const Tensor& whole) {
  const int64_t n = shard_count(m, from.partial);
  DeviceTensors parts;
  for (int64_t device = 0; device < m.devices(); ++device) {
    Tensor mine = copy(shard_of(m, from, whole, device));
    const int64_t r = shard_index(m, from.partial, m.coordinates(device));
    double* numbers = mine.data<double>();
    for (int64_t i = 0; i < mine.elements(); ++i) {
      // r for part r; the last one takes off what is too much.
      const double others = static_cast<double>(n * (n - 1) / 2 - (n - 1));
      numbers[i] = r + 1 < n ? static_cast<double>(r) : numbers[i] - others;
    }
    parts.push_back(mine);
  }
  return parts;
}

TEST_CASE("transfers: the steps of a reshard turn one layout into the other") {
  int tried = 0;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    CAPTURE(seed);
    testing::Random random(seed);
    const Mesh m = testing::random_mesh(random, 12);
    const Shape shape = {24, 12, 4};
    Layout from = testing::random_layout(random, m, shape);
    const Layout wanted = testing::random_layout(random, m, shape);
    Layout to = wanted;
    for (const Axis& axis : m.axes()) {
      const auto used = axes_in_use(from);
      if (axis.size == 1 ||
          std::find(used.begin(), used.end(), axis.name) != used.end() ||
          testing::draw(random, 0, 1) == 0) {
        continue;
      }
      from.partial.push_back(axis.name);
      const auto in_to = axes_in_use(wanted);
      if (std::find(in_to.begin(), in_to.end(), axis.name) == in_to.end() &&
          testing::draw(random, 0, 1) == 0) {
        to.partial.push_back(axis.name);
      }
    }
    const Tensor whole = numbered(Mesh({{"a", 1}}), shape)[0];
    DeviceTensors held = parts_of(m, from, whole);
    const Reshard way = plan_reshard(m, shape, from, to);
    int64_t sent_by_all = 0;
    bool permuted = false;
    Layout at = from;
    for (const ReshardStep& step : way.steps) {
      if (step.slice) {
        for (size_t d = 0; d < held.size(); ++d) {
          const int64_t index =
              shard_index(m, step.axes, m.coordinates(static_cast<int64_t>(d)));
          held[d] = rows_of(held[d], step.dim, static_cast<size_t>(index),
                            static_cast<size_t>(shard_count(m, step.axes)));
        }
        at = step.after;
        continue;
      }
      Instruction move;
      move.collective = step.kind;
      move.axes = step.axes;
      move.dim = step.dim;
      move.grown = step.grown;
      std::vector<int64_t> sent(held.size());
      const TransferTypes types = {Arithmetic::F64};
      if (step.kind == CollectiveKind::Permute) {
        held =
            permute(permute_sources(m, at, step.after), held, types.sent, sent);
        permuted = true;
      } else {
        move.algorithm = find_algorithm(
            step.kind == CollectiveKind::AllToAll ? "direct" : "ring");
        held = run_collective(m, move, held, types, 1, sent);
      }
      sent_by_all += std::accumulate(sent.begin(), sent.end(), int64_t{0});
      at = step.after;
    }
    const double each =
        static_cast<double>(sent_by_all) / static_cast<double>(m.devices());
    // The search prices a permutation as if everyone had to send.
    if (permuted) CHECK(each <= way.bytes);
    if (!permuted) CHECK(each == doctest::Approx(way.bytes));
    for (const std::vector<int>& group : device_groups(m, to.partial)) {
      const auto first = static_cast<size_t>(group[0]);
      const Tensor sum = copy(held[first]);
      for (size_t r = 1; r < group.size(); ++r) {
        add_into(sum, held[static_cast<size_t>(group[r])], Arithmetic::F64);
      }
      CHECK(bitwise_equal(sum, shard_of(m, to, whole, group[0])));
    }
    tried += !way.steps.empty();
  }
  CHECK(tried > 100);
}

using testing::layout;
using testing::partial;
using testing::SmallGraph;

Tensor third() {
  return make_tensor(Element::F32, {2}, std::vector<double>{1.0 / 3, 1});
}

TEST_CASE("precision: partial sums are kept in the reduce type") {
  SmallGraph g("tp=4");
  const ValueId x = g.input({8}, "tp");
  const ValueId ids = g.input({8}, "None", 100);
  Program program = g.plan();
  Layout largest = partial("None", 1, {"tp"});
  largest.reduction = Reduction::Max;
  program.registers = {{x, layout("tp", 1), {2}},
                       {x, partial("None", 1, {"tp"}), {8}},
                       {x, largest, {8}},
                       {ids, partial("None", 1, {"tp"}), {8}}};
  CHECK(
      register_types(program, {Arithmetic::F32, Storage::BF16, Storage::F16}) ==
      PerRegister<Storage>{Storage::BF16, Storage::F16, Storage::BF16,
                           Storage::F32});
}

TEST_CASE("precision: only runs in float32 round") {
  const float expected = rounded(1.0F / 3, Storage::F16);
  const Tensor plain = third();
  round_in_place(plain, Arithmetic::F32, Storage::F16);
  CHECK(plain.data<float>()[0] == expected);
  const Tensor wide = converted(third(), Element::F64);
  const Tensor before = copy(wide);
  round_in_place(wide, Arithmetic::F64, Storage::F16);
  round_in_place(wide, Arithmetic::Field, Storage::F16);
  CHECK(bitwise_equal(wide, before));
  CHECK(stored_result(wide, {}, Arithmetic::F64, Storage::F16).storage ==
        wide.storage);
}

TEST_CASE("precision: what others hold is copied before it is rounded") {
  const Tensor whole = third();
  const Tensor before = copy(whole);
  const Tensor shard = slice(whole, 0, 0, 1);
  const Tensor loaded =
      stored_result(shard, {}, Arithmetic::F32, Storage::BF16);
  CHECK(bitwise_equal(whole, before));
  CHECK(loaded.data<float>()[0] == rounded(1.0F / 3, Storage::BF16));
  // A view of an operand, which was rounded when it was made.
  const Tensor view = reshaped(loaded, {1, 1});
  const std::vector<Tensor> operands = {loaded};
  CHECK(stored_result(view, operands, Arithmetic::F32, Storage::BF16).storage ==
        loaded.storage);
  CHECK(stored_result(whole, {}, Arithmetic::F32, Storage::F32).storage ==
        whole.storage);
}

TEST_CASE("precision: a collective sends what its operand is kept in") {
  SmallGraph g("tp=4");
  const ValueId x = g.input({2, 8}, "None, tp");
  const ValueId h = g.einsum("bd,df->bf", x, g.parameter({8, 4}, "tp, None"));
  g.want(h, "None, None");
  g.einsum("bd,df->bf", h, g.parameter({4, 8}, "tp, None"));
  const StorageTypes mixed{Arithmetic::F32, Storage::BF16, Storage::F16};
  for (const Overlap overlap : {Overlap::Off, Overlap::Ring}) {
    const Program program = g.plan({overlap, nullptr});
    const PerRegister<Storage> registers = register_types(program, mixed);
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
  const ValueId x = g.input({8, 128}, "None, tp");
  const ValueId w = g.parameter({128, 64}, "tp, None");
  const ValueId y = g.einsum("bd,df->bf", x, w);
  g.want(y, "None, None");
  const Program program = g.plan({Overlap::Off, find_algorithm(algorithm)});
  PerValue<Tensor> values = g.values();
  PerValue<Tensor> exact(values.size());
  for (const ValueId v : {x, w}) {
    Tensor& value = values[v];
    for (int64_t i = 0; i < value.elements(); ++i) {
      float& number = value.data<float>()[i];
      number = rounded(1 + std::abs(number), Storage::BF16);
    }
    exact[v] = converted(value, Element::F64);
  }
  const std::vector<double> truth =
      values_of(evaluate(g.graph, exact, Arithmetic::F64)[y]);
  // Kept in float32, so that nothing but the sums is rounded.
  const Execution run = execute(
      program, values, {Arithmetic::F32, 1, false, Storage::F32, reduce});
  const std::vector<double> got =
      values_of(run.registers[program.outputs[0]][0]);
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
  ValueId x = g.input({16, 64}, "None, None");
  for (int layer = 0; layer < layers; ++layer) {
    const ValueId up =
        g.einsum("bd,df->bf", x, g.parameter({64, 128}, "None, tp"));
    const ValueId down = g.einsum("bf,fd->bd", g.node("silu", {up}),
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
  const ValueId x = g.input({2, 8}, "None, tp");
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
  const ValueId x = g.input({2, 8}, "None, tp");
  const ValueId h = g.einsum("bd,df->bf", x, g.parameter({8, 4}, "tp, None"));
  g.want(h, "None, None");
  g.want(g.node("relu", {g.input({8}, "tp")}), "None");
  const Program program = g.plan();
  const auto bytes = [&](Storage storage, Storage reduce) {
    std::map<CollectiveKind, int64_t> result;
    for (const CollectivePrice& one : price(program, storage, reduce)) {
      result[one.kind] += static_cast<int64_t>(one.bytes);
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
    PerInstruction<int64_t> priced(program.instructions.size());
    for (const CollectivePrice& one : price(program, storage, reduce)) {
      priced[one.instruction] = static_cast<int64_t>(one.bytes);
    }
    for (const InstructionId i : priced.ids()) {
      CAPTURE(i.number);
      CHECK(std::accumulate(run.sent[i].begin(), run.sent[i].end(),
                            int64_t{0}) == priced[i]);
      compared += priced[i] > 0;
    }
  }
  CHECK(compared > 100);
}

}  // namespace

}  // namespace shardplan
