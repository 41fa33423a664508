// SPDX-License-Identifier: Apache-2.0

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "tests/support/simulating.h"

namespace shardplan::cli {
namespace {

using nlohmann::json;
using testing::block_host;
using testing::MemoryHost;

int simulate(MemoryHost& host, std::vector<std::string> more) {
  std::vector<std::string> words = {"simulate",   "model.json", "--graph",
                                    "block.yaml", "--rules",    "rules.yaml",
                                    "--mesh",     "fsdp=2,tp=2"};
  words.insert(words.end(), more.begin(), more.end());
  return run(words, host);
}

json report(std::vector<std::string> more, int code = 0,
            MemoryHost host = block_host()) {
  more.emplace_back("--json");
  CHECK(simulate(host, std::move(more)) == code);
  CAPTURE(host.err);
  return json::parse(host.out);
}

TEST_CASE("simulate: the contract's keys, and what FSDP with tp moves") {
  const json r = report({});
  CHECK(r.at("command") == "simulate");
  const json& summary = r.at("summary");
  CHECK(summary.at("devices") == 4);
  CHECK(summary.at("verdict") == "ok");
  CHECK(summary.at("structural_error").get<double>() < 1e-12);
  CHECK(summary.at("error_amplification").is_number());
  CHECK(summary.at("bound_ratio").get<double>() <= 1);
  CHECK(summary.at("decision_flips") == 0);
  // Two products of 4 x 16 x 16 per device, and 4 steps of silu for 4 x 16.
  CHECK(summary.at("flops").get<int64_t>() * 4 ==
        summary.at("unsharded_flops").get<int64_t>());
  CHECK(summary.at("bytes_moved") == summary.at("bytes_priced"));
  CHECK(summary.at("implicit_reshards") == 0);
  json gathers = {{"kind", "all-gather"},
                  {"axis", "fsdp"},
                  {"count", 2},
                  {"algorithm", "ring"},
                  {"bytes_per_device", 2 * 8 * 16 * 4},
                  {"cause", "gathers weights"},
                  {"at", {"h", "y"}}};
  json sums = {{"kind", "all-reduce"},
               {"axis", "tp"},
               {"count", 1},
               {"algorithm", "ring"},
               {"bytes_per_device", 4 * 16 * 4},
               {"cause", "reduces partial sums"},
               {"at", {"y"}}};
  CHECK(r.at("tables").at("collectives") == json{gathers, sums});
  const json x = {{"value", "x"},
                  {"shape", {8, 16}},
                  {"spec", {"fsdp", nullptr}},
                  {"from", "graph"}};
  CHECK(r.at("tables").at("activations")[0] == x);
}

TEST_CASE("simulate: exact integers, every form of overlap, every algorithm") {
  for (const char* overlap : {"off", "ring", "bidirectional", "split"}) {
    CAPTURE(overlap);
    const json r = report({"--values", "field", "--overlap", overlap});
    CHECK(r.at("summary").at("verdict") == "ok");
    CHECK(r.at("summary").at("error_amplification").is_null());
  }
  for (const char* algorithm : {"split-ring", "halving-doubling", "direct"}) {
    CAPTURE(algorithm);
    const json r = report({"--algorithm", algorithm});
    CHECK(r.at("tables").at("collectives")[0].at("algorithm") == algorithm);
  }
}

TEST_CASE("simulate: the same bytes for any number of threads, and by seed") {
  MemoryHost one = block_host();
  MemoryHost five = block_host();
  simulate(one, {"--jobs", "1", "--json"});
  simulate(five, {"--jobs", "5", "--json"});
  CHECK(one.out == five.out);
  CHECK(report({"--seed", "3"}).at("summary").at("structural_error") !=
        report({"--seed", "4"}).at("summary").at("structural_error"));
}

TEST_CASE("simulate: sizes of the graph may be replaced") {
  const json r = report({"--dims", "batch=4"});
  CHECK(r.at("tables").at("activations")[0].at("shape") == json{4, 16});
  MemoryHost host = block_host();
  CHECK(simulate(host, {"--dims", "batsch=4"}) == 2);
  CHECK(host.err.find("`batch`") != std::string::npos);
  host = block_host();
  CHECK(simulate(host, {"--dims", "batch"}) == 2);
  CHECK(host.err.find("`--dims batch=2,length=16`") != std::string::npos);
}

TEST_CASE("simulate: a graph file is a model, and may bring its own specs") {
  MemoryHost host;
  CHECK(run({"simulate", "@tp_dense_scatter", "--mesh", "tp=4", "--json"},
            host) == 0);
  const json r = json::parse(host.out);
  CHECK(r.at("tables").at("collectives")[0].at("kind") == "reduce-scatter");
  CHECK(r.at("diagnostics")[0].at("code") == "SP505");
  host = MemoryHost();
  CHECK(run({"simulate", "@mlp", "--mesh", "tp=4"}, host) == 2);
  CHECK(host.err.find("no rules were given") != std::string::npos);
}

TEST_CASE("simulate: what is resharded unasked is said with place and bytes") {
  MemoryHost host = block_host();
  host.files["rules.yaml"] = R"(rules:
  - ["up", [null, tp]]
  - ["down", [null, tp]]
)";
  const json r = report({}, 0, host);
  CHECK(r.at("summary").at("implicit_reshards") == 1);
  const json& note = r.at("diagnostics").back();
  CHECK(note.at("code") == "SP501");
  CHECK(note.at("severity") == "note");
  CHECK(note.at("message") ==
        "`a` is resharded for `y` (linear): all-gather over tp");
  CHECK(note.at("labels")[0].at("line") == 11);
}

TEST_CASE("simulate: findings in the rules count, the answer is there") {
  MemoryHost host = block_host();
  host.files["rules.yaml"] = "rules:\n  - [\"up\", [fsdp, tp]]\n";
  const json r = report({}, 1, host);
  CHECK(r.at("summary").at("verdict") == "ok");
  CHECK(r.at("diagnostics")[0].at("code") == "SP101");
}

TEST_CASE("simulate: too large, missing and malformed inputs are refused") {
  MemoryHost host = block_host();
  CHECK(simulate(host, {"--dims", "batch=1000000000000"}) == 2);
  CHECK(host.err.find("too large to run") != std::string::npos);
  host = block_host();
  host.files.erase("block.yaml");
  CHECK(simulate(host, {}) == 2);
  host = block_host();
  host.files["block.yaml"] = "graph: g\nops:\n  - {op: nope, in: x, out: y}\n";
  CHECK(simulate(host, {}) == 2);
  CHECK(host.err.find("SP015") != std::string::npos);
}

}  // namespace

}  // namespace shardplan::cli
