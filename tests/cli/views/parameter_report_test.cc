// SPDX-License-Identifier: Apache-2.0
#include "cli/views/parameter_report.h"

#include <doctest/doctest.h>

#include "tests/support/builders.h"
#include "tests/support/planning.h"

namespace shardplan::cli {
namespace {

const Manifest kModel = testing::manifest({{"embed.w", "f32[4]"},
                                           {"layers.0.q", "f32[4]"},
                                           {"layers.1.q", "f32[4]"},
                                           {"head", "f32[4]"},
                                           {"head.bias", "f32[4]"}});

std::optional<size_t> find(const std::string& name, Diagnostics& diags) {
  const std::vector<uint32_t> kinds(kModel.size(), 0);
  return find_parameter(kModel,
                        fold(kinds, [](size_t i) { return kModel.name(i); }),
                        name, diags);
}

TEST_CASE("a parameter is named, or found by a pattern that finds one") {
  const struct {
    const char* name;
    size_t parameter;
  } rows[] = {{"layers.1.q", 2}, {"head", 3}, {"^emb", 0}, {R"(\.1\.)", 2}};
  for (const auto& row : rows) {
    CAPTURE(row.name);
    Diagnostics diags;
    CHECK(find(row.name, diags) == row.parameter);
    CHECK(diags.all().empty());
  }
}

TEST_CASE("what is not a parameter gets a name that is near") {
  const struct {
    const char* name;
    const char* fact;
    const char* help;
  } rows[] = {{"layers", "as a pattern it matches 2 names",
               "there is a similar parameter: `layers.0.q`"},
              {"haed", nullptr, "did you mean `head`?"},
              {"q(", nullptr, nullptr}};
  for (const auto& row : rows) {
    CAPTURE(row.name);
    Diagnostics diags;
    CHECK_FALSE(find(row.name, diags));
    REQUIRE(diags.all().size() == 1);
    const Diagnostic& problem = diags.all()[0];
    CHECK(problem.code == Code::Usage);
    CHECK(problem.facts.size() == (row.fact != nullptr ? 1 : 0));
    if (row.fact != nullptr) CHECK(problem.facts.at(0) == row.fact);
    CHECK(problem.help.size() == (row.help != nullptr ? 1 : 0));
    if (row.help != nullptr) CHECK(problem.help.at(0) == row.help);
  }
}

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
  CHECK(host.out.find("every shard is on 4 devices, along fsdp, tp") !=
        std::string::npos);
  host.out.clear();
  run_on(host,
         {"inspect", "--declare", "replicate-kv-heads", "-q", "--shard",
          "layers/0/self_attn/k_proj/kernel"},
         "fsdp=2,tp=4");
  CHECK(host.out.find("dimension 1 is stored as 32 rows") != std::string::npos);
}

TEST_CASE("what makes a plan does not apply to inspect without --shard") {
  MemoryHost host = planning_host();
  CHECK(run_on(host, {"inspect"}, "tp=2") == 2);
  CHECK(host.err.find("`--rules` does not apply to `inspect` without "
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

json steps(const std::string& name) {
  return report_of({"resolve", "--why", name}, "fsdp=2,tp=2")
      .at("tables")
      .at("why");
}

TEST_CASE("--why shows every rule, every dimension and the result") {
  const json rows = steps("embed/embedding");
  REQUIRE(rows.size() == 6);
  CHECK(rows[0].at("step") == "rule 1");
  CHECK(rows[0].at("outcome") == "decides");
  CHECK(rows[0].at("detail") == "rules.yaml:2");
  CHECK(rows[1].at("step") == "rules 2-3");
  CHECK(rows[1].at("subject") == "not found");
  CHECK(rows[2].at("subject") == "P(tp, fsdp)");
  CHECK(rows[3].at("outcome") ==
        "dropped `tp`: 33 is not divisible by tp=2 (SP203)");
  CHECK(rows[4].at("outcome") == "kept");
  CHECK(rows[5].at("subject") == "P(None, fsdp)");
  CHECK(rows[5].at("detail") == "local bf16[33, 8]");
}

TEST_CASE("--why says that rules do not apply to scalars") {
  const json rows = steps("step");
  REQUIRE(rows.size() == 2);
  CHECK(rows[0].at("step") == "scalar");
}

TEST_CASE("--why names what is near an unknown parameter") {
  MemoryHost host = planning_host();
  CHECK(run_on(host, {"resolve", "--why", "embed/embeding"}, "tp=2") == 2);
  CHECK(host.out.empty());
  CHECK(host.err.find("error[SP010]") == 0);
  CHECK(host.err.find("`embed/embedding`") != std::string::npos);
  CHECK(host.err.find("SP203") == std::string::npos);
}

TEST_CASE("--why shows what is stored as declared") {
  MemoryHost host = planning_host();
  run_on(host,
         {"resolve", "--declare", "replicate-kv-heads", "--why",
          "layers/0/self_attn/k_proj/kernel", "-q"},
         "fsdp=2,tp=4");
  CHECK(host.out.find("16 stored as 32") != std::string::npos);
  CHECK(host.out.find("32 / tp=4") != std::string::npos);
}

}  // namespace

}  // namespace shardplan::cli
