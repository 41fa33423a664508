// SPDX-License-Identifier: Apache-2.0
#include "cli/commands/semantics.h"

#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "tests/support/planning.h"

namespace shardplan::cli {
namespace {

using nlohmann::json;
using shardplan::testing::MemoryHost;
using shardplan::testing::planning_host;
using shardplan::testing::run_on;

json compared_semantics(const std::string& framework_semantics) {
  MemoryHost host = planning_host();
  CHECK(run_on(host, {"diff", "--semantics", framework_semantics, "--json"},
               "fsdp=2,tp=2") == 0);
  CHECK(host.err.empty());
  return json::parse(host.out);
}

TEST_CASE("programs get one row per parameter that is read differently") {
  const json report = compared_semantics("eformer,flax");
  const json rows = report.at("tables").at("disagreements");
  REQUIRE(rows.size() == 1);
  const json embedding = {{"parameter", "embed/embedding"},
                          {"dtype", "bf16"},
                          {"shape", {33, 16}},
                          {"rule", 1},
                          {"requested", {"tp", "fsdp"}},
                          {"outcome_a", "placed"},
                          {"spec_a", {nullptr, "fsdp"}},
                          {"bytes_per_device_a", 33 * 8 * 2},
                          {"outcome_b", "refused"},
                          {"spec_b", nullptr},
                          {"bytes_per_device_b", nullptr},
                          {"why",
                           "eformer: dimension 0 is not sharded: 33 is not "
                           "divisible by tp=2; flax: "
                           "dimension 0: 33 is not divisible by tp=2"}};
  CHECK(rows[0] == embedding);
}

TEST_CASE("the summary counts both sides") {
  const json summary = compared_semantics("eformer,flax").at("summary");
  CHECK(summary.at("semantics_a") == "eformer");
  CHECK(summary.at("semantics_b") == "flax");
  CHECK(summary.at("tensors") == 7);
  CHECK(summary.at("disagree").get<int>() + summary.at("agree").get<int>() ==
        7);
  CHECK(summary.at("refused_a") == 0);
  CHECK(summary.at("refused_b") == 1);
}

TEST_CASE("a reading agrees with itself") {
  const json report = compared_semantics("gspmd,gspmd");
  CHECK(report.at("summary").at("disagree") == 0);
  CHECK(report.at("tables").at("disagreements").empty());
}

TEST_CASE("--exit-code makes a disagreement a finding") {
  MemoryHost host = planning_host();
  CHECK(run_on(host, {"diff", "--semantics", "eformer,gspmd", "--exit-code"},
               "fsdp=2,tp=2") == 1);
  CHECK(run_on(host, {"diff", "--semantics", "hf,hf", "--exit-code"},
               "fsdp=2,tp=2") == 0);
}

TEST_CASE("one model is wanted, and two readings that exist") {
  const struct {
    std::vector<std::string> words;
    const char* message;
  } rows[] = {
      {{"diff", "--semantics", "eformer,flaxx", "m"},
       "error[SP010]: unknown reading `flaxx`\n"
       "help: did you mean `flax`?\n"},
      {{"diff", "--semantics", "eformer", "m"},
       "error[SP010]: `--semantics` takes two readings, not `eformer`\n"
       "help: for example `--semantics eformer,flax`\n"},
      {{"diff", "--semantics", "eformer,flax", "a", "b"},
       "error[SP010]: unexpected argument `b`\n"
       "help: usage: `shardplan diff --semantics .. MODEL`\n"},
      {{"diff", "--semantics", "eformer,flax"},
       "error[SP010]: `diff` needs MODEL\n"
       "help: usage: `shardplan diff --semantics .. MODEL`\n"},
      {{"diff", "a.plan.json", "b.plan.json", "--rules", "r"},
       "error[SP010]: `--rules` does not apply to `diff` without "
       "`--semantics`\nhelp: saved plans contain their own mesh, rules and "
       "placements; two rules files need nothing else\n"},
  };
  for (const auto& row : rows) {
    MemoryHost host;
    CHECK(run(row.words, host) == 2);
    CHECK(host.err == row.message);
  }
}

TEST_CASE("rules in a configuration do not stand in the way of two plans") {
  MemoryHost host = planning_host();
  run_on(host, {"resolve", "-o", "a.plan.json", "-q"}, "tp=2");
  host.files["shardplan.yaml"] = "rules: rules.yaml\nmesh: {tp: 2}\n";
  CHECK(run({"diff", "a.plan.json", "a.plan.json"}, host) == 0);
  CHECK(run({"diff", "--semantics", "hf,gspmd", "model.json"}, host) == 0);
}

TEST_CASE("a reading that knows none of the words says so") {
  MemoryHost host = planning_host();
  host.files["rules.yaml"] = "rules:\n  - [\"\", [HEAD]]\n";
  host.files["model.json"] = R"({"w": {"shape": [8], "dtype": "f32"}})";
  CHECK(run_on(host, {"diff", "--semantics", "easylm,dtensor"}, "tp=2") == 2);
  CHECK(host.err.find("error[SP014]: `easylm` reads none of these rules\n  = "
                      "`w`: `HEAD` is a semantic axis, which is not supported "
                      "here\nhelp: readings that support them: `eformer`\n") !=
        std::string::npos);
}

}  // namespace

}  // namespace shardplan::cli
