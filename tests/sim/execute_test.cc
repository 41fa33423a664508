// SPDX-License-Identifier: Apache-2.0
#include "sim/execute.h"

#include <algorithm>
#include <numeric>

#include <doctest/doctest.h>

#include "graph/evaluate.h"
#include "sim/values.h"
#include "tests/support/builders.h"
#include "tests/support/random_graph.h"
#include "tests/support/small_graph.h"

namespace shardplan {
namespace {

using testing::layout;
using testing::mesh;
using testing::SmallGraph;

Tensor counting(const Shape& shape) {
  Tensor tensor = make_tensor(Element::F32, shape);
  std::iota(tensor.data<float>(), tensor.data<float>() + tensor.elements(),
            0.0F);
  return tensor;
}

TEST_CASE("execute: a shard is a view of the whole") {
  const Mesh m = mesh("a=2,b=2");
  const Tensor whole = counting({4, 4});
  const Tensor part = shard_of(m, layout("a, b", 2), whole, 2);  // a=1, b=0
  CHECK(values_of(part) == std::vector<double>{8, 9, 12, 13});
  CHECK(part.storage == whole.storage);
  const Tensor row = shard_of(m, layout("(b, a), None", 2), whole, 2);
  CHECK(values_of(row) == std::vector<double>{4, 5, 6, 7});
}

TEST_CASE("execute: shards put together are the whole") {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    CAPTURE(seed);
    testing::Random random(seed);
    const Mesh m = testing::random_mesh(random, 16);
    const Tensor whole = counting({24, 12});
    const Layout lay = testing::random_layout(random, m, whole.shape);
    DeviceTensors parts;
    for (int64_t device = 0; device < m.devices(); ++device) {
      parts.push_back(shard_of(m, lay, whole, device));
    }
    CHECK(bitwise_equal(assemble(m, lay, whole.shape, parts), whole));
  }
}

// A row-parallel product: parts of a sum, then an all-reduce.
struct RowParallel {
  RowParallel() : g("tp=4") {
    const int x = g.input({2, 8}, "None, tp");
    y = g.einsum("bd,df->bf", x, g.parameter({8, 4}, "tp, None"));
    g.want(y, "None, None");
  }
  SmallGraph g;
  int y = 0;
};

TEST_CASE("execute: devices compute their parts and sum them") {
  RowParallel r;
  const Program program = r.g.plan();
  const std::vector<Tensor> values = r.g.values(ValueSource::Field);
  const Execution run = execute(program, values, {Arithmetic::Field, 1, true});
  const std::vector<Tensor> all =
      evaluate(r.g.graph, values, Arithmetic::Field);
  const auto output = static_cast<size_t>(program.outputs[0]);
  for (const Tensor& got : run.registers[output]) {
    CHECK(bitwise_equal(got, all[static_cast<size_t>(r.y)]));
  }
  // 2 rows, 8/4 terms, 4 columns, 2 operations each.
  CHECK(run.flops == std::vector<int64_t>(4, 2 * 2 * 2 * 4));
  // An all-reduce of 8 elements by the ring: 2 (n-1)/n of 32 bytes per device.
  CHECK(run.bytes_moved() == 4 * 48);
  CHECK(run.sent.back() == std::vector<int64_t>(4, 48));
}

TEST_CASE("execute: registers are released after their last use") {
  RowParallel r;
  const Program program = r.g.plan();
  const Execution run =
      execute(program, r.g.values(), {Arithmetic::F32, 1, false});
  const auto output = static_cast<size_t>(program.outputs[0]);
  for (size_t i = 0; i < run.registers.size(); ++i) {
    CHECK(run.registers[i].size() == (i == output ? 4 : 0));
  }
}

TEST_CASE("execute: any number of threads gives the same bits") {
  for (uint64_t seed = 0; seed < 30; ++seed) {
    CAPTURE(seed);
    testing::Random random(seed);
    const Mesh m = testing::random_mesh(random, 12);
    const Graph graph = testing::random_graph(random, 8);
    const WantedLayouts wanted = testing::random_layouts(random, m, graph);
    const Overlap form = seed % 2 == 0 ? Overlap::Off : Overlap::Ring;
    const Program program = partition(graph, m, wanted, {form, nullptr});
    Diagnostics diags;
    const auto values = make_values(graph, ValueSource::Random, 1, diags);
    const Execution one = execute(program, *values, {Arithmetic::F32, 1, true});
    for (const int threads : {2, 5}) {
      const Execution many =
          execute(program, *values, {Arithmetic::F32, threads, true});
      CHECK(many.sent == one.sent);
      CHECK(many.flops == one.flops);
      for (size_t r = 0; r < one.registers.size(); ++r) {
        CHECK(std::equal(one.registers[r].begin(), one.registers[r].end(),
                         many.registers[r].begin(), bitwise_equal));
      }
    }
  }
}

}  // namespace
}  // namespace shardplan
