// SPDX-License-Identifier: Apache-2.0
#include "spmd/partition.h"

#include <set>
#include <string>

#include <doctest/doctest.h>

#include "sim/simulate.h"
#include "tests/support/random_graph.h"
#include "tests/support/small_graph.h"
#include "tests/support/whole_values.h"

namespace shardplan {
namespace {

using testing::moves;
using testing::SmallGraph;

// A column-parallel product, then a row-parallel one (Shoeybi et al.,
// "Megatron-LM", 2019).
struct Mlp {
  explicit Mlp(const char* mesh, const char* x_spec, const char* up_spec,
               const char* down_spec)
      : g(mesh) {
    const ValueId x = g.input({4, 4, 16}, x_spec);
    const ValueId up = g.parameter({16, 64}, up_spec);
    const ValueId down = g.parameter({64, 16}, down_spec);
    const ValueId h = g.node("gelu", {g.einsum("bsd,df->bsf", x, up)});
    y = g.einsum("bsf,fd->bsd", h, down);
  }
  SmallGraph g;
  ValueId y;
};

TEST_CASE(
    "partition: a column-parallel and a row-parallel product take one "
    "all-reduce") {
  Mlp mlp("tp=4", "None, None", "None, tp", "tp, None");
  CHECK(moves(mlp.g.plan()) == "all-reduce over tp of v5 (partial sum)");
}

TEST_CASE(
    "partition: with the sequence sharded, it is an all-gather and a "
    "reduce-scatter") {
  Mlp mlp("tp=4", "None, tp", "None, tp", "tp, None");
  mlp.g.want(mlp.y, "None, tp");
  CHECK(moves(mlp.g.plan()) ==
        "all-gather over tp of x0 (implicit); "
        "reduce-scatter over tp of v5 (partial sum)");
}

// XLA and Megatron-LM do the same at every size.
TEST_CASE("partition: the batch does not change what a product sends") {
  struct SentCase {
    const char* x;
    const char* w;
    const char* wanted;  // "": none
    const char* sent;
  };
  const SentCase cases[] = {
      {"dp, None, tp", "tp, None", "",
       "all-reduce over tp of v2 (partial sum)"},
      {"dp, None, tp", "tp, None", "dp, None, None",
       "all-reduce over tp of v2 (partial sum)"},
      {"dp, None, tp", "tp, None", "dp, tp, None",
       "reduce-scatter over tp of v2 (partial sum)"},
      {"dp, None, tp", "tp, None", "dp, None, tp",
       "reduce-scatter over tp of v2 (partial sum)"},
      {"dp, None, None", "tp, None", "",
       "all-reduce over tp of v2 (partial sum)"},
      {"dp, None, None", "None, tp", "dp, None, None",
       "all-gather over tp of v2 (declared)"},
      {"dp, tp, None", "None, tp", "", "all-gather over tp of x0 (implicit)"},
      {"dp, tp, None", "None, tp", "dp, tp, None",
       "all-gather over tp of w1 (implicit)"},
      {"dp, tp, None", "tp, None", "", "all-gather over tp of w1 (implicit)"},
      {"dp, None, None", "tp, dp", "",
       "all-gather over dp of w1 (weight use); "
       "all-reduce over tp of v2 (partial sum)"}};
  for (const SentCase& each : cases) {
    for (const int64_t tokens : {4, 64, 256, 4096, 1 << 20}) {
      SmallGraph g("dp=2,tp=4");
      const ValueId x = g.input({4, tokens, 64}, each.x);
      const ValueId y =
          g.einsum("bsk,kn->bsn", x, g.parameter({64, 64}, each.w));
      if (*each.wanted != 0) g.want(y, each.wanted);
      CAPTURE(each.x);
      CAPTURE(each.w);
      CAPTURE(tokens);
      CHECK(moves(g.plan()) == each.sent);
    }
  }
}

TEST_CASE("partition: FSDP gathers weights, and sums nothing") {
  Mlp mlp("fsdp=4", "fsdp, None", "fsdp, None", "fsdp, None");
  CHECK(moves(mlp.g.plan()) ==
        "all-gather over fsdp of w1 (weight use); "
        "all-gather over fsdp of w2 (weight use)");
  Mlp columns("fsdp=4", "fsdp, None", "None, fsdp", "None, fsdp");
  CHECK(moves(columns.g.plan()) ==
        "all-gather over fsdp of w1 (weight use); "
        "all-gather over fsdp of w2 (weight use)");
}

TEST_CASE(
    "partition: FSDP gathers weights also where they are the larger "
    "ones") {
  SmallGraph g("fsdp=4");
  const ValueId x = g.input({4, 64}, "fsdp, None");
  g.einsum("bd,df->bf", x, g.parameter({64, 64}, "fsdp, None"));
  CHECK(moves(g.plan()) == "all-gather over fsdp of w1 (weight use)");
}

TEST_CASE("partition: FSDP with tensor parallelism does both") {
  Mlp mlp("fsdp=2,tp=2", "fsdp, None", "fsdp, tp", "tp, fsdp");
  CHECK(moves(mlp.g.plan()) ==
        "all-gather over fsdp of w1 (weight use); "
        "all-gather over fsdp of w2 (weight use); "
        "all-reduce over tp of v5 (partial sum)");
}

TEST_CASE("partition: tokens move to their experts and back by all-to-all") {
  SmallGraph g("ep=4");
  const ValueId x = g.input({4, 8, 16}, "None, ep, None");  // experts, tokens
  const ValueId w = g.parameter({4, 16, 16}, "ep, None, None");
  const ValueId routed = g.constrained(x, "ep, None, None");
  const ValueId y = g.einsum("etd,edf->etf", routed, w);
  g.constrained(y, "None, ep, None");
  CHECK(moves(g.plan()) ==
        "all-to-all over ep of v2 (declared); "
        "all-to-all over ep of v4 (declared)");
}

TEST_CASE("partition: a vocabulary that is sharded sums the embeddings") {
  SmallGraph g("tp=4");
  const ValueId table = g.parameter({32, 8}, "tp, None");
  const ValueId ids = g.input({2, 4}, "None, None", 32);
  const ValueId x = g.node("embedding", {table, ids});
  g.node("relu", {x});
  CHECK(moves(g.plan()) == "all-reduce over tp of v2 (partial sum)");
}

TEST_CASE("partition: rms_norm of sharded features sums one number per row") {
  SmallGraph g("tp=4");
  const ValueId x = g.input({8, 64}, "None, tp");
  const ValueId scale = g.parameter({64}, "tp");
  g.composite("rms_norm", {x, scale});
  const Program program = g.plan();
  CHECK(moves(program) == "all-reduce over tp of v2:mean_square (partial sum)");
}

TEST_CASE(
    "partition: attention over sharded heads moves nothing before the "
    "output projection") {
  SmallGraph g("tp=2");
  const ValueId x = g.input({2, 4, 16}, "None, None, None");
  std::vector<ValueId> qkv;
  for (int i = 0; i < 3; ++i) {
    const ValueId w = g.parameter({16, 4, 8}, "None, tp, None");
    qkv.push_back(g.einsum("bsd,dhk->bshk", x, w));
  }
  const ValueId scores = g.einsum("bqhk,bshk->bhqs", qkv[0], qkv[1]);
  const ValueId weights =
      g.composite("softmax", {g.node("causal_mask", {scores})});
  const ValueId mixed = g.einsum("bhqs,bshk->bqhk", weights, qkv[2]);
  const ValueId out = g.parameter({4, 8, 16}, "tp, None, None");
  const ValueId y = g.einsum("bqhk,hkd->bqd", mixed, out);
  CHECK(moves(g.plan()) ==
        "all-reduce over tp of " + g.graph.values[y].name + " (partial sum)");
}

TEST_CASE(
    "partition: partial sums are added, scaled and reshaped before they "
    "are summed once") {
  SmallGraph g("tp=4");
  const ValueId x = g.input({8, 16}, "None, tp");
  const ValueId a = g.einsum("bd,df->bf", x, g.parameter({16, 8}, "tp, None"));
  const ValueId b = g.einsum("bd,df->bf", x, g.parameter({16, 8}, "tp, None"));
  const ValueId sum = g.node("add", {g.node("scale", {a}, {{"by", 0.5}}), b});
  const ValueId flat =
      g.node("reshape", {sum}, {{"shape", std::vector<int64_t>{64}}});
  g.node("relu", {flat});
  CHECK(moves(g.plan()) == "all-reduce over tp of v7 (partial sum)");
}

TEST_CASE("partition: a bias is added after the sum, not to every part") {
  SmallGraph g("tp=4");
  const ValueId x = g.input({8, 16}, "None, tp");
  const ValueId y = g.einsum("bd,df->bf", x, g.parameter({16, 8}, "tp, None"));
  g.node("add", {y, g.parameter({8}, "None")});
  CHECK(moves(g.plan()) == "all-reduce over tp of v2 (partial sum)");
}

TEST_CASE("partition: operands that disagree are moved, and nobody asked") {
  SmallGraph g("a=2,b=2");
  const ValueId x = g.input({8, 16}, "None, a");
  g.einsum("bd,df->bf", x, g.parameter({16, 8}, "b, None"));
  const Program program = g.plan();
  int implicit = 0;
  for (const Instruction& at : program.instructions) {
    if (at.kind != Instruction::Kind::Collective) continue;
    implicit += at.cause == Cause::Implicit;
  }
  CAPTURE(moves(program));
  CHECK(implicit >= 1);
}

TEST_CASE("partition: what is gathered only to be resharded is marked") {
  SmallGraph g("a=2,b=4");
  const ValueId x = g.input({4}, "a");  // too short for both axes at once
  g.constrained(x, "b");
  const Program program = g.plan();
  CHECK(moves(program) ==
        "all-gather over a of v1 (declared), to be cut again");
  SmallGraph plain("a=2,b=4");
  plain.constrained(plain.input({4}, "a"), "None");
  CHECK(moves(plain.plan()) == "all-gather over a of v1 (declared)");
}

TEST_CASE("partition: a value gathered once serves all who need it") {
  SmallGraph g("tp=2");
  const ValueId x = g.input({2, 4, 8}, "None, tp, None");
  for (int i = 0; i < 2; ++i) {
    g.einsum("bsd,df->bsf", x, g.parameter({8, 16}, "None, tp"));
  }
  CHECK(moves(g.plan()) == "all-gather over tp of x0 (implicit)");
}

// What program.h promises of every program, whatever the graph.
TEST_CASE("partition: every register is made once, before it is read") {
  for (uint64_t seed = 0; seed < 150; ++seed) {
    CAPTURE(seed);
    testing::Random random(seed);
    const Mesh mesh = testing::random_mesh(random, 16);
    const Graph graph = testing::random_graph(random, 10);
    const WantedLayouts wanted = testing::random_layouts(random, mesh, graph);
    const Program program = partition(graph, mesh, wanted, {});
    std::set<RegisterId> made;
    for (const Instruction& at : program.instructions) {
      for (const RegisterId operand : at.operands)
        CHECK(made.count(operand) == 1);
      CHECK(made.insert(at.result).second);
      const Register& result = program.registers[at.result];
      CHECK(result.local_shape ==
            local_shape(program.mesh, result.layout,
                        graph.values[result.value].shape));
    }
    CHECK(program.outputs.size() == graph.outputs.size());
    for (size_t i = 0; i < program.outputs.size(); ++i) {
      const Register& output = program.registers[program.outputs[i]];
      CHECK(output.value == graph.outputs[i]);
      CHECK(output.layout.partial.empty());
      const auto& asked = wanted[output.value];
      if (asked) CHECK(output.layout == *asked);
    }
  }
}

constexpr Overlap kForms[] = {Overlap::Ring, Overlap::Bidirectional,
                              Overlap::Split};

// The sequence is sharded before and after: an all-gather feeds the first
// product, and a reduce-scatter drains the second.
struct SequenceParallel {
  SequenceParallel() : g("tp=4") {
    const ValueId x = g.input({2, 8, 16}, "None, tp, None");
    const ValueId up = g.parameter({16, 64}, "None, tp");
    const ValueId down = g.parameter({64, 16}, "tp, None");
    const ValueId h = g.node("gelu", {g.einsum("bsd,df->bsf", x, up)});
    g.want(g.einsum("bsf,fd->bsd", h, down), "None, tp, None");
  }
  SmallGraph g;
};

TEST_CASE("overlap: products are joined with what feeds and drains them") {
  SequenceParallel s;
  CHECK(moves(s.g.plan()) ==
        "all-gather over tp of x0 (implicit); "
        "reduce-scatter over tp of v5 (partial sum)");
  for (const Overlap form : kForms) {
    const Program program = s.g.plan({form, nullptr});
    CHECK(moves(program) ==
          "overlapped all-gather over tp of x0 (implicit); "
          "overlapped reduce-scatter over tp of v5 (partial sum)");
    for (const Instruction& at : program.instructions) {
      if (at.overlap == Overlap::Off) continue;
      CHECK(at.overlap == form);
      CHECK(at.algorithm == &overlap_algorithm(form));
      CHECK(at.dim == 1);
    }
  }
}

TEST_CASE(
    "overlap: a gathered value that two products read is gathered apart") {
  SmallGraph g("tp=2");
  const ValueId x = g.input({2, 4, 8}, "None, tp, None");
  for (int i = 0; i < 2; ++i) {
    g.einsum("bsd,df->bsf", x, g.parameter({8, 16}, "None, tp"));
  }
  CHECK(moves(g.plan({Overlap::Ring, nullptr})) ==
        "all-gather over tp of x0 (implicit)");
}

TEST_CASE("overlap: an all-gather that feeds something else stays") {
  SmallGraph g("tp=2");
  const ValueId x = g.input({4, 8}, "tp, None");
  g.node("relu", {g.constrained(x, "None, None")});
  CHECK(moves(g.plan({Overlap::Ring, nullptr})) ==
        "all-gather over tp of v1 (declared)");
}

TEST_CASE("overlap: the forms are the algorithms of these names") {
  CHECK(overlap_algorithm(Overlap::Ring).name == "ring");
  CHECK(overlap_algorithm(Overlap::Bidirectional).name == "bidirectional-ring");
  CHECK(overlap_algorithm(Overlap::Split).name == "split-ring");
}

TEST_CASE("overlap: results are the same, and so are the bytes") {
  SequenceParallel s;
  SimulateOptions options;
  options.values = ValueSource::Field;
  const Program apart = s.g.plan();
  const PerValue<Tensor> values = s.g.values(ValueSource::Field);
  const Simulation plain = simulate(apart, values, options);
  CHECK_FALSE(plain.mismatch.has_value());
  for (const Overlap form : kForms) {
    options.partition.overlap = form;
    const Simulation joined =
        simulate(s.g.plan({form, nullptr}), values, options);
    CHECK_FALSE(joined.mismatch.has_value());
    CHECK(joined.bytes_moved == plain.bytes_moved);
    CHECK(joined.bytes_priced == plain.bytes_priced);
    CHECK(joined.flops >= plain.flops);
  }
}

}  // namespace

}  // namespace shardplan
