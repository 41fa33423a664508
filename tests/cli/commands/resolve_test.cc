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

TEST_CASE("resolve gives a row per parameter, whatever was found") {
  const json report = report_of({"resolve"}, "fsdp=2,tp=2");
  CHECK(report.at("command") == "resolve");
  const json& rows = report.at("tables").at("placements");
  REQUIRE(rows.size() == 7);
  const json embedding = {{"parameter", "embed/embedding"},
                          {"dtype", "bf16"},
                          {"shape", {33, 16}},
                          {"rule", 1},
                          {"pattern", "embedding"},
                          {"requested", {"tp", "fsdp"}},
                          {"spec", {nullptr, "fsdp"}},
                          {"local_shape", {33, 8}},
                          {"bytes_per_device", 528},
                          {"shards", 2},
                          {"replicas", 2}};
  CHECK(rows[0] == embedding);
  // A scalar asks no rule.
  CHECK(rows[6].at("rule").is_null());
  CHECK(rows[6].at("pattern").is_null());
  CHECK(rows[6].at("requested").is_null());
  CHECK(rows[6].at("spec") == json::array());
}

TEST_CASE("resolve exits with 1 where a finding is an error") {
  MemoryHost host = planning_host();
  CHECK(run_on(host, {"resolve", "--tolerance", "1"}, "fsdp=2,tp=2") == 0);
  MemoryHost cut = planning_host();
  CHECK(run_on(cut, {"resolve", "--tolerance", "1"}, "fsdp=2,tp=4") == 1);
  CHECK(cut.err.find("error[SP206]") != std::string::npos);
  CHECK(cut.out.find("P(fsdp, tp)") != std::string::npos);
}

TEST_CASE("resolve -o x.plan.json saves a plan that gives the same report") {
  MemoryHost host = planning_host();
  CHECK(run_on(host, {"resolve", "-o", "x.plan.json", "--tolerance", "1"},
               "fsdp=2,tp=2") == 0);
  CHECK(host.written == std::vector<std::string>{"x.plan.json"});
  host.out.clear();
  CHECK(run({"resolve", "model.json", "--plan", "x.plan.json", "--tolerance",
             "1", "--json"},
            host) == 0);
  const json again = json::parse(host.out);
  const json direct = report_of({"resolve", "--tolerance", "1"}, "fsdp=2,tp=2");
  CHECK(again.at("summary") == direct.at("summary"));
  CHECK(again.at("tables") == direct.at("tables"));
}

TEST_CASE("a plan for another model is refused") {
  MemoryHost host = planning_host();
  run_on(host, {"resolve", "-o", "x.plan.json"}, "fsdp=2,tp=2");
  host.files["other.json"] = R"({"w": {"shape": [2], "dtype": "f32"}})";
  CHECK(run({"resolve", "other.json", "--plan", "x.plan.json"}, host) == 2);
  CHECK(host.err.find("error[SP011]") != std::string::npos);
  CHECK(host.err.find("not in the plan: `w`") != std::string::npos);
}

}  // namespace
}  // namespace shardplan::cli
