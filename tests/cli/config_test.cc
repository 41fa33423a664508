// SPDX-License-Identifier: Apache-2.0
#include "cli/config.h"

#include <string>

#include <doctest/doctest.h>

#include "tests/support/memory_host.h"

namespace shardplan::cli {
namespace {

using shardplan::testing::MemoryHost;

// "flag=value(directory)" of each setting.
std::vector<std::string> texts(const std::vector<Setting>& settings) {
  std::vector<std::string> result;
  for (const Setting& setting : settings) {
    std::string text(setting.flag->name);
    if (!setting.value.empty()) text += "=" + setting.value;
    if (!setting.directory.empty()) text += " in " + setting.directory;
    result.push_back(text);
  }
  return result;
}

TEST_CASE("the nearest file upward is found, and only that") {
  MemoryHost host;
  host.directory = "/home/ann/model";
  CHECK_FALSE(find_config(host));
  host.files["/shardplan.yaml"] = "";
  CHECK(find_config(host) == "/shardplan.yaml");
  host.files["/home/ann/shardplan.yaml"] = "";
  CHECK(find_config(host) == "/home/ann/shardplan.yaml");
  host.files["shardplan.yaml/inside"] = "a folder of that name is no file";
  CHECK(find_config(host) == "/home/ann/shardplan.yaml");
}

TEST_CASE("a file in the working directory is called by its bare name") {
  MemoryHost host;
  host.files["shardplan.yaml"] = "";
  CHECK(find_config(host) == "shardplan.yaml");
}

TEST_CASE("keys become settings with paths relative to the file") {
  MemoryHost host;
  host.files["team/shardplan.yaml"] =
      "rules: [a.yaml, '@llama']\n"
      "mesh: {fsdp: 8, tp: -1}\n"
      "devices: 16\n"
      "axes: [dp, ep]\n"
      "deny: warnings\n"
      "exact: true\n"
      "quiet: false\n"
      "tolerance: 0.5\n";
  Diagnostics diags;
  const auto config =
      read_config("team/shardplan.yaml", ConfigFrom::Named, host, diags);
  REQUIRE(config);
  CHECK(diags.all().empty());
  CHECK(texts(config->settings) ==
        std::vector<std::string>{"rules=a.yaml in team", "rules=@llama in team",
                                 "mesh=fsdp=8,tp=-1 in team",
                                 "devices=16 in team", "axes=dp,ep in team",
                                 "exact in team", "tolerance=0.5 in team",
                                 "deny=warnings in team"});
  Options options;
  apply_settings(config->settings, options, diags);
  CHECK(diags.all().empty());
  CHECK(options.rules == std::vector<std::string>{"team/a.yaml", "@llama"});
  CHECK(options.mesh->text() == "fsdp=8,tp=-1");
}

TEST_CASE("a file may extend another and replaces its keys whole") {
  MemoryHost host;
  host.files["base/common.yaml"] = "rules: [a.yaml, b.yaml]\nexact: true\n";
  host.files["shardplan.yaml"] =
      "extends: base/common.yaml\nrules: c.yaml\njobs: 2\n";
  Diagnostics diags;
  const auto config =
      read_config("shardplan.yaml", ConfigFrom::Named, host, diags);
  REQUIRE(config);
  CHECK(texts(config->settings) ==
        std::vector<std::string>{"rules=c.yaml", "jobs=2", "exact in base"});
  CHECK(config->files ==
        std::vector<std::string>{"shardplan.yaml", "base/common.yaml"});
}

TEST_CASE("a file that only holds comments changes nothing") {
  MemoryHost host;
  host.files["shardplan.yaml"] = "# nothing yet\n";
  Diagnostics diags;
  const auto config =
      read_config("shardplan.yaml", ConfigFrom::Named, host, diags);
  REQUIRE(config);
  CHECK(config->settings.empty());
}

TEST_CASE("every mistake in a file is reported where it stands") {
  const struct {
    const char* text;
    Code code;
    const char* message;
    int64_t line;
    int64_t column;
  } rows[] = {
      {"ruels: a.yaml\n", Code::UnknownKey, nullptr, 1, 1},
      {"config: a.yaml\n", Code::UnknownKey, nullptr, 1, 1},
      {"why: a\n", Code::UnknownKey, nullptr, 1, 1},
      {"rules: [a\n", Code::MalformedDocument, nullptr, 0, 0},
      {"- rules\n", Code::MalformedDocument, nullptr, 1, 1},
      {"exact: 1\n", Code::MalformedDocument, nullptr, 1, 8},
      {"devices: [8]\n", Code::MalformedDocument,
       "`devices` must be one value, not a list", 1, 10},
      {"rules: {a: b}\n", Code::MalformedDocument,
       "`rules` must be one value or a list of them, not a map", 1, 8},
      {"mesh:\n", Code::MalformedDocument,
       "`mesh` must be one value, not nothing", 1, 0},
      {"mesh: {tp: [2]}\n", Code::MalformedDocument,
       "the size of axis `tp` must be an integer, not a list", 1, 12},
      {"extends: [a]\n", Code::MalformedDocument, nullptr, 1, 10},
      {"extends: missing.yaml\n", Code::UnreadableFile, nullptr, 0, 0},
      {"extends: shardplan.yaml\n", Code::Usage,
       "`shardplan.yaml` extends itself", 1, 10},
  };
  for (const auto& row : rows) {
    CAPTURE(row.text);
    MemoryHost host;
    host.files["shardplan.yaml"] = row.text;
    Diagnostics diags;
    CHECK_FALSE(read_config("shardplan.yaml", ConfigFrom::Named, host, diags));
    REQUIRE(diags.all().size() == 1);
    const Diagnostic& problem = diags.all()[0];
    CHECK(problem.code == row.code);
    if (row.message != nullptr) CHECK(problem.message == row.message);
    if (row.line == 0) continue;
    REQUIRE(!problem.labels.empty());
    const Span where = problem.labels[0].where;
    CHECK(where.file->position(where.begin).line == row.line);
    if (row.column > 0) {
      CHECK(where.file->position(where.begin).column == row.column);
    }
  }
}

TEST_CASE("a value that a flag would refuse is refused with its place") {
  MemoryHost host;
  host.files["shardplan.yaml"] = "# jobs\njobs: none\n";
  Diagnostics diags;
  const auto config =
      read_config("shardplan.yaml", ConfigFrom::Named, host, diags);
  REQUIRE(config);
  Options options;
  apply_settings(config->settings, options, diags);
  REQUIRE(diags.all().size() == 1);
  CHECK(diags.all()[0].message ==
        "`jobs` must be an integer from 1 to 4,096, not `none`");
  const Span where = diags.all()[0].labels.at(0).where;
  CHECK(where.file->name() == "shardplan.yaml");
  CHECK(where.file->position(where.begin).line == 2);
}

TEST_CASE("chains of files end") {
  MemoryHost host;
  for (int i = 0; i < 20; ++i) {
    host.files[std::to_string(i) + ".yaml"] =
        "extends: " + std::to_string(i + 1) + ".yaml\n";
  }
  Diagnostics diags;
  CHECK_FALSE(read_config("0.yaml", ConfigFrom::Named, host, diags));
  REQUIRE(diags.all().size() == 1);
  CHECK(diags.all()[0].message ==
        "more than 8 configuration files extend one another");
}

std::vector<Setting> given(std::vector<const char*> names) {
  std::vector<Setting> settings;
  for (const char* name : names) {
    const Flag* flag = find_flag(name);
    REQUIRE(flag != nullptr);
    settings.push_back({flag, "x", {}, ""});
  }
  return settings;
}

TEST_CASE("flags override the file") {
  const struct {
    std::vector<const char*> flags;
    const char* command;
    std::vector<std::string> left;
  } rows[] = {
      {{}, "check", {"rules=x", "mesh=x", "json=x", "deny=x"}},
      {{"rules"}, "check", {"mesh=x", "json=x", "deny=x"}},
      {{"format"}, "check", {"rules=x", "mesh=x", "deny=x"}},
      {{"plan"}, "check", {"json=x", "deny=x"}},
      {{"deny", "allow"}, "check", {"rules=x", "mesh=x", "json=x"}},
      {{}, "inspect", {"json=x", "deny=x"}},
      {{"shard"}, "inspect", {"rules=x", "mesh=x", "json=x", "deny=x"}},
      {{}, "list", {"json=x"}},
  };
  for (const auto& row : rows) {
    CAPTURE(row.command);
    CHECK(texts(remaining_settings(given({"rules", "mesh", "json", "deny"}),
                                   given(row.flags), row.command)) == row.left);
  }
  CHECK(remaining_settings(given({"plan"}), given({"mesh"}), "check").empty());
}

TEST_CASE("a plan excludes what it already holds") {
  const struct {
    std::vector<const char*> flags;
    size_t problems;
  } rows[] = {{{"plan", "tolerance", "json"}, 0},
              {{"rules", "mesh"}, 0},
              {{"plan", "rules"}, 1},
              {{"plan", "mesh", "devices", "slices", "axes"}, 0},
              {{"plan", "mesh", "rules"}, 1},
              {{"plan", "devices"}, 1},
              {{"plan", "unmatched"}, 0},
              {{"on-indivisible", "plan"}, 1},
              {{"json", "format"}, 1}};
  for (const auto& row : rows) {
    Diagnostics diags;
    check_conflicts(given(row.flags), diags);
    CHECK(diags.all().size() == row.problems);
  }
}

}  // namespace
}  // namespace shardplan::cli
