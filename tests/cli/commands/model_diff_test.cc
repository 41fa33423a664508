// SPDX-License-Identifier: Apache-2.0
// `diff MODEL --before OLD --after NEW`.
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "tests/support/memory_host.h"

namespace shardplan::cli {
namespace {

using nlohmann::json;
using shardplan::testing::MemoryHost;

MemoryHost model_and_rules() {
  MemoryHost host;
  host.variables["LANG"] = "C.UTF-8";
  host.files["model.json"] = R"({"w": {"shape": [8, 6], "dtype": "f32"}, )"
                             R"("v": {"shape": [6, 8], "dtype": "f32"}})";
  host.files["old.yaml"] = "rules:\n  - [w, [tp, null]]\n  - [v, []]\n";
  host.files["new.yaml"] = "rules:\n  - [w, []]\n  - [v, [null, tp]]\n";
  // 6 is not divisible by 4.
  host.files["bad.yaml"] = "rules:\n  - [w, [null, tp]]\n  - [v, []]\n";
  return host;
}

int diff(const std::vector<std::string>& flags, MemoryHost& host) {
  std::vector<std::string> words = {"diff", "model.json"};
  words.insert(words.end(), flags.begin(), flags.end());
  return run(words, host);
}

TEST_CASE("a change of rules is judged with a model") {
  const struct {
    std::string words;
    int exit;
  } rows[] = {
      {"--before old.yaml --after new.yaml --mesh tp=4", 0},
      {"--before old.yaml --after new.yaml --mesh tp=4 --exit-code", 1},
      {"--before old.yaml --after old.yaml --mesh tp=4 --exit-code", 0},
      {"--before old.yaml --after new.yaml --mesh tp=4 --fail-on lost-axes", 1},
      {"--before old.yaml --after new.yaml --mesh tp=4 --fail-on memory>1%", 0},
      {"--before old.yaml --after bad.yaml --mesh tp=4 --fail-on memory>1%", 1},
      // SP304 is new: the default.
      {"--before old.yaml --after bad.yaml --mesh tp=4", 1},
      {"--before old.yaml --after bad.yaml --mesh tp=4 --exit-zero", 0},
      {"--before old.yaml --after bad.yaml --mesh tp=4 --allow SP304", 0},
      {"--before bad.yaml --after bad.yaml --mesh tp=4", 0},
      {"--before bad.yaml --after old.yaml --mesh tp=4", 0},
      {"--before old.yaml --after bad.yaml --mesh tp=4 --tolerance 9", 0},
      {"--before old.yaml --after bad.yaml --mesh tp=4 --on-indivisible pad",
       0},
      {"--before old.yaml --after new.yaml", 2},
      {"--before old.yaml --mesh tp=4", 2},
      {"--after old.yaml --mesh tp=4", 2},
      {"--before old.yaml --after none.yaml --mesh tp=4", 2},
      {"--before old.yaml --after new.yaml --mesh tp=4 --rules old.yaml", 2},
      {"--before old.yaml --after new.yaml --mesh tp=4 --names model.json", 2},
      {"--before old.yaml --after new.yaml --mesh tp=4 --pattern w->tp", 2},
      {"--before old.yaml --after new.yaml --mesh tp=4 --semantics hf,flax", 2},
      {"old.yaml --before old.yaml --after new.yaml --mesh tp=4", 2},
  };
  for (const auto& row : rows) {
    CAPTURE(row.words);
    MemoryHost host = model_and_rules();
    std::vector<std::string> words;
    std::string word;
    for (const char c : row.words + " ") {
      if (c != ' ') {
        word += c;
      } else {
        words.push_back(std::exchange(word, ""));
      }
    }
    CHECK(diff(words, host) == row.exit);
    CHECK((row.exit != 2 || !host.err.empty()));
  }
}

TEST_CASE("programs get the gate's rows, and those of the rules") {
  MemoryHost host = model_and_rules();
  CHECK(diff({"--before", "old.yaml", "--after", "new.yaml", "--mesh", "tp=4",
              "--json"},
             host) == 0);
  const json report = json::parse(host.out);
  CHECK(report.at("command") == "diff");
  const json& summary = report.at("summary");
  CHECK(summary.at("parameters") == 2);
  CHECK(summary.at("failed") == 0);
  CHECK(summary.at("memory_per_device_before") == 48 + 192);
  CHECK(summary.at("memory_per_device_after") == 192 + 48);
  CHECK(summary.at("fingerprint_before") != summary.at("fingerprint_after"));
  const json& tables = report.at("tables");
  CHECK(tables.size() == 5);
  REQUIRE(tables.at("targets").size() == 1);
  CHECK(tables.at("targets")[0].at("target") == "model.json");
  CHECK(tables.at("targets")[0].at("changed") == true);
  CHECK(tables.at("rule_changes").size() == 2);
  std::vector<std::string> placed;
  for (const json& row : tables.at("gate_changes")) {
    if (row.at("kind") != "placement") {
      CHECK(row.at("target").is_null());
      continue;
    }
    CHECK(row.at("target") == "model.json");
    CHECK(row.at("file") == "new.yaml");
    placed.push_back(row.at("what"));
  }
  CHECK(placed == std::vector<std::string>{"w", "v"});
  CHECK(tables.at("gate_changes").size() ==
        summary.at("changes").get<size_t>());
}

TEST_CASE("what both sides lack is told once") {
  MemoryHost host = model_and_rules();
  CHECK(diff({"--before", "none.yaml", "--after", "none.yaml", "--mesh", "tp=4",
              "--json"},
             host) == 2);
  const json diagnostics = json::parse(host.out).at("diagnostics");
  REQUIRE(diagnostics.size() == 1);
  CHECK(diagnostics[0].at("code") == "SP001");
}

TEST_CASE("settings that judge a plan hold for rules of a model alone") {
  MemoryHost host = model_and_rules();
  host.files["shardplan.yaml"] =
      "rules: other.yaml\nmesh: tp=4\nmin-size: 1000\n";
  CHECK(diff({"--before", "old.yaml", "--after", "new.yaml", "--json"}, host) ==
        0);
  // Too small to be sharded, whatever the rules say.
  CHECK(json::parse(host.out).at("summary").at("parameters") == 0);
  host.out.clear();
  CHECK(run({"diff", "--semantics", "eformer,flax", "model.json", "--rules",
             "old.yaml", "--json"},
            host) == 0);
  const json with = json::parse(host.out);
  host.files["shardplan.yaml"] = "mesh: tp=4\n";
  host.out.clear();
  CHECK(run({"diff", "--semantics", "eformer,flax", "model.json", "--rules",
             "old.yaml", "--json"},
            host) == 0);
  CHECK(json::parse(host.out) == with);
}

TEST_CASE("a model on standard input is read once for both sides") {
  MemoryHost host = model_and_rules();
  host.input = host.files["model.json"];
  CHECK(run({"diff", "-", "--before", "old.yaml", "--after", "new.yaml",
             "--mesh", "tp=4"},
            host) == 0);
  CHECK(host.out.find("<stdin>") != std::string::npos);
  CHECK(run({"diff", "-", "--before", "-", "--after", "new.yaml", "--mesh",
             "tp=4"},
            host) == 2);
}

}  // namespace
}  // namespace shardplan::cli
