// SPDX-License-Identifier: Apache-2.0
// Plans that hooks run, against transformers itself (tests/data/
// hf_tp_runs.jsonl, record_hf_tp_runs.py): its own plans, and the same with
// entries changed.
#include <fstream>
#include <map>
#include <string>

#include <doctest/doctest.h>

#include "cli/commands.h"
#include "tests/support/hf_config.h"
#include "tests/support/memory_host.h"
#include "tests/support/source_dir.h"
#include "tests/support/thinned.h"

namespace shardplan {
namespace {

using testing::Json;
using testing::MemoryHost;

TEST_CASE("simulate: plans of hooks are judged as transformers runs them") {
  std::ifstream lines(source_dir() / "tests/data/hf_tp_runs.jsonl");
  std::map<std::string, size_t> judged;
  size_t alike = 0;  // errors that are said to be one, and numbers that differ
  testing::Thinned rows{10};
  for (std::string line; std::getline(lines, line);) {
    if (rows.skips()) continue;
    const Json recorded = Json::parse(line);
    CAPTURE(recorded.at("name").get<std::string>());
    Json plan = recorded.at("plan");
    plan.update(recorded.at("changed"));
    MemoryHost host;
    host.files["config.json"] = recorded.at("config").dump(1);
    host.files["plan.json"] = Json{{"tp_plan", plan},
                                   {"transformers_version",
                                    recorded.at("versions").at("transformers")}}
                                  .dump(1);
    const int exit = cli::run({"simulate", "config.json", "--rules",
                               "plan.json", "--mesh", "tp=2", "--json"},
                              host);
    const Json report = Json::parse(host.out);
    const Json& summary = report.at("summary");
    CHECK(summary.at("run_as") == "hooks");
    const std::string forward = recorded.at("forward").at(0);
    ++judged[forward];
    const bool is_right = forward == "right";
    CHECK((exit == 0) == is_right);
    CHECK(summary.at("verdict") == (is_right ? "ok" : "mismatch"));
    const bool stops = host.out.find("the plan stops at") != std::string::npos;
    if (!is_right && stops == (forward == "error")) ++alike;
  }
  const size_t broken = judged["error"] + judged["wrong"];
  CHECK(judged["right"] >= rows.of(70));
  CHECK(broken >= rows.of(230));
  // Seven of 236 stop in transformers where here other numbers are found.
  CHECK(alike + 7 >= broken);
}

}  // namespace
}  // namespace shardplan
