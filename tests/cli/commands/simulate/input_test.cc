// SPDX-License-Identifier: Apache-2.0
#include "cli/commands/simulate/input.h"

#include <doctest/doctest.h>

#include "base/allocation.h"
#include "base/real_host.h"
#include "graph/op.h"
#include "tests/support/memory_host.h"
#include "tests/support/messages.h"
#include "tests/support/safetensors.h"
#include "tests/support/simulating.h"
#include "tests/support/source_dir.h"

namespace shardplan::cli {
namespace {

TEST_CASE("recorded outputs bring the tokens that they are of") {
  testing::MemoryHost host;
  const auto disk = make_real_host();
  host.below = disk.get();
  host.below_root = source_dir();
  Diagnostics diags;
  const auto expected = read_expected(
      "tests/data/checkpoints/gpt2.expected.safetensors", host, diags);
  REQUIRE_MESSAGE(expected, testing::messages(diags));
  const InputIds ids = recorded_ids(*expected);
  REQUIRE(ids.size() == 2);
  CHECK(ids[0].size() == 12);
  for (const auto& sequence : ids) {
    for (const int64_t id : sequence) CHECK((id >= 0 && id < 1000));
  }
}

TEST_CASE("without tokens of the right shape there are none") {
  testing::MemoryHost host;
  host.files["flat.safetensors"] =
      testing::safetensors({{"input_ids", "I64", {6}}});
  host.files["real.safetensors"] =
      testing::safetensors({{"input_ids", "F32", {2, 3}}});
  Diagnostics diags;
  for (const char* path : {"flat.safetensors", "real.safetensors"}) {
    const auto expected = read_expected(path, host, diags);
    REQUIRE(expected);
    CHECK(recorded_ids(*expected).empty());
  }
}

TEST_CASE("a file that is not there, or has no data, is refused") {
  testing::MemoryHost host;
  host.files["header.safetensors"] =
      testing::safetensors({{"logits", "F32", {2, 3}}}, false);
  for (const char* path : {"missing.safetensors", "header.safetensors"}) {
    Diagnostics diags;
    CHECK_FALSE(read_expected(path, host, diags));
    CHECK(diags.count(Severity::Error) == 1);
  }
}

// x -> op -> y, both of `elements` elements.
Graph graph_of(const char* op, int64_t elements) {
  Graph graph;
  Value x;
  x.name = "x";
  x.shape = {elements};
  x.kind = Value::Kind::Input;
  Value y = x;
  y.name = "y";
  y.kind = Value::Kind::Result;
  y.node = NodeId(0);
  GraphNode node;
  node.op = find_op(op);
  node.operands = {ValueId(0)};
  node.result = ValueId(1);
  graph.values = {x, y};
  graph.nodes = {node};
  graph.outputs = {ValueId(1)};
  return graph;
}

bool fits(const Graph& graph, bool exact = false) {
  Diagnostics diags;
  const bool fine = fits_memory(graph, exact, {}, diags);
  CHECK(fine == diags.all().empty());
  for (const Diagnostic& each : diags.all()) {
    CHECK(each.code == Code::MemoryBudget);
  }
  return fine;
}

TEST_CASE("simulate memory: operands and result of one operation must fit") {
  constexpr int64_t kMiB = int64_t{1} << 20U;
  AllocationLimit limit;
  // 12 bytes of each number of the input, 16 of the result.
  limit.set(28 * kMiB);
  CHECK(fits(graph_of("silu", kMiB - 1000)));
  CHECK_FALSE(fits(graph_of("silu", kMiB + 1000)));
  CHECK(fits(graph_of("silu", kMiB + 1000), true));  // 8 and 16
}

TEST_CASE("simulate memory: a view takes nothing") {
  constexpr int64_t kMiB = int64_t{1} << 20U;
  AllocationLimit limit;
  limit.set(28 * kMiB);
  CHECK(fits(graph_of("reshape", 2 * kMiB)));
  CHECK_FALSE(fits(graph_of("silu", 2 * kMiB)));
}

TEST_CASE("simulate memory: results count until they are read last") {
  constexpr int64_t kMiB = int64_t{1} << 20U;
  // x -> y -> z -> w; where `y` is an output as well it stays.
  Graph graph = graph_of("silu", kMiB);
  for (int made = 2; made < 4; ++made) {
    Value value = graph.values[ValueId(1)];
    value.node = NodeId(made - 1);
    graph.values.push_back(value);
    GraphNode node = graph.nodes[NodeId(0)];
    node.operands = {ValueId(made - 1)};
    node.result = ValueId(made);
    graph.nodes.push_back(node);
  }
  graph.outputs = {ValueId(3)};
  AllocationLimit limit;
  limit.set(50 * kMiB);
  CHECK(fits(graph));  // 24 of the operand, 16 of the result
  graph.outputs = {ValueId(1), ValueId(3)};
  CHECK_FALSE(fits(graph));
}

TEST_CASE("simulate memory: sizes beyond 63 bits are no overflow") {
  Graph graph = graph_of("silu", int64_t{1} << 60U);
  CHECK_FALSE(fits(graph));
  graph.values[ValueId(0)].shape = {int64_t{1} << 40U, int64_t{1} << 40U};
  CHECK_FALSE(fits(graph));
}

using testing::messages;
using testing::simulating;

TEST_CASE("simulate reads a model, its graph and its rules") {
  const auto s = simulating();
  REQUIRE_MESSAGE(s->input, messages(s->diags));
  CHECK(s->input->graph.name == "block");
  CHECK(s->input->session.model.manifest.size() == 2);
  CHECK_FALSE(s->input->model);
  CHECK(s->input->source == ValueSource::Random);
  CHECK(s->input->how.overlap == Overlap::Off);
}

TEST_CASE("a parameter of the graph must be in the model") {
  const auto s = simulating({{"model.json", R"({
  "mlp/up": {"shape": [16, 32], "dtype": "f32"},
  "mlp/dawn": {"shape": [32, 16], "dtype": "f32"}})"}});
  CHECK_FALSE(s->input);
  CHECK(messages(s->diags).find(
            "SP015 block.yaml:7:3 the shape of `down` is unknown") !=
        std::string::npos);
}

TEST_CASE("a graph that no memory holds is refused before it is made") {
  const auto s = simulating({{"block.yaml", R"(graph: block
inputs:
  x: {shape: [1000000, 1000000, 1000000], spec: []}
ops:
  - {op: silu, in: x, out: y}
)"}});
  CHECK_FALSE(s->input);
  CHECK(messages(s->diags).find("too large to run") != std::string::npos);
}

TEST_CASE("a model of no family needs a graph") {
  testing::MemoryHost host = testing::block_host();
  CHECK(
      run({"simulate", "model.json", "--rules", "rules.yaml", "--mesh", "tp=2"},
          host) == 2);
  CHECK(host.err.find("error[SP016]: ") == 0);
  CHECK(host.err.find("`--graph FILE`") != std::string::npos);
}

TEST_CASE("flags of whole models and of graph files are told apart") {
  testing::MemoryHost host = testing::block_host();
  const std::vector<std::string> block = {
      "simulate", "model.json", "--graph", "block.yaml",
      "--rules",  "rules.yaml", "--mesh",  "tp=2"};
  for (const std::vector<std::string>& more :
       std::vector<std::vector<std::string>>{{"--layers", "1"},
                                             {"--tokens", "1x1"},
                                             {"--capacity", "1"},
                                             {"--shrink"}}) {
    CAPTURE(more[0]);
    std::vector<std::string> words = block;
    words.insert(words.end(), more.begin(), more.end());
    host.err.clear();
    CHECK(run(words, host) == 2);
    CHECK(host.err.find("error[SP010]: " + more[0] +
                        " applies to whole models") == 0);
  }
  host.err.clear();
  CHECK(run({"simulate", "model.json", "--dims", "a=1", "--rules", "rules.yaml",
             "--mesh", "tp=2"},
            host) == 2);
  CHECK(host.err.find("error[SP010]: --dims applies to graph files") == 0);
}

TEST_CASE("more devices than can be run are refused") {
  testing::MemoryHost host = testing::block_host();
  CHECK(run({"simulate", "model.json", "--graph", "block.yaml", "--rules",
             "rules.yaml", "--mesh", "fsdp=1024,tp=2"},
            host) == 2);
  CHECK(host.err.find("`simulate` runs at most 1,024 devices") !=
        std::string::npos);
}

TEST_CASE("without rules, a graph's own specs count") {
  testing::MemoryHost host;
  host.files["g.yaml"] = R"(graph: g
inputs:
  x: {shape: [4, 8], spec: [null, tp]}
parameters:
  w: {shape: [8, 4], spec: [tp, null]}
ops:
  - {op: linear, in: [x, w], out: y}
)";
  CHECK(run({"simulate", "g.yaml", "--mesh", "tp=2"}, host) == 0);
  CHECK(host.out.find("all-reduce") != std::string::npos);
  // An axis that the mesh lacks is no more silent than in rules.
  host.out.clear();
  CHECK(run({"simulate", "g.yaml", "--mesh", "dp=2"}, host) == 1);
  CHECK(host.err.find("SP201") != std::string::npos);
  host.err.clear();
  CHECK(run({"simulate", "g.yaml", "--mesh", "dp=2", "--axes", "tp,dp"},
            host) == 0);
}

}  // namespace

}  // namespace shardplan::cli
