// SPDX-License-Identifier: Apache-2.0
#include "cli/simulate_input.h"

#include <doctest/doctest.h>

#include "tests/support/messages.h"
#include "tests/support/simulating.h"

namespace shardplan::cli {
namespace {

using testing::messages;
using testing::simulating;

TEST_CASE("simulate reads a model, its graph and its rules") {
  const auto s = simulating();
  REQUIRE_MESSAGE(s->input, messages(s->diags));
  CHECK(s->input->graph.name == "block");
  CHECK(s->input->session.manifest.size() == 2);
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
            "SP015 block.yaml:7:3 the shape of `down` is not known") !=
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
                                             {"--input-ids", "1"},
                                             {"--capacity", "1"},
                                             {"--shrink"}}) {
    CAPTURE(more[0]);
    std::vector<std::string> words = block;
    words.insert(words.end(), more.begin(), more.end());
    host.err.clear();
    CHECK(run(words, host) == 2);
    CHECK(host.err.find("error[SP010]: " + more[0] + " is for whole models") ==
          0);
  }
  host.err.clear();
  CHECK(run({"simulate", "model.json", "--dims", "a=1", "--rules", "rules.yaml",
             "--mesh", "tp=2"},
            host) == 2);
  CHECK(host.err.find("error[SP010]: --dims is for graph files") == 0);
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
