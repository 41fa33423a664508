// SPDX-License-Identifier: Apache-2.0
#include "sim/overlapped.h"

#include <doctest/doctest.h>

#include "sim/execute.h"
#include "tests/support/small_graph.h"

namespace shardplan {
namespace {

using testing::SmallGraph;

TEST_CASE("overlapped: rows are multiplied as the ring brings them") {
  // Rank 1 of 4, two rows each: its own, then those of 0, 3 and 2.
  CHECK(arrival_order(Overlap::Ring, 1, 4, 8) ==
        std::vector<Slice>{{2, 4}, {0, 2}, {6, 8}, {4, 6}});
  CHECK(arrival_order(Overlap::Bidirectional, 1, 4, 8) ==
        arrival_order(Overlap::Ring, 1, 4, 8));
  CHECK(arrival_order(Overlap::Ring, 0, 1, 8) == std::vector<Slice>{{0, 8}});
}

TEST_CASE("overlapped: halves go both ways, first halves first") {
  CHECK(arrival_order(Overlap::Split, 1, 3, 6) ==
        std::vector<Slice>{{2, 3}, {0, 1}, {4, 5}, {3, 4}, {5, 6}, {1, 2}});
  // Of three rows, the second half is the larger one.
  CHECK(arrival_order(Overlap::Split, 0, 1, 3) ==
        std::vector<Slice>{{0, 1}, {1, 3}});
}

constexpr int64_t kDevices = 5;

float at(const Tensor& t, int64_t row, int64_t column) {
  return t.data<float>()[row * t.shape[1] + column];
}

// A product of which every device has one term of the contraction, so that a
// chunk's product is a single rounded multiplication and the order of the
// additions is all that is left. `source(d, i)` is the device whose term is the
// i-th that device d adds.
void check_order(const char* kernel, const char* moves,
                 int64_t (*source)(int64_t d, int64_t i)) {
  SmallGraph g("tp=5");
  const int x = g.input({2, kDevices}, "None, tp");
  const int w = g.parameter({kDevices, 10}, kernel);
  const int y = g.einsum("bd,df->bf", x, w);
  g.want(y, "None, tp");
  const Program program = g.plan({Overlap::Ring, nullptr});
  REQUIRE(testing::moves(program).find(moves) == 0);
  const std::vector<Tensor> values = g.values();
  const Execution run = execute(program, values, {Arithmetic::F32, 1, true});
  const auto& got = run.registers[static_cast<size_t>(program.outputs[0])];
  for (int64_t d = 0; d < kDevices; ++d) {
    for (int64_t row = 0; row < 2; ++row) {
      for (int64_t column = 0; column < 2; ++column) {
        float sum = 0;
        for (int64_t i = 0; i < kDevices; ++i) {
          const int64_t k = source(d, i);
          const float product =
              at(values[static_cast<size_t>(x)], row, k) *
              at(values[static_cast<size_t>(w)], k, 2 * d + column);
          sum = i == 0 ? product : sum + product;
        }
        CHECK(at(got[static_cast<size_t>(d)], row, column) == sum);
      }
    }
  }
}

TEST_CASE(
    "overlapped: gathered products are summed left to right, own chunk "
    "first, as in TPAsyncDense") {
  check_order("None, tp", "overlapped all-gather", [](int64_t d, int64_t i) {
    return (d - i + kDevices) % kDevices;
  });
}

TEST_CASE(
    "overlapped: scattered products are summed from the next device on, "
    "one's own last, as in async_scatter") {
  check_order("tp, None", "overlapped reduce-scatter",
              [](int64_t d, int64_t i) { return (d + i + 1) % kDevices; });
}

TEST_CASE("overlapped: sums that travel are rounded as without overlap") {
  SmallGraph g("tp=4");
  // Integers: products are exact, and only sums on the way round.
  const int x = g.input({2, 8}, "None, tp", 40);
  const int w = g.parameter({8, 8}, "tp, None");
  const int y = g.einsum("bd,df->bf", x, w);
  g.want(y, "None, tp");
  std::vector<Tensor> values = g.values();
  Tensor& weights = values[static_cast<size_t>(w)];
  for (int64_t i = 0; i < weights.elements(); ++i) {
    weights.data<float>()[i] = static_cast<float>(i * 37 % 101);
  }
  const auto results = [&](Overlap overlap, Storage reduce) {
    const Program program = g.plan({overlap, find_algorithm("ring")});
    const Execution run = execute(
        program, values, {Arithmetic::F32, 1, false, Storage::F32, reduce});
    const auto output = static_cast<size_t>(program.outputs[0]);
    return assemble(program.mesh, program.registers[output].layout, {2, 8},
                    run.registers[output]);
  };
  const Tensor rounded_sums = results(Overlap::Ring, Storage::BF16);
  CHECK(bitwise_equal(rounded_sums, results(Overlap::Off, Storage::BF16)));
  CHECK_FALSE(
      bitwise_equal(rounded_sums, results(Overlap::Ring, Storage::F32)));
}

TEST_CASE("overlapped: a gathered product is rounded once, where it ends") {
  SmallGraph g("tp=4");
  const int x = g.input({8, 8}, "tp, None");
  const int w = g.parameter({8, 8}, "None, tp");
  const int y = g.einsum("bd,df->bf", x, w);
  g.want(y, "None, tp");
  const std::vector<Tensor> values = g.values();
  const Program program = g.plan({Overlap::Ring, nullptr});
  REQUIRE(testing::moves(program).find("overlapped all-gather") == 0);
  const auto output = static_cast<size_t>(program.outputs[0]);
  for (const Storage storage : {Storage::BF16, Storage::F16}) {
    const Execution run =
        execute(program, values, {Arithmetic::F32, 1, false, storage, storage});
    for (const Tensor& part : run.registers[output]) {
      const Tensor again = copy(part);
      round_to(again, storage);
      CHECK(bitwise_equal(part, again));
    }
  }
}

}  // namespace
}  // namespace shardplan
