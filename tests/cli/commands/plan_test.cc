// SPDX-License-Identifier: Apache-2.0
// `plan` as a command: what it reports is what `analyze` says of it, whatever
// the threads, and what it cannot do it says.
#include <cstdint>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "cli/commands.h"
#include "cli/commands/plan/request.h"
#include "cli/flags.h"
#include "tests/support/hf_config.h"
#include "tests/support/memory_host.h"
#include "tests/support/thinned.h"
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

// The command that an answer ends with.
Words command_of(const Words& plan) {
  MemoryHost host;
  host.files["config.json"] = testing::tiny_llama().dump();
  CHECK(cli::run(plan, host) == 0);
  const size_t at = host.out.rfind("shardplan analyze ");
  REQUIRE(at != std::string::npos);
  Words words;
  std::istringstream text(host.out.substr(at));
  for (std::string word; text >> word;) words.push_back(word);
  words.erase(words.begin());
  return words;
}

TEST_CASE("plan: its command says the same of the plan") {
  const std::vector<Words> asked = {
      {"--optimizer", "lion", "--over", "dp,fsdp"},
      {"--framework", "megatron", "--over", "pp,dp", "--attention", "scores"},
      {"--over", "sp,tp", "--precision", "bf16", "--remat", "full"},
      {"--framework", "torch", "--memory", "1GiB", "--kernels", "fused",
       "--over", "fsdp,tp"},
  };
  testing::Thinned rows{2};
  for (const Words& more : asked) {
    if (rows.skips()) continue;
    CAPTURE(testing::command_line(more));
    Words plan = {"plan", "config.json", "--devices", "4",          "--batch",
                  "16",   "--seq",       "512",       "--hardware", "h100-sxm"};
    plan.insert(plan.end(), more.begin(), more.end());
    const Json summary = report_of(plan, 0).at("summary");
    const Json again = report_of(command_of(plan), 0).at("summary");
    for (const char* key : {"step_time", "memory_bracket"}) {
      CHECK(again.at(key) == summary.at(key));
    }
    CHECK(summary.at("gap").get<double>() >= 0);
    CHECK(summary.at("value") == summary.at("step_time").at("estimate"));
  }
}

TEST_CASE("plan: its configuration has the flags of its command") {
  MemoryHost host;
  host.files["models/a config.json"] = testing::tiny_llama().dump();
  REQUIRE(cli::run({"plan", "models/a config.json", "--devices", "4", "--batch",
                    "16", "--seq", "512", "--hardware", "h100-sxm",
                    "--framework", "megatron", "--over", "pp", "--fp8",
                    "delayed", "--write-config", "ci/plan.yaml"},
                   host) == 0);
  CAPTURE(host.out);
  const size_t at = host.out.rfind("shardplan analyze 'models/a config.json'");
  REQUIRE(at != std::string::npos);
  std::istringstream text(host.out.substr(at));
  std::string word;
  for (int i = 0; i < 4; ++i) text >> word;  // up to the model, of two words
  std::string expected;
  while (text >> word) {
    expected +=
        word.starts_with("--") ? "    " + word.substr(2) + ": " : word + "\n";
  }
  const std::string& written = host.files.at("ci/plan.yaml");
  CHECK(
      written.ends_with("    model: \"../models/a config.json\"\n" + expected));
  host.out.clear();
  CHECK(cli::run({"check", "--config", "ci/plan.yaml", "--allow", "SP209"},
                 host) == 0);
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

TEST_CASE("plan: a framework's own tensor parallelism has to run the rules") {
  const auto verdict = [](const std::string& framework, const char* mesh,
                          bool down_by_rows) {
    // Megatron has no FSDP.
    const std::string second = framework == "megatron" ? "null" : "fsdp";
    const std::string columns = "[tp, " + second + "]]\n";
    const std::string rows = "[" + second + ", tp]]\n";
    MemoryHost host;
    host.files["config.json"] = testing::tiny_llama().dump();
    host.files["own.yaml"] =
        "rules:\n"
        "  - [\"(q|k|v|gate|up)_proj\", " +
        columns + "  - [\"o_proj\", " + rows + "  - [\"down_proj\", " +
        (down_by_rows ? rows : columns) +
        "  - [\"(embed_tokens|lm_head)\", [tp]]\n"
        "  - [\".*\", []]\n";
    cli::run({"plan", "config.json", "--rules", "own.yaml", "--devices", "4",
              "--batch", "16", "--seq", "512", "--hardware", "h100-sxm",
              "--framework", framework, "--why-not", mesh, "--json"},
             host);
    const Json row = Json::parse(host.out).at("tables").at("why_not").at(0);
    return row.at("verdict").get<std::string>() +
           (row.at("verdict") == "illegal"
                ? ": " + row.at("reason").get<std::string>().substr(0, 5)
                : "");
  };
  CHECK(verdict("torch", "fsdp=2,tp=2", true).substr(0, 7) != "illegal");
  CHECK(verdict("torch", "fsdp=2,tp=2", false) == "illegal: SP020");
  CHECK(verdict("jax", "fsdp=2,tp=2", false).substr(0, 7) != "illegal");
  CHECK(verdict("megatron", "dp=2,tp=2", true).substr(0, 7) != "illegal");
  CHECK(verdict("megatron", "dp=2,tp=2", false) == "illegal: SP014");
}

TEST_CASE("plan: why not another spec, or other rules") {
  MemoryHost host;
  host.files["config.json"] = testing::tiny_llama().dump();
  host.files["whole.yaml"] = "rules:\n  - [\".*\", []]\n";
  host.files["own.yaml"] =
      "mesh: {fsdp: 2, tp: 2}\nrules:\n"
      "  - [\"(q|k|v|gate|up)_proj\", [tp, fsdp]]\n"
      "  - [\"(o|down)_proj\", [fsdp, tp]]\n"
      "  - [\".*\", [[fsdp, tp]]]\n";
  REQUIRE(
      cli::run({"plan", "config.json", "--devices", "4", "--batch", "16",
                "--seq", "512", "--hardware", "h100-sxm", "--json", "--why-not",
                "model.layers.0.mlp.up_proj.weight=P(None)", "--why-not",
                "own.yaml", "--why-not", "whole.yaml", "--keep", "whole.yaml"},
               host) == 0);
  const Json report = Json::parse(host.out);
  const Json& rows = report.at("tables").at("why_not");
  REQUIRE(rows.size() == 4);
  for (const Json& row : rows) {
    CAPTURE(row.dump());
    const std::string verdict = row.at("verdict");
    CHECK((verdict == "worse" || verdict == "chosen"));
    CHECK(row.at("value").get<double>() >=
          report.at("summary").at("value").get<double>());
  }
  CHECK(rows[1].at("candidate") == "own.yaml");
  CHECK(rows[2] == rows[3]);
  // What is to be kept stands beside the best of each shape.
  const Json& plans = report.at("tables").at("plans");
  CHECK(std::ranges::any_of(
      plans, [](const Json& row) { return row.at("rules") == "whole.yaml"; }));
}

TEST_CASE("plan: the better rules are the plan, whichever were asked about") {
  // Large enough for its steps not to wait for launches alone.
  Json large = testing::tiny_llama();
  large["hidden_size"] = 2048;
  large["intermediate_size"] = 8192;
  std::vector<Json> reports;
  for (const auto& [given, rival] :
       {std::pair("cut.yaml", "own.yaml"), std::pair("own.yaml", "cut.yaml")}) {
    MemoryHost host;
    host.files["config.json"] = large.dump();
    host.files["cut.yaml"] = "rules:\n  - [\".*\", [[fsdp, tp]]]\n";
    host.files["own.yaml"] =
        "rules:\n  - [\"(q|k|v|gate|up)_proj\", [tp, fsdp]]\n"
        "  - [\"(o|down)_proj\", [fsdp, tp]]\n"
        "  - [\".*\", [[fsdp, tp]]]\n";
    REQUIRE(cli::run({"plan", "config.json", "--rules", given, "--devices", "4",
                      "--batch", "16", "--seq", "4096", "--json", "--hardware",
                      "h100-sxm", "--fix-mesh", "fsdp=2,tp=2", "--why-not",
                      rival, "--write-rules", "best.yaml"},
                     host) == 0);
    reports.push_back(Json::parse(host.out));
    host.out.clear();
    REQUIRE(
        cli::run({"resolve", "config.json", "--rules", "best.yaml", "--json"},
                 host) == 0);
    CHECK(Json::parse(host.out).at("summary").at("fingerprint") ==
          reports.back().at("summary").at("fingerprint"));
  }
  for (const char* key : {"value", "fingerprint"}) {
    CHECK(reports[0].at("summary").at(key) == reports[1].at("summary").at(key));
  }
  const auto verdict = [&](size_t i) {
    return reports[i].at("tables").at("why_not")[0].at("verdict");
  };
  CHECK(verdict(0) != verdict(1));
  CHECK((verdict(0) == "chosen" || verdict(1) == "chosen"));
}

TEST_CASE("plan: a spec that is forbidden is nowhere") {
  const Words words = {"plan",     "config.json", "--devices",
                       "4",        "--batch",     "16",
                       "--seq",    "512",         "--hardware",
                       "h100-sxm", "--fix-mesh",  "fsdp=2,tp=2"};
  const Json free = report_of(words, 0);
  Words bound = words;
  bound.insert(bound.end(), {"--forbid", "up_proj=P(tp, fsdp)"});
  const Json forbidden = report_of(bound, 1);
  CHECK(free.at("summary").at("illegal") == 0);
  CHECK(forbidden.at("summary").at("illegal") ==
        forbidden.at("summary").at("considered"));
  CHECK(forbidden.at("tables").at("rejected")[0].at("reason") ==
        "`--forbid up_proj=P(tp, fsdp)`");
  bound.back() = "up_proj=P(fsdp, tp)";  // which nothing is
  CHECK(report_of(bound, 0).at("summary").at("value") ==
        free.at("summary").at("value"));
}

TEST_CASE("plan: --fix-mesh holds against what is asked about") {
  for (const Words& kind :
       std::vector<Words>{{"--batch", "16", "--seq", "512", "--fix-mesh",
                           "fsdp=2,tp=2", "--why-not", "fsdp=4"},
                          {"--mode", "decode", "--engine", "vllm", "--fix-mesh",
                           "pp=4", "--memory", "1GiB", "--why-not", "tp=4"}}) {
    Words words = {"plan", "config.json", "--devices",
                   "4",    "--hardware",  "h100-sxm"};
    words.insert(words.end(), kind.begin(), kind.end());
    MemoryHost host;
    host.files["config.json"] = testing::tiny_llama().dump();
    words.emplace_back("--json");
    const int exit = cli::run(words, host);
    CHECK((exit == 0 || exit == 1));
    const Json row = Json::parse(host.out).at("tables").at("why_not").at(0);
    CHECK(row.at("verdict") == "illegal");
    CHECK(row.at("reason") == "`--fix-mesh` asks for another mesh");
  }
}

TEST_CASE("plan: run on a smaller model") {
  MemoryHost host;
  host.files["config.json"] = testing::tiny_llama().dump();
  REQUIRE(cli::run({"plan", "config.json", "--devices", "4", "--batch", "16",
                    "--seq", "512", "--hardware", "h100-sxm", "--fix-mesh",
                    "fsdp=2,tp=2", "--verify"},
                   host) == 0);
  CHECK(host.out.find("simulated with smaller sizes on fsdp=2,tp=2: ok: "
                      "sharded and unsharded agree") != std::string::npos);
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
            "--batch", "4", "--seq", "64", "--over", "tp", "--why-not", "tp=8"},
           {"plan", "config.json", "--devices", "4", "--hardware", "h100-sxm",
            "--batch", "4", "--seq", "64", "--over", "tp", "--why-not",
            "nothing=P(tp)"},
           {"plan", "config.json", "--devices", "4", "--hardware", "h100-sxm",
            "--batch", "4", "--seq", "64", "--over", "tp", "--why-not",
            "lm_head.weight=P(tp, fsdp, dp)"},
           {"plan", "config.json", "--devices", "4", "--hardware", "h100-sxm",
            "--batch", "4", "--seq", "64", "--over", "tp", "--why-not",
            "missing.yaml"},
           {"plan", "config.json", "--devices", "4", "--hardware", "h100-sxm",
            "--batch", "4", "--seq", "64", "--over", "tp", "--forbid",
            "lm_head"},
           {"plan", "config.json", "--devices", "4", "--hardware", "h100-sxm",
            "--batch", "4", "--seq", "64", "--over", "tp", "--keep",
            "missing.yaml"}}) {
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
