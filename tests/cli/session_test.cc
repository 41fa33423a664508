// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "tests/support/planning.h"

namespace shardplan::cli {
namespace {

using testing::MemoryHost;
using testing::planning_host;
using testing::report_of;
using testing::run_on;

TEST_CASE("a session needs rules, and a mesh from a flag or the rules") {
  struct Row {
    std::vector<std::string> words;
    const char* says;
  };
  const Row rows[] = {
      {{"check", "model.json", "--mesh", "tp=2"}, "error[SP010]: no rules"},
      {{"check", "model.json", "--rules", "rules.yaml"},
       "error[SP007]: no mesh"},
      {{"check", "model.json", "--rules", "rules.yaml", "--mesh", "tp=2,tp=2"},
       "error[SP007]: axis `tp` appears twice"},
      {{"check", "-", "--rules", "-", "--mesh", "tp=2"},
       "error[SP010]: standard input can be read once only"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.says);
    MemoryHost host = planning_host();
    CHECK(run(row.words, host) == 2);
    CHECK(host.out.empty());
    CHECK(host.err.find(row.says) == 0);
  }
}

TEST_CASE("the rules' own mesh serves, and --mesh wins over it") {
  MemoryHost host = planning_host();
  host.files["rules.yaml"] += "mesh: {fsdp: 2, tp: 1}\n";
  CHECK(run({"resolve", "model.json", "--rules", "rules.yaml", "--json"},
            host) == 0);
  const auto own = nlohmann::ordered_json::parse(host.out);
  CHECK(own.at("summary").at("mesh").dump() == R"({"fsdp":2,"tp":1})");
  host.out.clear();
  run_on(host, {"resolve", "--json"}, "tp=2");
  const auto flag = nlohmann::ordered_json::parse(host.out);
  CHECK(flag.at("summary").at("mesh").dump() == R"({"tp":2})");
}

TEST_CASE("the mesh of a dump serves where nobody gives another") {
  MemoryHost host = planning_host();
  host.files["d/named_shardings.json"] = R"({".params/['w']": {
    "mesh": {"axis_names": ["fsdp", "tp"], "shape": {"fsdp": 4, "tp": 2}},
    "partition_spec": ["fsdp", "tp"], "shape": [8, 8]}})";
  host.files["w.yaml"] = R"({axes: [fsdp], rules: [["w", [tp, null]]]})";
  const auto mesh_of = [&](std::vector<std::string> words) {
    host.out.clear();
    words.insert(words.begin(), {"resolve", "d", "--json"});
    CHECK(run(words, host) == 0);
    const auto report = nlohmann::ordered_json::parse(host.out);
    return report.at("summary").at("mesh").dump();
  };
  CHECK(mesh_of({"--rules", "w.yaml"}) == R"({"fsdp":4,"tp":2})");
  CHECK(mesh_of({"--rules", "w.yaml", "--mesh", "tp=8"}) == R"({"tp":8})");
  CHECK(mesh_of({"--rules", "d"}) == R"({"fsdp":4,"tp":2})");
  host.err.clear();
  host.out.clear();
  run({"resolve", "d", "--rules", "w.yaml"}, host);
  CHECK(host.out.find("the mesh fsdp=4,tp=2 is that of `d`") !=
        std::string::npos);
}

TEST_CASE("--axes declares axes that the rules may name") {
  const auto errors = [](std::vector<std::string> words) {
    return report_of(std::move(words), "tp=2").at("summary").at("errors");
  };
  CHECK(errors({"resolve", "--tolerance", "1"}) == 5);  // fsdp, five times
  CHECK(errors({"resolve", "--tolerance", "1", "--axes", "fsdp"}) == 0);
}

TEST_CASE("the answer does not depend on the number of threads") {
  const auto one = report_of({"resolve", "--jobs", "1"}, "fsdp=2,tp=2");
  CHECK(report_of({"resolve", "--jobs", "4"}, "fsdp=2,tp=2") == one);
}

}  // namespace
}  // namespace shardplan::cli
