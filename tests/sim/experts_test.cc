// SPDX-License-Identifier: Apache-2.0
// Mixtures of experts: how tokens and experts come together on the devices, and
// that they compute what the unsharded graph does.
#include <memory>
#include <string>

#include <doctest/doctest.h>

#include "resolve/resolve.h"
#include "sim/activations.h"
#include "sim/simulate.h"
#include "tests/support/built_graph.h"
#include "tests/support/loaded_rules.h"
#include "tests/support/small_graph.h"

namespace shardplan {
namespace {

// A graph and what a program makes of it. Does not move: `program` points into
// it.
struct Placed {
  std::unique_ptr<testing::BuiltGraph> built;
  Program program{Mesh({{"dp", 1}}), nullptr, {}, {}, {}, {}};
};

// @moe on a mesh, by a rule file or a shipped set (`@mixtral`).
std::unique_ptr<Placed> placed(const std::string& mesh_text,
                               const std::string& rules) {
  const DimSizes dims = {{"length", 4}, {"embed", 16}, {"mlp", 16}};
  auto result = std::make_unique<Placed>();
  result->built = testing::shipped_graph("moe", dims);
  REQUIRE_MESSAGE(result->built->graph, result->built->messages);
  const Graph& graph = *result->built->graph;
  Manifest manifest;
  for (const Value& value : graph.values) {
    if (value.kind != Value::Kind::Parameter) continue;
    REQUIRE(manifest.add(value.parameter, {DType::F32, value.shape}, {}));
  }
  testing::MemoryHost host;
  host.files["rules.yaml"] = rules;
  const auto loaded = testing::loaded_rules(
      host, rules.front() == '@' ? rules.c_str() : "rules.yaml");
  REQUIRE_MESSAGE(loaded->rules, testing::messages(loaded->diags));
  const Mesh mesh = testing::SmallGraph(mesh_text).mesh;
  Diagnostics diags;
  const auto plan = resolve(manifest, *loaded->rules, mesh, {}, diags);
  REQUIRE(plan.has_value());
  const auto values =
      place_values(graph, manifest, *plan, *loaded->rules, {}, diags);
  REQUIRE(values.has_value());
  CHECK(testing::messages(diags).empty());
  result->program = partition(graph, mesh, values->wanted, {});
  return result;
}

// As @mixtral, but with the batch on the axis of experts as well.
constexpr const char* kBatchOnExperts = R"(axes: [dp, fsdp, ep, tp, sp]
partition_axis: {batch_axis: [fsdp, dp, ep]}
rules:
  - ["experts/(w1|w3)/kernel", [ep, fsdp, tp]]
  - ["experts/w2/kernel", [ep, tp, fsdp]]
  - [".", []]
)";

void check_equal(const Program& program) {
  for (const ValueSource source : {ValueSource::Field, ValueSource::Random}) {
    Diagnostics diags;
    const auto values = make_values(*program.graph, source, 3, diags);
    REQUIRE(values.has_value());
    SimulateOptions options;
    options.values = source;
    const Simulation s = simulate(program, *values, options);
    CHECK_FALSE(s.mismatch.has_value());
    CHECK(s.bytes_moved == s.bytes_priced);
  }
}

TEST_CASE(
    "experts: with the batch elsewhere, devices add their experts' sums") {
  const auto p = placed("ep=4", "@mixtral");
  CHECK(testing::moves(p->program) ==
        "all-reduce over ep of combined (partial sum)");
  check_equal(p->program);
}

TEST_CASE("experts: with the batch on their axis, tokens go there and back") {
  const auto p = placed("ep=4", kBatchOnExperts);
  CHECK(testing::moves(p->program) ==
        "all-to-all over ep of dispatched (implicit); "
        "all-to-all over ep of downed (implicit)");
  check_equal(p->program);
}

TEST_CASE("experts: other axes do what they do in a dense layer") {
  const auto apart = placed("fsdp=2,ep=2,tp=2", "@mixtral");
  CHECK(testing::moves(apart->program) ==
        "all-gather over fsdp of gate (weight use); "
        "all-gather over fsdp of up (weight use); "
        "all-gather over fsdp of down (weight use); "
        "all-reduce over (ep, tp) of combined (partial sum)");
  check_equal(apart->program);
  const auto together = placed("fsdp=2,ep=2,tp=2", kBatchOnExperts);
  CHECK(testing::moves(together->program) ==
        "all-to-all over ep of dispatched (implicit); "
        "all-gather over fsdp of gate (weight use); "
        "all-gather over fsdp of up (weight use); "
        "all-gather over fsdp of down (weight use); "
        "all-to-all over ep of downed (implicit); "
        "all-reduce over tp of combined (partial sum)");
  check_equal(together->program);
}

TEST_CASE("experts: every mesh gives what one device gives") {
  for (const char* mesh :
       {"dp=2", "fsdp=4", "tp=4", "sp=2", "ep=8", "dp=2,ep=4", "fsdp=2,sp=2",
        "fsdp=2,tp=2", "ep=2,tp=4", "sp=2,ep=2,tp=2"}) {
    for (const char* rules : {"@mixtral", kBatchOnExperts}) {
      CAPTURE(mesh);
      CAPTURE(rules);
      check_equal(placed(mesh, rules)->program);
    }
  }
}

}  // namespace
}  // namespace shardplan
