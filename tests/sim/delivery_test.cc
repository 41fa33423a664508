// SPDX-License-Identifier: Apache-2.0
#include "sim/delivery.h"

#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "sim/execute.h"
#include "sim/simulate.h"
#include "tests/support/builders.h"
#include "tests/support/random_graph.h"
#include "tests/support/whole_values.h"

namespace shardplan {
namespace {

using testing::Random;

// Ranks, chunks, and transfers of any chunk from anyone to anyone: what an
// algorithm never would, and what one with a mistake might do.
Schedule any_schedule(Random& random) {
  const auto ranks = static_cast<int>(testing::draw(random, 1, 5));
  const auto chunks = static_cast<int>(testing::draw(random, 1, 4));
  Schedule schedule = empty_schedule(ranks, chunks);
  const int64_t steps = testing::draw(random, 0, 2 * ranks);
  for (int64_t i = 0; i < steps && ranks > 1; ++i) {
    const auto source = static_cast<int>(testing::draw(random, 0, ranks - 1));
    const auto away = static_cast<int>(testing::draw(random, 1, ranks - 1));
    schedule.steps.push_back(
        {{source, (source + away) % ranks,
          static_cast<int>(testing::draw(random, 0, chunks - 1)), 1,
          testing::draw(random, 0, 2) > 0}});
  }
  return schedule;
}

const Combine& added() {
  static const Combine kAdded = [](const Tensor& own, const Tensor& arriving) {
    add_into(own, arriving, Arithmetic::F32);
  };
  return kAdded;
}

// Of numbers whose sums depend on the order.
Tensor thirds(Random& random, const Shape& shape) {
  const Tensor tensor = make_tensor(Element::F32, shape);
  for (int64_t i = 0; i < tensor.elements(); ++i) {
    tensor.data<float>()[i] =
        static_cast<float>(testing::draw(random, -9999, 9999)) / 3.0F;
  }
  return tensor;
}

TEST_CASE("delivery: what names say is what numbers do, on any schedule") {
  Random random(3);
  int together = 0;
  for (int trial = 0; trial < 400; ++trial) {
    const Schedule schedule = any_schedule(random);
    const auto ranks = static_cast<size_t>(schedule.ranks);
    const auto chunks = static_cast<size_t>(schedule.chunks);
    const Delivery delivery =
        delivery_of(schedule, [](int, int) { return true; });
    std::vector<std::vector<Tensor>> begins(ranks);
    std::vector<std::vector<Tensor>> ends(ranks);
    for (size_t r = 0; r < ranks; ++r) {
      for (size_t c = 0; c < chunks; ++c) {
        begins[r].push_back(thirds(random, {3, 2}));
        ends[r].push_back(copy(begins[r].back()));
      }
    }
    execute(schedule, ends, [](const Tensor& arriving, const Tensor& own) {
      const Tensor sum = copy(own);
      add_into(sum, arriving, Arithmetic::F32);
      return sum;
    });
    const auto all = delivered_to_all(delivery);
    together += all.has_value();
    for (size_t r = 0; r < ranks; ++r) {
      const auto rank = static_cast<int>(r);
      const auto terms = delivered_to(delivery, [&](int) { return rank; });
      // Nobody has more than a term per rank, but for a wrong schedule.
      if (!terms) continue;
      if (all) CHECK(*terms == *all);
      for (size_t c = 0; c < chunks; ++c) {
        std::vector<Tensor> of_ranks;
        for (const std::vector<Tensor>& of : begins) of_ranks.push_back(of[c]);
        const Tensor sum = make_tensor(Element::F32, {3, 2});
        add_up(delivery, (*terms)[c], of_ranks, added(), sum, 1);
        CHECK(bitwise_equal(sum, ends[r][c]));
      }
    }
  }
  CHECK(together > 20);
  CHECK(together < 380);
}

TEST_CASE("delivery: ranks that end with other sums are told apart") {
  // Each adds the other's: a + b here and b + a there.
  Schedule exchange = empty_schedule(2, 1);
  exchange.steps = {{{0, 1, 0, 1, true}, {1, 0, 0, 1, true}}};
  const auto everyone = [](int, int) { return true; };
  CHECK_FALSE(delivered_to_all(delivery_of(exchange, everyone)));
  // Rank 1 is never told.
  Schedule one_way = empty_schedule(2, 1);
  one_way.steps = {{{1, 0, 0, 1, true}}};
  CHECK_FALSE(delivered_to_all(delivery_of(one_way, everyone)));
  // A term that is added twice is one more than there are ranks.
  Schedule twice = empty_schedule(2, 1);
  twice.steps = {{{1, 0, 0, 1, true}}, {{1, 0, 0, 1, true}}, {{0, 1, 0}}};
  CHECK_FALSE(delivered_to_all(delivery_of(twice, everyone)));
  // A chunk that nobody sends.
  Schedule missing = empty_schedule(2, 2);
  missing.steps = {{{0, 1, 0}}};
  CHECK_FALSE(delivered_to_all(
      delivery_of(missing, [](int rank, int chunk) { return rank == chunk; })));
}

TEST_CASE("delivery: a sum may be made in one of its terms, piece by piece") {
  Random random(4);
  const testing::Random before = random;
  for (const int threads : {1, 3}) {
    random = before;
    const Schedule schedule = find_algorithm("ring")->schedule(
        CollectiveKind::AllReduce, Ranks{4, 4});
    const Delivery delivery =
        delivery_of(schedule, [](int, int) { return true; });
    const auto ends = delivered_to_all(delivery);
    REQUIRE(ends);
    std::vector<Tensor> terms;
    for (int rank = 0; rank < 4; ++rank) {
      terms.push_back(thirds(random, {30'000}));
    }
    const Tensor apart = make_tensor(Element::F32, {30'000});
    add_up(delivery, (*ends)[0], terms, added(), apart, 1);
    add_up(delivery, (*ends)[0], terms, added(), terms[2], threads);
    CHECK(bitwise_equal(terms[2], apart));
  }
}

TEST_CASE("delivery: parts that lie side by side are a view, others a copy") {
  Random random(5);
  const Tensor whole = thirds(random, {4, 6});
  for (const int dim : {0, 1}) {
    const int64_t half = whole.shape[static_cast<size_t>(dim)] / 2;
    const std::vector<Tensor> parts = {slice(whole, dim, 0, half),
                                       slice(whole, dim, half, 2 * half)};
    const Tensor view = joined(parts, dim, 1);
    CHECK(view.storage == whole.storage);
    CHECK(bitwise_equal(view, whole));
    // The second first, a part twice, and parts of other memory.
    for (const std::vector<Tensor>& others :
         {std::vector<Tensor>{parts[1], parts[0]},
          std::vector<Tensor>{parts[0], parts[0]},
          std::vector<Tensor>{parts[0], copy(parts[1])}}) {
      const Tensor made = joined(others, dim, 1);
      CHECK(made.storage != whole.storage);
      CHECK(bitwise_equal(slice(made, dim, 0, half), others[0]));
      CHECK(bitwise_equal(slice(made, dim, half, 2 * half), others[1]));
    }
  }
}

struct RandomPlan {
  explicit RandomPlan(uint64_t seed)
      : random(seed),
        mesh(testing::random_mesh(random, 12)),
        graph(seed % 2 == 0 ? testing::random_graph(random, 10)
                            : testing::random_layers(random)),
        wanted(testing::random_layouts(random, mesh, graph)),
        program(partition(graph, mesh, wanted, {})),
        lives(lifetimes_of(program)) {}

  // Every register, as `made` leaves it.
  PerRegister<DeviceTensors> registers(const StorageTypes& types,
                                       const ShardedRun::OnResult& made) {
    Diagnostics diags;
    const PerValue<Tensor> values =
        make_values(graph, ValueSource::Random, 3, diags).value();
    ShardedRun run(program, lives,
                   [&](ValueId v) {
                     return as_stored(graph.values[v], values[v], types, 1);
                   },
                   {types.arithmetic, 2, true, types.storage, types.reduce});
    for (int phase = 0; phase < lives.phases; ++phase) {
      run.advance(phase, made);
    }
    return run.finish().registers;
  }

  Random random;
  Mesh mesh;
  Graph graph;
  WantedLayouts wanted;
  Program program;
  Lifetimes lives;
};

TEST_CASE(
    "delivery: devices that share what they have compute the same as "
    "devices that do not, and none writes what another holds") {
  int shared = 0;
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    CAPTURE(seed);
    const StorageTypes types{Arithmetic::F32,
                             seed % 3 == 0 ? Storage::BF16 : Storage::F32,
                             seed % 4 == 0 ? Storage::F16 : Storage::F32};
    RandomPlan plan(seed);
    const auto apart =
        plan.registers(types, [](const Instruction&, DeviceTensors& made) {
          for (Tensor& each : made) each = copy(each);
        });
    // What each register held when it was made.
    PerRegister<DeviceTensors> first(plan.program.registers.size());
    const auto together =
        plan.registers(types, [&](const Instruction& at, DeviceTensors& made) {
          DeviceTensors& held = first[at.result];
          for (size_t d = 0; d < made.size(); ++d) {
            held.push_back(copy(made[d]));
            shared += d > 0 && made[d].storage == made[0].storage;
          }
        });
    for (const RegisterId r : apart.ids()) {
      REQUIRE(together[r].size() == apart[r].size());
      for (size_t d = 0; d < apart[r].size(); ++d) {
        CHECK(bitwise_equal(together[r][d], apart[r][d]));
        if (!first[r].empty()) {
          CHECK(bitwise_equal(together[r][d], first[r][d]));
        }
      }
    }
  }
  CHECK(shared > 100);
}

TEST_CASE(
    "delivery: what becomes of one device's copy is that device's alone") {
  int seen = 0;
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    CAPTURE(seed);
    RandomPlan plan(seed);
    RegisterId faulty;
    const auto right = plan.registers({}, {});
    const auto wrong =
        plan.registers({}, [&](const Instruction& at, DeviceTensors& made) {
          if (faulty || at.kind != Instruction::Kind::Collective ||
              made.size() < 2 || made[1].elements() == 0) {
            return;
          }
          faulty = at.result;
          made[1] = copy(made[1]);
          made[1].data<float>()[0] += 1;
        });
    if (!faulty) continue;
    for (size_t d = 0; d < right[faulty].size(); ++d) {
      CHECK(bitwise_equal(wrong[faulty][d], right[faulty][d]) == (d != 1));
    }
    ++seen;
  }
  CHECK(seen > 10);
}

}  // namespace
}  // namespace shardplan
