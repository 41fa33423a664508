// SPDX-License-Identifier: Apache-2.0
#include "cli/commands/rule_diff.h"

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

MemoryHost two_files() {
  MemoryHost host;
  host.variables["LANG"] = "C.UTF-8";
  host.files["old.yaml"] = "axes: [tp]\nrules:\n  - [w, [tp]]\n  - [b, []]\n";
  host.files["new.yaml"] = "axes: [tp]\nrules:\n  - [w, []]\n  - [b, []]\n";
  return host;
}

TEST_CASE("a change of rules is an exit code where that is asked for") {
  const struct {
    std::vector<std::string> words;
    int exit;
  } rows[] = {
      {{"old.yaml", "new.yaml"}, 0},
      {{"old.yaml", "new.yaml", "--exit-code"}, 1},
      {{"old.yaml", "old.yaml", "--exit-code"}, 0},
      {{"old.yaml", "new.yaml", "--fail-on", "lost-axes"}, 1},
      {{"new.yaml", "old.yaml", "--fail-on", "lost-axes"}, 0},
      {{"new.yaml", "old.yaml", "--fail-on", "lost-axes,any-change"}, 1},
      {{"old.yaml", "old.yaml", "--fail-on", "any-change"}, 0},
      {{"old.yaml", "new.yaml", "--fail-on", "any-change", "--exit-zero"}, 0},
      {{"old.yaml", "new.yaml", "--fail-on", "new-warnings"}, 2},
      {{"old.yaml", "new.yaml", "--semantics", "flax,hf", "--names", "x"}, 2},
      {{"@llama", "old.yaml"}, 0},
      {{"@llama", "@llama", "--exit-code"}, 0},
      {{"@lama", "old.yaml"}, 2},
      {{"old.yaml", "new.yaml", "--names", "none.json"}, 2},
      {{"old.yaml", "new.yaml", "--dialect", "yaml"}, 0},
      {{"old.yaml", "new.yaml", "--dialect", "maxtext"}, 2},
  };
  for (const auto& row : rows) {
    CAPTURE(row.words.back());
    MemoryHost host = two_files();
    std::vector<std::string> words = {"diff"};
    words.insert(words.end(), row.words.begin(), row.words.end());
    CHECK(run(words, host) == row.exit);
    CHECK((row.exit != 2 || !host.err.empty()));
  }
}

TEST_CASE("programs get a row with the place on both sides") {
  MemoryHost host = two_files();
  CHECK(
      run({"diff", "old.yaml", "new.yaml", "--json", "--fail-on", "lost-axes"},
          host) == 1);
  const json report = json::parse(host.out);
  CHECK(report.at("summary").at("lost_axes") == 1);
  CHECK(report.at("summary").at("failed") == 1);
  const json rows = report.at("tables").at("gate_changes");
  REQUIRE(rows.size() == 1);
  CHECK(rows[0].at("target").is_null());
  CHECK(rows[0].at("kind") == "rule");
  CHECK(rows[0].at("what") == "w");
  CHECK(rows[0].at("before") == json::array({"tp"}));
  CHECK(rows[0].at("after") == json::array());
  CHECK(rows[0].at("file") == "new.yaml");
  CHECK(rows[0].at("line") == 3);
  CHECK(rows[0].at("file_before") == "old.yaml");
  CHECK(rows[0].at("fails") == true);
}

TEST_CASE("rules may come on standard input, once") {
  MemoryHost host = two_files();
  host.input = host.files["old.yaml"];
  CHECK(run({"diff", "-", "new.yaml"}, host) == 0);
  CHECK(host.out.find("`w` loses `tp`  <stdin>:3 → new.yaml:3") !=
        std::string::npos);
}

TEST_CASE("a model on standard input beside rules there is too much") {
  MemoryHost host = two_files();
  host.input = host.files["old.yaml"];
  CHECK(run({"diff", "-", "new.yaml", "--names", "-"}, host) == 2);
  CHECK(host.err.starts_with(
      "error[SP010]: standard input can be read only once\n"));
}

TEST_CASE("the same rules in another dialect are the same rules") {
  MemoryHost host = two_files();
  host.files["rules.py"] =
      "from jax.sharding import PartitionSpec as PS\n"
      "rules = ((\"w\", PS(\"tp\")), (\"b\", PS()))\n";
  host.files["old.yaml"] = "rules:\n  - [w, [tp]]\n  - [b, []]\n";
  CHECK(run({"diff", "rules.py", "old.yaml", "--exit-code"}, host) == 0);
  CHECK(host.out.ends_with("\nNo rule or label changed.\n"));
}

TEST_CASE("a file that is broken on one side is told, and only that") {
  MemoryHost host = two_files();
  host.files["new.yaml"] = "rules:\n  - [\"(\", []]\n";
  CHECK(run({"diff", "old.yaml", "new.yaml"}, host) == 2);
  CHECK(host.err.starts_with("error[SP105]"));
  host.files["new.yaml"] = "rules: [";
  host.err.clear();
  CHECK(run({"diff", "old.yaml", "new.yaml"}, host) == 2);
  CHECK(host.err.starts_with("error[SP002]"));
  CHECK(host.out.empty());
}

TEST_CASE("hostile patterns write no control characters") {
  MemoryHost host = two_files();
  host.files["new.yaml"] =
      "rules:\n  - [\"a\\u001b\\\\[31m```\\u202e\", [tp]]\n  - [b, []]\n";
  for (const char* format : {"text", "markdown", "json", "csv"}) {
    CAPTURE(format);
    host.out.clear();
    CHECK(run({"diff", "old.yaml", "new.yaml", "--format", format}, host) == 0);
    CHECK_FALSE(host.out.empty());
    CHECK(host.out.find('\x1b') == std::string::npos);
  }
  host.out.clear();
  run({"diff", "old.yaml", "new.yaml", "--format", "markdown"}, host);
  CHECK(host.out.find("\n````text\n") != std::string::npos);
}

TEST_CASE("without Unicode the lines are ASCII, and fit where they can") {
  MemoryHost host = two_files();
  host.variables["LANG"] = "C";
  host.variables["COLUMNS"] = "60";
  CHECK(run({"diff", "old.yaml", "new.yaml"}, host) == 0);
  CHECK(host.out ==
        "old.yaml -> new.yaml\n"
        "rules: 2 -> 2\n"
        "\n"
        "`w` loses `tp`  old.yaml:3 -> new.yaml:3\n"
        "    P(tp) -> P(); matters where `tp` > 1\n"
        "\n"
        "Changes: 1 rule; 1 loses axes.\n");
}

}  // namespace
}  // namespace shardplan::cli
