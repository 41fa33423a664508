// SPDX-License-Identifier: Apache-2.0
#include "sim/transfers.h"

#include <algorithm>
#include <numeric>

#include <doctest/doctest.h>

#include "graph/elementwise.h"
#include "sim/execute.h"
#include "sim/price.h"
#include "spmd/layout.h"
#include "spmd/reshard.h"
#include "tests/support/builders.h"
#include "tests/support/random_graph.h"

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
  at.operands = {0};
  at.result = 1;
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
  program.registers = {{0, {}, before}, {0, {}, after}};
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

TEST_CASE("transfers: a maximum is that of all, and no sum in the field") {
  const std::vector<Tensor> terms = {
      make_tensor(Element::F64, {2}, std::vector<double>{1, 8}),
      make_tensor(Element::F64, {2}, std::vector<double>{5, 2})};
  const Ranks ranks{2, 1};
  std::vector<int64_t> sent(2);
  const auto largest = scatter(*find_algorithm("ring"), ranks, 0, terms,
                               Reduction::Max, {Arithmetic::F64}, 2, sent);
  CHECK(values_of(largest[0]) == std::vector<double>{5});
  CHECK(values_of(largest[1]) == std::vector<double>{8});
  CHECK(sent == std::vector<int64_t>{4, 4});
  const auto exact = scatter(*find_algorithm("ring"), ranks, 0, terms,
                             Reduction::Max, {Arithmetic::Field}, 2, sent);
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
  const auto largest =
      scatter(*find_algorithm("ring"), {2, 1}, 0, terms, Reduction::Max,
              {Arithmetic::F32, Storage::BF16, Storage::F32}, 1, sent);
  CHECK(largest[0].data<float>()[0] == 1.001F);
  CHECK(largest[1].data<float>()[0] == 8.001F);
}

TEST_CASE("transfers: a permutation moves what is somewhere else") {
  const Mesh m = mesh("a=4");
  Instruction at;
  at.kind = Instruction::Kind::Collective;
  at.collective = CollectiveKind::Permute;
  at.sources = {0, 2, 3, 1};
  const DeviceTensors operand = numbered(m, {3});
  std::vector<int64_t> sent(4);
  const DeviceTensors got =
      run_collective(m, at, operand, {Arithmetic::F64}, 1, sent);
  for (size_t d = 0; d < 4; ++d) {
    CHECK(bitwise_equal(got[d], operand[static_cast<size_t>(at.sources[d])]));
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
      if (step.kind == CollectiveKind::Permute) {
        move.sources = permute_sources(m, at, step.after);
        permuted = true;
      } else {
        move.algorithm = find_algorithm(
            step.kind == CollectiveKind::AllToAll ? "direct" : "ring");
      }
      std::vector<int64_t> sent(held.size());
      held = run_collective(m, move, held, {Arithmetic::F64}, 1, sent);
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

}  // namespace
}  // namespace shardplan
