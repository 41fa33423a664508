// SPDX-License-Identifier: Apache-2.0
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "io/export.h"
#include "tests/support/memory_host.h"
#include "tests/support/planning.h"

namespace shardplan::cli {
namespace {

using nlohmann::json;
using testing::report_of;

TEST_CASE("analyze's summary keeps the identities of the report") {
  for (const std::string& policy : on_indivisible_names()) {
    CAPTURE(policy);
    const json summary =
        report_of({"analyze", "--on-indivisible", policy}, "fsdp=2,tp=4")
            .at("summary");
    const auto number = [&](const char* key) {
      return summary.at(key).get<double>();
    };
    const double padding = number("padding_bytes") / number("total_bytes");
    CHECK(number("efficiency") ==
          doctest::Approx(number("balance_score") /
                          (number("replication_factor") + padding)));
    const json& memory = summary.at("memory_per_device");
    CHECK(memory.at("max") >= memory.at("mean"));
    CHECK(memory.at("mean") >= memory.at("min"));
  }
}

TEST_CASE("devices differ under chunk alone, and the measures say so") {
  const json even = report_of({"analyze"}, "fsdp=2,tp=4");
  CHECK(even.at("tables").at("devices").size() == 1);
  for (const json& row : even.at("tables").at("imbalance")) {
    CHECK(row.at("value") == 0);
  }
  const json uneven =
      report_of({"analyze", "--on-indivisible", "chunk"}, "fsdp=2,tp=4");
  CHECK(uneven.at("tables").at("devices").size() > 1);
  int64_t devices = 0;
  for (const json& row : uneven.at("tables").at("devices")) {
    devices += row.at("devices").get<int64_t>();
  }
  CHECK(devices == 8);
  for (const json& row : uneven.at("tables").at("imbalance")) {
    CHECK(row.at("value") > 0);
    CHECK(row.at("value") < 1);
  }
}

TEST_CASE("groups add up to the whole") {
  const json report = report_of({"analyze"}, "fsdp=2,tp=2");
  for (const char* table : {"dtypes", "modules", "rule_bytes"}) {
    CAPTURE(table);
    int64_t bytes = 0;
    int64_t per_device = 0;
    for (const json& row : report.at("tables").at(table)) {
      bytes += row.at("bytes").get<int64_t>();
      per_device += row.at("bytes_per_device").get<int64_t>();
    }
    CHECK(bytes == report.at("summary").at("total_bytes"));
    CHECK(per_device == report.at("summary").at("memory_per_device").at("max"));
  }
}

using testing::MemoryHost;
using testing::planning_host;
using testing::run_on;

TEST_CASE("check prints its findings on stdout and counts them") {
  MemoryHost host = planning_host();
  CHECK(run_on(host, {"check"}, "fsdp=2,tp=4") == 1);
  CHECK(host.err.empty());
  CHECK(host.out.find("error[SP206]") != std::string::npos);
  CHECK(host.out.find("warning[SP203]") != std::string::npos);
  CHECK(host.out.find(" in 3 rules and 7 parameters\n") != std::string::npos);
}

TEST_CASE("check says when there is nothing to say") {
  MemoryHost host = planning_host();
  host.files["rules.yaml"] =
      "rules:\n  - [kernel, [fsdp, tp]]\n  - [embedding, [null, fsdp]]\n"
      "  - [scale, []]\n";
  CHECK(run_on(host, {"check"}, "fsdp=2,tp=2") == 0);
  CHECK(host.out == "No problems in 3 rules and 7 parameters.\n");
}

TEST_CASE("what --allow hides is counted, and --deny makes errors") {
  MemoryHost host = planning_host();
  CHECK(run_on(host, {"check", "--allow", "SP203,SP304"}, "fsdp=2,tp=2") == 0);
  CHECK(host.out ==
        "No problems in 3 rules and 7 parameters; 2 findings allowed.\n");
  MemoryHost denied = planning_host();
  CHECK(run_on(denied, {"check", "--tolerance", "1", "--deny", "warnings"},
               "fsdp=2,tp=2") == 1);
  CHECK(denied.out.find("error[SP203]") != std::string::npos);
}

TEST_CASE("--exit-zero turns findings into 0 but not failures") {
  MemoryHost host = planning_host();
  CHECK(run_on(host, {"check", "--exit-zero"}, "fsdp=2,tp=4") == 0);
  CHECK(run_on(host, {"check", "--exit-zero"}, "fsdp=0") == 2);
}

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
                          {"replicas", 2},
                          {"view", nullptr},
                          {"dealt", nullptr}};
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

using shardplan::testing::MemoryHost;
using shardplan::testing::planning_host;
using shardplan::testing::run_on;

// Without the comment above it.
std::string body_of(const std::string& text) {
  size_t at = 0;
  while (text.compare(at, 2, "# ") == 0) at = text.find('\n', at) + 1;
  return text.substr(at);
}

TEST_CASE("stdout holds the text alone, and findings are reported beside it") {
  MemoryHost host = planning_host();
  CHECK(run_on(host, {"export", "--to", "yaml"}, "fsdp=2,tp=2") == 1);
  CHECK(host.out ==
        R"(# Partition rules, as given; `shardplan export --to yaml`.
# model: model.json
# rules: rules.yaml
# mesh: fsdp=2,tp=2
mesh: {fsdp: 2, tp: 2}
rules:
  - ["embedding", [tp, fsdp]]
  - ["_proj/kernel", [fsdp, tp]]
  - ["scale", []]
)");
  CHECK(host.err.find("warning[SP203]") != std::string::npos);
}

TEST_CASE("a file is written whole") {
  MemoryHost host = planning_host();
  run_on(host, {"export", "--to", "python", "-o", "rules.py", "-q"}, "tp=2");
  CHECK(host.out.empty());
  CHECK(host.written == std::vector<std::string>{"rules.py"});
  CHECK(host.files["rules.py"].find("RULES = (\n") != std::string::npos);
}

TEST_CASE("what cannot be said is not written") {
  MemoryHost host = planning_host();
  CHECK(
      run_on(host,
             {"export", "--to", "jax", "-o", "m.py", "--on-indivisible", "pad"},
             "tp=2") == 2);
  CHECK(host.out.empty());
  CHECK(host.written.empty());
  CHECK(host.err.starts_with(
      "error[SP014]: `jax` cannot express the `--on-indivisible pad` split of "
      "`embed/embedding`\n"));
}

TEST_CASE("flags that rules have no words for make it a table") {
  MemoryHost host = planning_host();
  run_on(host, {"export", "--to", "yaml", "--min-size", "300"}, "fsdp=2,tp=2");
  CHECK(host.out.find("# flags: --min-size 300\n") != std::string::npos);
  CHECK(host.out.find("# this plan depends on flags") != std::string::npos);
  CHECK(
      host.out.find("  - [\"^layers/[0-9]+/self_attn/k_proj/kernel$\", []]") !=
      std::string::npos);
  // A flag that changed nothing does not.
  MemoryHost plain = planning_host();
  run_on(plain, {"export", "--to", "yaml", "--no-strict", "--min-size", "2"},
         "fsdp=2,tp=2");
  CHECK(plain.out.find("# Partition rules, as given") != std::string::npos);
}

TEST_CASE("parameters without a rule are said only where that is meant") {
  MemoryHost host = planning_host();
  host.files["rules.yaml"] = "rules:\n  - [_proj, [fsdp, tp]]\n";
  run_on(host, {"export", "--to", "json"}, "tp=2");
  CHECK(host.out.find("norm") == std::string::npos);
  host.out.clear();
  run_on(host, {"export", "--to", "json", "--unmatched", "replicate"}, "tp=2");
  CHECK(host.out.find("[\"^norm/scale$\", []]") != std::string::npos);
}

// The round trip through the whole program.
TEST_CASE("rules, a saved plan and the exports of both are one plan") {
  MemoryHost host = planning_host();
  const auto fingerprint_of = [&](std::vector<std::string> words) {
    host.out.clear();
    words.insert(words.begin(), {"resolve", "model.json", "--json"});
    run(words, host);
    return nlohmann::json::parse(host.out).at("summary").at("fingerprint");
  };
  const auto expected =
      fingerprint_of({"-r", "rules.yaml", "-m", "fsdp=2,tp=2"});
  run_on(host, {"resolve", "-o", "a.plan.json"}, "fsdp=2,tp=2");
  for (const char* target : {"yaml", "json"}) {
    run_on(host, {"export", "--to", target, "-o", "out.yaml"}, "fsdp=2,tp=2");
    CHECK(fingerprint_of({"-r", "out.yaml"}) == expected);
    run({"export", "model.json", "--plan", "a.plan.json", "--to", target, "-o",
         "saved.yaml"},
        host);
    CHECK(host.files["saved.yaml"] != host.files["out.yaml"]);
    CHECK(fingerprint_of({"-r", "saved.yaml"}) == expected);
  }
}

TEST_CASE("every target writes, or says why it cannot") {
  for (const ExportTarget& target : export_targets()) {
    CAPTURE(target.name);
    MemoryHost host = planning_host();
    const int code =
        run_on(host, {"export", "--to", std::string(target.name)}, "tp=2");
    CHECK((code == 2) == host.out.empty());
    CHECK((code == 2) == (host.err.find("SP014") != std::string::npos));
    CHECK_FALSE((code != 2 && body_of(host.out).empty()));
  }
}

TEST_CASE("a target is needed, and has to exist") {
  MemoryHost host = planning_host();
  CHECK(run_on(host, {"export"}, "tp=2") == 2);
  CHECK(host.err.starts_with("error[SP010]: `export` needs `--to`\n"));
  host.err.clear();
  CHECK(run_on(host, {"export", "--to", "yml"}, "tp=2") == 2);
  CHECK(host.err.find("`yaml`") != std::string::npos);
  host.err.clear();
  CHECK(run_on(host, {"export", "--to", "yaml", "-o", "x.plan.json"}, "tp=2") ==
        2);
  CHECK(
      host.err.starts_with("error[SP010]: `export` does not write plans, but "
                           "`x.plan.json` is a plan file name\n"));
}

// Two equal layers, one other tensor, one buffer, facts.
MemoryHost sample() {
  MemoryHost host;
  host.variables["LANG"] = "C.UTF-8";
  host.files["m.json"] = R"({
    "name": "sample",
    "facts": {"heads": 4, "head_dim": 2, "windows": [8, 0, 16, 8]},
    "parameters": {
      "layers/0/w": {"shape": [8, 16], "dtype": "bf16"},
      "layers/1/w": {"shape": [8, 16], "dtype": "bf16"},
      "embed": {"shape": [100, 8], "dtype": "f32"},
      "mask": {"shape": [4, 4], "dtype": "bool", "buffer": true}
    }})";
  return host;
}

json inspected(std::vector<std::string> words = {}) {
  MemoryHost host = sample();
  words.insert(words.begin(), {"inspect", "m.json", "--json"});
  CHECK(run(words, host) == 0);
  return json::parse(host.out);
}

TEST_CASE("the summary counts parameters and keeps buffers apart") {
  const json summary = inspected().at("summary");
  const json expected = {{"name", "sample"},    {"format", "native"},
                         {"tensors", 3},        {"total_parameters", 1056},
                         {"total_bytes", 3712}, {"buffers", 16},
                         {"buffer_tensors", 1}, {"buffer_bytes", 16}};
  CHECK(summary == expected);
}

TEST_CASE("programs get every tensor, whatever people are shown") {
  const json report = inspected();
  const json& rows = report.at("tables").at("parameters");
  REQUIRE(rows.size() == 3);
  const json first = {{"parameter", "layers/0/w"},
                      {"dtype", "bf16"},
                      {"shape", {8, 16}},
                      {"elements", 128},
                      {"bytes", 256}};
  CHECK(rows[0] == first);
  CHECK(inspected({"--expand"}) == report);
}

TEST_CASE("sums by dtype lead with the largest") {
  const json rows = inspected().at("tables").at("dtypes");
  REQUIRE(rows.size() == 2);
  CHECK(rows[0].at("dtype") == "f32");
  CHECK(rows[0].at("bytes") == 3200);
  CHECK(rows[1].at("tensors") == 2);
  CHECK(rows[1].at("elements") == 256);
  CHECK(rows[1].at("bytes") == 512);
}

TEST_CASE("the largest tensors come in order, ties in the manifest's") {
  const json rows = inspected().at("tables").at("largest");
  REQUIRE(rows.size() == 3);
  CHECK(rows[0].at("parameter") == "embed");
  CHECK(rows[1].at("parameter") == "layers/0/w");
  CHECK(rows[2].at("parameter") == "layers/1/w");
}

TEST_CASE("no more than ten of the largest are shown") {
  MemoryHost host;
  std::string text = "{";
  for (int i = 1; i <= 12; ++i) {
    text += (i > 1 ? "," : "") + ("\"w" + std::to_string(i) + "\"") +
            ":{\"dtype\":\"u8\",\"shape\":[" + std::to_string(i) + "]}";
  }
  host.files["m.json"] = text + "}";
  CHECK(run({"inspect", "m.json", "--json"}, host) == 0);
  const json rows = json::parse(host.out).at("tables").at("largest");
  REQUIRE(rows.size() == 10);
  CHECK(rows[0].at("bytes") == 12);
  CHECK(rows[9].at("bytes") == 3);
}

TEST_CASE("facts say where they come from") {
  const json rows = inspected().at("tables").at("facts");
  const json heads = {{"fact", "heads"}, {"value", 4}, {"from", "manifest"}};
  REQUIRE(rows.size() == 3);
  CHECK(rows[0] == heads);
  CHECK(rows[2].at("value") == "8 on 2, 16 on 1 of 4 layers");
}

TEST_CASE("people see layers folded, or all of them with --expand") {
  MemoryHost host = sample();
  CHECK(run({"inspect", "m.json"}, host) == 0);
  CHECK(
      host.out.starts_with("m.json: 3 parameters, 1,056 elements, 3.62 KiB "
                           "(native); plus 1 buffer of 16 B\n"));
  CHECK(host.out.find("layers/*/w  ×2") != std::string::npos);
  CHECK(host.out.find("layers/1/w") == std::string::npos);
  host.out.clear();
  CHECK(run({"inspect", "m.json", "--expand"}, host) == 0);
  CHECK(host.out.find("layers/1/w") != std::string::npos);
  CHECK(host.out.find("layers/*/w") == std::string::npos);
  host.out.clear();
  CHECK(run({"inspect", "m.json", "--exact"}, host) == 0);
  CHECK(
      host.out.starts_with("m.json: 3 parameters, 1056 elements, 3712 bytes"));
}

TEST_CASE("a model that cannot be read is no answer") {
  MemoryHost host;
  CHECK(run({"inspect", "missing.json"}, host) == 2);
  CHECK(host.err.find("error[SP001]") != std::string::npos);
  CHECK(host.out.empty());
}

}  // namespace

}  // namespace shardplan::cli
