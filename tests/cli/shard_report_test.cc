// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "tests/support/planning.h"

namespace shardplan::cli {
namespace {

using nlohmann::json;
using testing::MemoryHost;
using testing::planning_host;
using testing::report_of;
using testing::run_on;

const char* const kQuery = "layers/0/self_attn/q_proj/kernel";

TEST_CASE("JSON has a row for each device") {
  const json report =
      report_of({"inspect", "--shard", kQuery}, "dp=2,fsdp=2,tp=2");
  const json& summary = report.at("summary");
  CHECK(summary.at("tensors") == 7);
  CHECK(summary.at("parameter") == kQuery);
  CHECK(summary.at("shards") == 4);
  CHECK(summary.at("replicas") == 2);
  const json& rows = report.at("tables").at("shards");
  REQUIRE(rows.size() == 8);
  CHECK(rows[6] == json{{"device", 6},
                        {"coordinates", {1, 1, 0}},
                        {"begin", {8, 0}},
                        {"end", {16, 16}},
                        {"padding", {0, 0}}});
  CHECK(report_of({"inspect", "--shard", kQuery, "--expand"},
                  "dp=2,fsdp=2,tp=2") == report);
}

TEST_CASE("uneven cuts have padding, or smaller chunks") {
  const auto rows = [](const char* policy) {
    return report_of({"inspect", "--shard", "embed/embedding",
                      "--on-indivisible", policy},
                     "tp=2")
        .at("tables")
        .at("shards");
  };
  const json padded = rows("pad");
  CHECK(padded[1].at("begin")[0] == 17);
  CHECK(padded[1].at("end")[0] == 33);
  CHECK(padded[1].at("padding")[0] == 1);
  CHECK(rows("chunk")[1].at("padding")[0] == 0);
}

TEST_CASE("the drawing follows the terminal's width and signs") {
  for (const bool unicode : {true, false}) {
    MemoryHost host = planning_host();
    host.variables["LANG"] = unicode ? "C.UTF-8" : "C";
    host.variables["COLUMNS"] = "80";
    run_on(host, {"inspect", "--shard", kQuery, "-q"}, "fsdp=2,tp=2");
    CHECK((host.out.find("│  0   │  1   │") != std::string::npos ||
           host.out.find("┌") != std::string::npos) == unicode);
    CHECK((host.out.find("+--") != std::string::npos) == !unicode);
  }
}

TEST_CASE("a plan serves as well as rules, and stored sizes are shown") {
  MemoryHost host = planning_host();
  run_on(host, {"resolve", "-o", "x.plan.json", "-q"}, "fsdp=2,tp=2");
  CHECK(run({"inspect", "model.json", "--plan", "x.plan.json", "--shard",
             "norm/scale"},
            host) == 1);  // SP304 and SP203 of the whole plan
  CHECK(host.out.find("every shard lies on 4 devices, along fsdp, tp") !=
        std::string::npos);
  host.out.clear();
  run_on(host,
         {"inspect", "--declare", "replicate-kv-heads", "-q", "--shard",
          "layers/0/self_attn/k_proj/kernel"},
         "fsdp=2,tp=4");
  CHECK(host.out.find("dimension 1 is stored as 32 rows") != std::string::npos);
}

TEST_CASE("what makes a plan means nothing to inspect without --shard") {
  MemoryHost host = planning_host();
  CHECK(run_on(host, {"inspect"}, "tp=2") == 2);
  CHECK(host.err.find("`--rules` means nothing to `inspect` without "
                      "`--shard`") != std::string::npos);
  // A configuration is for all commands.
  MemoryHost configured = planning_host();
  configured.files["shardplan.yaml"] = "rules: rules.yaml\nmesh: {tp: 2}\n";
  CHECK(run({"inspect", "model.json"}, configured) == 0);
  CHECK(run({"inspect", "model.json", "--shard", kQuery, "-q"}, configured) ==
        1);
  CHECK(configured.out.find("columns are dimension 1") != std::string::npos);
}

TEST_CASE("a mesh of too many devices is not listed") {
  MemoryHost host = planning_host();
  CHECK(run_on(host, {"inspect", "--shard", kQuery}, "tp=2097152") == 2);
  CHECK(host.err.find("`--shard` lists at most 131,072 devices") !=
        std::string::npos);
}

}  // namespace
}  // namespace shardplan::cli
