// SPDX-License-Identifier: Apache-2.0
// `plan` as a command: what it reports is what `analyze` says of it, whatever
// the threads, and what it cannot do it says.
#include <cstdint>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "cli/commands.h"
#include "cli/commands/plan/request.h"
#include "cli/flags.h"
#include "tests/support/hf_config.h"
#include "tests/support/memory_host.h"
#include "tests/support/tiny_llama.h"
#include "tests/support/words.h"

namespace shardplan {
namespace {

using testing::Json;
using testing::MemoryHost;
using testing::Words;

Json report_of(const Words& words, int exit) {
  MemoryHost host;
  host.files["config.json"] = testing::tiny_llama().dump();
  Words all = words;
  all.emplace_back("--json");
  CHECK(cli::run(all, host) == exit);
  return Json::parse(host.out);
}

TEST_CASE("plan: `analyze` says the same of the plan") {
  const Words asked = {"--hardware", "h100-sxm", "--batch",     "16",
                       "--seq",      "512",      "--optimizer", "adamw"};
  Words plan = {"plan", "config.json", "--devices", "4"};
  plan.insert(plan.end(), asked.begin(), asked.end());
  const Json summary = report_of(plan, 0).at("summary");
  std::string mesh;
  for (const auto& [axis, size] : summary.at("mesh").items()) {
    mesh += (mesh.empty() ? "" : ",") + axis + "=" + size.dump();
  }
  Words analyze = {"analyze",        "config.json",
                   "--mesh",         mesh,
                   "--microbatches", summary.at("microbatches").dump(),
                   "--remat",        summary.at("remat").get<std::string>(),
                   "--zero",         summary.at("zero").dump()};
  analyze.insert(analyze.end(), asked.begin(), asked.end());
  if (summary.at("zero") != 0) {
    analyze.insert(analyze.end(), {"--zero-axes", "dp"});
  }
  if (const std::string axes = summary.at("sequence_axes"); !axes.empty()) {
    analyze.insert(analyze.end(), {"--sequence-axes", axes});
  }
  if (summary.at("stages") != 1) {
    analyze.insert(analyze.end(), {"--stages", "pp", "--schedule",
                                   summary.at("schedule").get<std::string>()});
  }
  const Json again = report_of(analyze, 0).at("summary");
  for (const char* key : {"step_time", "memory_bracket"}) {
    CHECK(again.at(key) == summary.at(key));
  }
  CHECK(summary.at("gap").get<double>() >= 0);
  CHECK(summary.at("value") == summary.at("step_time").at("estimate"));
}

TEST_CASE("plan: the same for any number of threads") {
  const Words one = {"plan",       "config.json", "--devices", "4",
                     "--batch",    "16",          "--seq",     "512",
                     "--hardware", "h100-sxm",    "--jobs",    "1"};
  Words three = one;
  three.back() = "3";
  CHECK(report_of(one, 0) == report_of(three, 0));
}

TEST_CASE("plan: nothing fits") {
  const Json report =
      report_of({"plan", "config.json", "--devices", "2", "--batch", "16",
                 "--seq", "512", "--hardware", "h100-sxm", "--memory", "1MiB"},
                1);
  CHECK(report.at("summary").at("mesh").is_null());
  CHECK(report.at("summary").at("fits") == false);
  CHECK(report.at("summary").at("unfit").get<int64_t>() > 0);
}

TEST_CASE("plan: why not another mesh") {
  const Json report =
      report_of({"plan", "config.json", "--devices", "4", "--batch", "16",
                 "--seq", "512", "--hardware", "h100-sxm", "--why-not", "tp=4",
                 "--why-not", "fsdp=4", "--why-not", "sp=2,tp=2"},
                0);
  const Json& rows = report.at("tables").at("why_not");
  REQUIRE(rows.size() == 3);
  CHECK(rows[0].at("verdict") == "illegal");
  for (size_t i = 1; i < 3; ++i) {
    const std::string verdict = rows[i].at("verdict");
    CHECK((verdict == "worse" || verdict == "chosen" || verdict == "illegal"));
  }
}

TEST_CASE("plan: what it is not asked in the right way") {
  for (const Words& words : std::vector<Words>{
           {"plan", "config.json", "--hardware", "h100-sxm"},
           {"plan", "config.json", "--devices", "4"},
           {"plan", "config.json", "--devices", "4", "--hardware", "h100-sxm",
            "--mode", "decode"},
           {"plan", "config.json", "--devices", "4", "--hardware", "h100-sxm",
            "--over", "model"},
           {"plan", "config.json", "--devices", "4", "--hardware", "h100-sxm",
            "--fix-mesh", "tp=2,pp=2,dp=2"},
           {"plan", "config.json", "--devices", "4", "--hardware", "h100-sxm",
            "--why-not", "tp=8"}}) {
    MemoryHost host;
    host.files["config.json"] = testing::tiny_llama().dump();
    CHECK(cli::run(words, host) == 2);
    CHECK(host.err.find("SP") != std::string::npos);
  }
}

TEST_CASE("plan: rules are written that make the plan") {
  MemoryHost host;
  host.files["config.json"] = testing::tiny_llama().dump();
  Words plan = {"plan",     "config.json", "--devices", "4",
                "--batch",  "16",          "--seq",     "512",
                "--json",   "--hardware",  "h100-sxm",  "--write-rules",
                "best.yaml"};
  REQUIRE(cli::run(plan, host) == 0);
  const Json summary = Json::parse(host.out).at("summary");
  host.out.clear();
  REQUIRE(cli::run({"resolve", "config.json", "--rules", "best.yaml", "--json"},
                   host) == 0);
  const Json resolved = Json::parse(host.out).at("summary");
  CHECK(resolved.at("fingerprint") == summary.at("fingerprint"));
}

TEST_CASE("plan: its own flags are of no other command") {
  for (const cli::Flag& flag : cli::plan_flags()) {
    CHECK(flag.commands == "plan");
    CHECK(!flag.configurable);
  }
}

}  // namespace
}  // namespace shardplan
