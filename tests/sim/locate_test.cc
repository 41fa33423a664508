// SPDX-License-Identifier: Apache-2.0
#include "sim/locate.h"

#include <doctest/doctest.h>

#include "graph/evaluate.h"
#include "tests/support/small_graph.h"

namespace shardplan {
namespace {

using testing::SmallGraph;

// x -> product (parts) -> all-reduce -> relu, run and kept.
struct Kept {
  explicit Kept(Arithmetic how) : g("tp=4"), arithmetic(how) {
    const int x = g.input({2, 8}, "None, tp");
    y = g.einsum("bd,df->bf", x, g.parameter({8, 4}, "tp, None"));
    z = g.node("relu", {y});
    program.emplace(g.plan());
    const bool field = how == Arithmetic::Field;
    std::vector<Tensor> values =
        g.values(field ? ValueSource::Field : ValueSource::Random);
    for (Tensor& value : values) {
      if (value.storage != nullptr) value = converted(value, Element::F64);
    }
    unsharded = evaluate(g.graph, values, how);
    run = execute(*program, values, {how, 1, true});
  }

  // The last register of a value.
  DeviceTensors& tensors(int value) {
    size_t last = 0;
    for (size_t r = 0; r < program->registers.size(); ++r) {
      if (program->registers[r].value == value) last = r;
    }
    return run.registers[last];
  }
  void spoil(int value, size_t device, double by) {
    Tensor& tensor = tensors(value)[device];
    tensor = copy(tensor);
    tensor.data<double>()[0] += by;
  }
  std::optional<Divergence> found() const {
    for (const Instruction& at : program->instructions) {
      const auto r = static_cast<size_t>(at.result);
      const auto value = static_cast<size_t>(program->registers[r].value);
      const auto parted = divergence_of(*program, at.result, run.registers[r],
                                        unsharded[value], arithmetic);
      if (parted) return parted;
    }
    return std::nullopt;
  }

  SmallGraph g;
  Arithmetic arithmetic;
  int y = 0, z = 0;
  std::optional<Program> program;
  std::vector<Tensor> unsharded;
  Execution run;
};

TEST_CASE("locate: a correct run parts nowhere") {
  CHECK_FALSE(Kept(Arithmetic::Field).found().has_value());
  CHECK_FALSE(Kept(Arithmetic::F64).found().has_value());
}

TEST_CASE("locate: the first value that differs, and the first device") {
  Kept kept(Arithmetic::Field);
  kept.spoil(kept.z, 1, 1);
  REQUIRE(kept.found().has_value());
  CHECK(kept.found()->value == kept.z);
  CHECK(kept.found()->device == 1);
  CHECK(kept.found()->error == 1);
  CHECK_FALSE(kept.found()->isolated);
  kept.spoil(kept.y, 3, 1);
  kept.spoil(kept.y, 2, 1);
  CHECK(kept.found()->value == kept.y);
  CHECK(kept.found()->device == 2);
}

TEST_CASE("locate: in doubles, rounding is no difference") {
  Kept kept(Arithmetic::F64);
  kept.spoil(kept.y, 0, 1e-14);
  CHECK_FALSE(kept.found().has_value());
  kept.spoil(kept.y, 0, 10);
  REQUIRE(kept.found().has_value());
  CHECK(kept.found()->value == kept.y);
  CHECK(kept.found()->error > 0.1);
}

TEST_CASE("locate: a shape that is wrong differs without bound") {
  Kept kept(Arithmetic::Field);
  Tensor& tensor = kept.tensors(kept.z)[0];
  tensor = slice(tensor, 0, 0, 1);
  REQUIRE(kept.found().has_value());
  CHECK(kept.found()->value == kept.z);
  CHECK(kept.found()->error > 1e300);
}

TEST_CASE("locate: runs that advance together stop where they part") {
  for (const Arithmetic how : {Arithmetic::Field, Arithmetic::F64}) {
    Kept kept(how);
    // The product's devices take their part for the sum.
    for (Instruction& at : kept.program->instructions) {
      if (at.kind != Instruction::Kind::Collective) continue;
      at.kind = Instruction::Kind::Slice;
      at.axes.clear();
    }
    const Lifetimes lives = lifetimes_of(*kept.program);
    HeldValues held{&kept.g.graph, &lives,
                    read_from(kept.g.values(how == Arithmetic::Field
                                                ? ValueSource::Field
                                                : ValueSource::Random)),
                    how == Arithmetic::Field};
    Lanes lanes(*kept.program, lives, held, {how, 1, false});
    std::vector<int> begun;
    const auto parted = first_divergence(lanes, [&](int stretch) {
      begun.push_back(stretch);
      return true;
    });
    REQUIRE(parted.has_value());
    CHECK(parted->value == kept.y);
    CHECK(parted->device == 0);
    // The sum is made for the second operation, and the run goes no further.
    CHECK(begun == std::vector<int>{0, 1});
    Lanes again(*kept.program, lives, held, {how, 1, false});
    CHECK_FALSE(first_divergence(again, [](int) { return false; }).has_value());
  }
}

TEST_CASE("locate: parts of sums are not looked at") {
  Kept kept(Arithmetic::Field);
  for (size_t r = 0; r < kept.program->registers.size(); ++r) {
    if (kept.program->registers[r].layout.partial.empty()) continue;
    Tensor& tensor = kept.run.registers[r][0];
    tensor = copy(tensor);
    tensor.data<double>()[0] += 1;
  }
  CHECK_FALSE(kept.found().has_value());
}

}  // namespace
}  // namespace shardplan
