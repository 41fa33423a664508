// SPDX-License-Identifier: Apache-2.0
#include "sim/locate.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <doctest/doctest.h>

#include "graph/graph.h"
#include "sim/execute.h"
#include "sim/simulate.h"
#include "sim/verdict.h"
#include "tests/support/builders.h"
#include "tests/support/small_graph.h"
#include "tests/support/whole_values.h"

namespace shardplan {
namespace {

using testing::layout;
using testing::SmallGraph;

TEST_CASE("isolate: one operation, with operands as they lie in the program") {
  SmallGraph g("tp=4");
  const ValueId x = g.input({2, 8}, "None, None");
  const ValueId up = g.parameter({8, 16}, "None, tp");
  const ValueId h = g.node("gelu", {g.einsum("bd,df->bf", x, up)});
  const ValueId down = g.parameter({16, 8}, "tp, None");
  g.want(g.einsum("bf,fd->bd", h, down), "None, None");
  const Program program = g.plan();
  const Isolated one = isolate(program, NodeId(2), {});
  CHECK(one.operands == PerValue<ValueId>{h, down});
  REQUIRE(one.graph->values.size() == 3);
  CHECK(one.graph->values[ValueId(0)].kind == Value::Kind::Input);
  CHECK(one.graph->values[ValueId(1)].kind == Value::Kind::Parameter);
  CHECK(one.graph->nodes.size() == 1);
  CHECK(one.program.graph == one.graph.get());
  CHECK(one.program.layouts[ValueId(0)] == layout("None, tp", 2));
  CHECK(testing::moves(one.program) ==
        "all-reduce over tp of v5 (partial sum)");
}

TEST_CASE("isolate: partial sums become whole") {
  SmallGraph g("tp=2");
  const ValueId x = g.input({2, 8}, "None, tp");
  const ValueId y = g.einsum("bd,df->bf", x, g.parameter({8, 8}, "tp, None"));
  const ValueId z = g.node("scale", {y}, {{"by", 2.0}});
  g.node("relu", {z});
  const Program program = g.plan();
  REQUIRE_FALSE(program.layouts[y].partial.empty());
  const Isolated one = isolate(program, NodeId(1), {});
  CHECK(one.program.layouts[ValueId(0)].partial.empty());
  CHECK(testing::moves(one.program).empty());
}

TEST_CASE("isolate: an operand that is read twice is one value") {
  SmallGraph g("tp=2");
  const ValueId x = g.input({2, 8}, "None, tp");
  g.node("multiply", {x, x});
  const Program program = g.plan();
  const Isolated one = isolate(program, NodeId(0), {});
  CHECK(one.operands == PerValue<ValueId>{x});
  CHECK(one.graph->nodes[NodeId(0)].operands ==
        std::vector<ValueId>{ValueId(0), ValueId(0)});
}

TEST_CASE("isolate: what is looked up stays within the table") {
  SmallGraph g("tp=2");
  const ValueId table = g.parameter({6, 8}, "None, tp");
  const ValueId ids = g.input({2, 4}, "None, None", 6);
  g.node("embedding", {table, g.node("reshape", {ids},
                                     {{"shape", std::vector<int64_t>{8}}})});
  const Program program = g.plan();
  const Isolated one = isolate(program, NodeId(1), {});
  CHECK(one.graph->values[ValueId(1)].integers_below == 6);
}

TEST_CASE("isolate: fresh choices choose what there is") {
  SmallGraph g("tp=2");
  const ValueId x = g.input({2, 4, 8}, "None, None, tp");
  const ValueId scores = g.input({2, 4, 6}, "None, None, None");
  const ValueId choices = g.node("top_k", {scores}, {{"k", 2.0}});
  const ValueId weights = g.node("take", {scores, choices});
  const ValueId places = g.node("dispatch", {x, choices}, {{"experts", 6.0}});
  g.node("combine", {places, choices, weights});
  const Program program = g.plan();
  for (const int node : {1, 2, 3}) {
    CAPTURE(node);
    const Isolated one = isolate(program, NodeId(node), {});
    for (const ValueId i : one.operands.ids()) {
      CHECK(one.graph->values[i].integers_below ==
            (one.operands[i] == choices ? 6 : 0));
    }
  }
}

// A product over a contraction of `length`, sharded over four devices.
std::optional<double> ratio(int64_t length, bool integers) {
  SmallGraph g("tp=4");
  const ValueId x = g.input({4, length}, "None, tp", integers ? 8 : 0);
  g.einsum("bd,df->bf", x, g.parameter({length, 8}, "tp, None"));
  const Program program = g.plan();
  PerValue<Tensor> values = g.values();
  if (integers) {
    Tensor& w = values[ValueId(1)];
    for (int64_t i = 0; i < w.elements(); ++i) {
      w.data<float>()[i] = static_cast<float>(i % 5);
    }
  }
  return bound_ratio_of(program, NodeId(0),
                        [&](ValueId value) { return values[value]; }, {});
}

TEST_CASE("products: rounding stays within its bound, and is seen") {
  for (const int64_t length : {4, 64, 512}) {
    CAPTURE(length);
    const std::optional<double> found = ratio(length, false);
    REQUIRE(found.has_value());
    CHECK(*found > 0);
    CHECK(*found <= 1);
  }
}

TEST_CASE("products: exact products have no error") {
  CHECK(ratio(64, true) == 0.0);
}

TEST_CASE("products: what is not a product has no ratio") {
  SmallGraph g("tp=2");
  g.node("relu", {g.input({4}, "tp")});
  const Program program = g.plan();
  const PerValue<Tensor> values = g.values();
  CHECK_FALSE(bound_ratio_of(program, NodeId(0),
                             [&](ValueId v) { return values[v]; }, {})
                  .has_value());
}

// x -> product (parts) -> all-reduce -> relu, run and kept.
struct Kept {
  explicit Kept(Arithmetic how) : g("tp=4"), arithmetic(how) {
    const ValueId x = g.input({2, 8}, "None, tp");
    y = g.einsum("bd,df->bf", x, g.parameter({8, 4}, "tp, None"));
    z = g.node("relu", {y});
    program.emplace(g.plan());
    const bool field = how == Arithmetic::Field;
    PerValue<Tensor> values =
        g.values(field ? ValueSource::Field : ValueSource::Random);
    for (Tensor& value : values) {
      if (value.storage != nullptr) value = converted(value, Element::F64);
    }
    unsharded = evaluate(g.graph, values, how);
    run = execute(*program, values, {how, 1, true});
  }

  // The last register of a value.
  DeviceTensors& tensors(ValueId value) {
    RegisterId last;
    for (const RegisterId r : program->registers.ids()) {
      if (program->registers[r].value == value) last = r;
    }
    return run.registers[last];
  }
  void spoil(ValueId value, size_t device, double by) {
    Tensor& tensor = tensors(value)[device];
    tensor = copy(tensor);
    tensor.data<double>()[0] += by;
  }
  std::optional<Divergence> found() const {
    for (const Instruction& at : program->instructions) {
      const auto r = at.result;
      const ValueId value = program->registers[r].value;
      const auto parted = divergence_of(*program, at.result, run.registers[r],
                                        unsharded[value], arithmetic);
      if (parted) return parted;
    }
    return std::nullopt;
  }

  SmallGraph g;
  Arithmetic arithmetic;
  ValueId y, z;
  std::optional<Program> program;
  PerValue<Tensor> unsharded;
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
    ValueCache cache{&kept.g.graph, &lives,
                     read_from(kept.g.values(how == Arithmetic::Field
                                                 ? ValueSource::Field
                                                 : ValueSource::Random)),
                     how == Arithmetic::Field};
    PairedRuns runs(*kept.program, lives, cache, {how, 1, false});
    std::vector<int> begun;
    const auto parted = first_divergence(runs, [&](int phase) {
      begun.push_back(phase);
      return true;
    });
    REQUIRE(parted.has_value());
    CHECK(parted->value == kept.y);
    CHECK(parted->device == 0);
    // The sum is made for the second operation, and the run goes no further.
    CHECK(begun == std::vector<int>{0, 1});
    PairedRuns again(*kept.program, lives, cache, {how, 1, false});
    CHECK_FALSE(first_divergence(again, [](int) { return false; }).has_value());
  }
}

TEST_CASE("locate: partial sums are not looked at") {
  Kept kept(Arithmetic::Field);
  for (const RegisterId r : kept.program->registers.ids()) {
    if (kept.program->registers[r].layout.partial.empty()) continue;
    Tensor& tensor = kept.run.registers[r][0];
    tensor = copy(tensor);
    tensor.data<double>()[0] += 1;
  }
  CHECK_FALSE(kept.found().has_value());
}

// 1 + 2^-22 in every arithmetic: what (1 + 2^-23)^2 is in float32, and a little
// less than it is in double precision.
constexpr double kThreshold = 1 + 0x1p-22;

template <typename T>
void choose_each(const Tensor& x, const Tensor& result, bool field) {
  for (int64_t i = 0; i < x.elements(); ++i) {
    const auto number = static_cast<double>(contiguous(x).data<T>()[i]);
    const bool yes = field ? number > 500'000 : number > kThreshold;
    result.data<T>()[i] = yes ? 1 : 0;
  }
}

Tensor run_choice(std::span<const Tensor> operands, const Attributes&,
                  const RunContext& context) {
  const Tensor result =
      make_tensor(element_of(context.arithmetic), operands[0].shape);
  if (context.arithmetic == Arithmetic::F32) {
    choose_each<float>(operands[0], result, false);
  } else {
    choose_each<double>(operands[0], result,
                        context.arithmetic == Arithmetic::Field);
  }
  return result;
}

const OpDef& choice_op() {
  static const OpDef op = [] {
    OpDef made = *find_op("relu");
    made.name = "choice";
    made.run = run_choice;
    made.is_decision = true;
    return made;
  }();
  return op;
}

// y = s * (s > threshold), s = x * x, on four devices.
struct Chooser {
  Chooser() : g("tp=4") {
    x = g.input({2, 8}, "None, tp");
    square = g.node("multiply", {x, x});
    choice = g.node("relu", {square});
    g.graph.nodes.back().op = &choice_op();
    y = g.node("multiply", {square, choice});
    g.graph.probes = {y};
  }
  Simulation run(const Program& program, ValueSource source) const {
    PerValue<Tensor> values = g.values(source);
    if (source == ValueSource::Random) {
      values[ValueId(0)] = make_tensor(Element::F32, {2, 8},
                                       std::vector<double>(16, 1 + 0x1p-23));
    }
    SimulateOptions options;
    options.values = source;
    return simulate(program, values, options);
  }
  SmallGraph g;
  ValueId x, square, choice, y;
};

TEST_CASE("decisions: the run in double precision decides for all") {
  Chooser c;
  const Simulation s = c.run(c.g.plan(), ValueSource::Random);
  CHECK_FALSE(s.mismatch.has_value());
  // In float32 every entry would have been chosen otherwise, with or without
  // devices; what was chosen is as exact as float32.
  CHECK(s.decision_flips == 16);
  REQUIRE(s.probes.size() == 1);
  CHECK(s.probes[0].value == c.y);
  CHECK(s.probes[0].unsharded > 0);
  CHECK(s.probes[0].unsharded < 1e-7);
  CHECK(s.probes[0].sharded == s.probes[0].unsharded);
  CHECK(s.error_amplification == 1);
}

TEST_CASE("decisions: in the field every run makes its own, and they agree") {
  Chooser c;
  const Simulation s = c.run(c.g.plan(), ValueSource::Field);
  CHECK_FALSE(s.mismatch.has_value());
  CHECK(s.decision_flips == 0);
}

TEST_CASE("decisions: a fault does not hide behind a replayed choice") {
  for (const ValueSource source : {ValueSource::Random, ValueSource::Field}) {
    SmallGraph g("tp=2");
    const ValueId x = g.input({64}, "tp");
    g.node("relu", {x});
    g.graph.nodes.back().op = &choice_op();
    Program program = g.plan();
    // Both devices choose from the other's part.
    Instruction swap;
    swap.kind = Instruction::Kind::Collective;
    swap.collective = CollectiveKind::Permute;
    swap.sources = {1, 0};
    swap.operands = {program.instructions[InstructionId(0)].result};
    swap.result = RegisterId(program.registers.size());
    program.registers.push_back(program.registers[RegisterId(0)]);
    program.instructions.insert(program.instructions.begin() + 1, swap);
    program.instructions[InstructionId(2)].operands = {swap.result};
    SimulateOptions options;
    options.values = source;
    const Simulation s = simulate(program, g.values(source), options);
    REQUIRE(s.mismatch.has_value());
    CHECK(s.mismatch->value == x);
  }
}

// Routers of devices that see two of four scores each, on rows of 4.
struct Router {
  explicit Router(const std::vector<double>& scores) : g("ep=2") {
    const auto rows = static_cast<int64_t>(scores.size()) / 4;
    x = g.input({rows, 4}, "");
    choice = g.node("top_k", {x}, {{"k", 1.0}});
    g.node("take", {x, choice});
    values = {make_tensor(Element::F32, {rows, 4}, scores)};
  }
  // Every device chooses of its own part, or, `whole`, of all scores.
  Simulation run(bool whole) {
    g.graph.nodes[NodeId(0)].shard_map =
        whole ? ShardMapUse{{{}}, {}, {}}
              : ShardMapUse{{{{{}, {"ep"}}}}, {}, {}};
    const Program program = g.plan();
    PerValue<Tensor> given = values;
    given.resize(g.graph.values.size());
    return simulate(program, given, {});
  }
  SmallGraph g;
  PerValue<Tensor> values;
  ValueId x, choice;
};

// The choices of the unsharded run replaced all others, so that ranks which see
// a part of the experts were found right.
TEST_CASE("decisions: a choice of a part is a mismatch though it is replayed") {
  Router r({1, 2, 3, 4, 8, 7, 6, 5});
  CHECK_FALSE(r.run(true).mismatch);
  const Simulation s = r.run(false);
  REQUIRE(s.mismatch);
  CHECK(s.mismatch->value == r.choice);
  CHECK(s.mismatch->device == 0);
  REQUIRE(s.mismatch->choice);
  CHECK(s.mismatch->choice->own == 1);
  CHECK(s.mismatch->choice->recorded == 3);
  // 2 and 4 of a row of norm 5.5; most rows are larger.
  CHECK(s.mismatch->error > 0.1);
}

TEST_CASE("decisions: scores that tie within rounding may be turned over") {
  // Device 1 takes index 0 or 1 of its own for that of the whole.
  CHECK_FALSE(Router({5, 5, 5, 5}).run(false).mismatch);
  const auto near = [](double gap) {
    return Router({1 + gap, 1, 1 + gap, 1}).run(false).mismatch.has_value();
  };
  CHECK_FALSE(near(0));
  // Both parts choose their first, which is the choice of the whole.
  CHECK_FALSE(near(1));
  const auto far = [](double gap) {
    return Router({1, 1, 1, 1 + gap}).run(false).mismatch.has_value();
  };
  CHECK(far(0x1p-20));
  CHECK(far(0x1p-23));  // as float32 has it
}

TEST_CASE("decisions: the tie is given in parts of the row's norm") {
  SmallGraph g("ep=2");
  const ValueId x = g.input({1, 4}, "");
  const ValueId choice = g.node("top_k", {x}, {{"k", 1.0}});
  const Program program = g.plan();
  const auto at = std::find_if(
      program.instructions.begin(), program.instructions.end(),
      [&](const Instruction& each) { return is_decision(program, each); });
  REQUIRE(at != program.instructions.end());
  const auto of = [](std::vector<double> numbers) {
    const auto size = static_cast<int64_t>(numbers.size());
    return make_tensor(Element::F64, {1, size}, numbers);
  };
  const auto wrong = [&](const Tensor& scores, double own) {
    return wrong_choice(program, *at, scores, of({0}), {of({0}), of({own})});
  };
  const double tie = 0x1p-29 * 1000;  // the row's norm is 1000
  CHECK_FALSE(wrong(of({1000, 0, 0, 0}), 0));
  REQUIRE(wrong(of({1000, 0, 0, 0}), 3));
  CHECK(wrong(of({1000, 0, 0, 0}), 3)->device == 1);
  CHECK(wrong(of({1000, 0, 0, 0}), 3)->value == choice);
  const double half = std::sqrt(0.5) * 1000;
  CHECK_FALSE(wrong(of({half, half - tie * 0.9, 0, 0}), 1));
  CHECK(wrong(of({half, half - tie * 1.1, 0, 0}), 1));
  // What is not an index, or of another shape, is not a choice of these.
  CHECK(wrong(of({5, 5, 5, 5}), 4));
  CHECK(wrong(of({5, 5, 5, 5}), -1));
  CHECK(wrong_choice(program, *at, of({5, 5, 5, 5}), of({0}),
                     {of({0}), of({0, 1})}));
  const double nan = std::numeric_limits<double>::quiet_NaN();
  CHECK_FALSE(wrong(of({nan, nan, 0, 0}), 1));
  CHECK(wrong(of({nan, 1, 0, 0}), 1));
}

TEST_CASE(
    "decisions: what rounds apart in one place is counted on any device") {
  SmallGraph g("ep=2");
  const ValueId x = g.input({1, 4}, "");
  g.node("top_k", {x}, {{"k", 1.0}});
  const Program program = g.plan();
  const auto at = std::find_if(
      program.instructions.begin(), program.instructions.end(),
      [&](const Instruction& each) { return is_decision(program, each); });
  const auto one = [](double index) {
    return make_tensor(Element::F32, {1, 1}, std::vector<double>{index});
  };
  // The first replica alone differs; the last one stood for all.
  DeviceTensors made = {one(2), one(0)};
  CHECK(replay(program, *at, one(0), made) == 1);
}

TEST_CASE("decisions: in the field one row is tried on many inputs") {
  // Of one row, half of all inputs choose within the first device's part.
  for (int64_t seed = 0; seed < 8; ++seed) {
    SmallGraph g("ep=2");
    const ValueId x = g.input({1, 4}, "");
    g.node("top_k", {x}, {{"k", 1.0}});
    g.graph.nodes[NodeId(0)].shard_map = ShardMapUse{{{{{}, {"ep"}}}}, {}, {}};
    SimulateOptions options;
    options.values = ValueSource::Field;
    options.seed = seed;
    CHECK(simulate(g.plan(), g.values(ValueSource::Field, seed), options)
              .mismatch);
  }
}

TEST_CASE("decisions: entries are counted once, and put in their places") {
  Chooser c;
  c.g.want(c.choice, "None, None");
  const Program program = c.g.plan();
  const auto at = std::find_if(
      program.instructions.begin(), program.instructions.end(),
      [&](const Instruction& each) { return is_decision(program, each); });
  REQUIRE(at != program.instructions.end());
  const Layout& lay = program.registers[at->result].layout;
  const Tensor recorded = make_tensor(
      Element::F64, {2, 8},
      std::vector<double>{1, 1, 1, 1, 0, 0, 0, 0, 1, 1, 1, 1, 0, 0, 0, 0});
  const Tensor own = make_tensor(Element::F32, {2, 8});
  DeviceTensors made;
  for (int64_t device = 0; device < 4; ++device) {
    made.push_back(shard_of(program.mesh, lay, own, device));
  }
  CHECK(replay(program, *at, recorded, made) == 8);
  CHECK(bitwise_equal(assemble(program.mesh, lay, {2, 8}, made),
                      converted(recorded, Element::F32)));
  CHECK(replay(program, *at, recorded, made) == 0);
  made[0] = make_tensor(Element::F32, {1});
  CHECK(replay(program, *at, recorded, made) == 0);
  CHECK(made[0].shape == Shape{1});
}

}  // namespace

}  // namespace shardplan
