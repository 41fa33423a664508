// SPDX-License-Identifier: Apache-2.0
#include "cli/config.h"

#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "cli/commands.h"
#include "cli/options.h"
#include "io/fence.h"
#include "tests/support/memory_host.h"
#include "tests/support/thinned.h"
#include "tests/support/words.h"

namespace shardplan::cli {
namespace {

using testing::has_text;

using shardplan::testing::MemoryHost;

constexpr const char* kSmallModel =
    R"({"w": {"shape": [4, 6], "dtype": "f32"}})";
constexpr const char* kSmallRules = "rules:\n  - [\"w\", [tp]]\n";

MemoryHost repository_host(const std::string& config) {
  MemoryHost host;
  host.directory = "/home/ann/repo/model";
  host.files["/home/ann/repo/.git/HEAD"] = "ref: main\n";
  host.files["/home/ann/repo/.git/config"] = "token = hunter2\n";
  host.files["/home/ann/repo/rules.yaml"] = kSmallRules;
  host.files["/home/ann/outside.yaml"] = kSmallRules;
  host.files["/etc/shadow"] = "root:hunter2:0:0\n";
  host.files["m.json"] = kSmallModel;
  host.files["r.yaml"] = kSmallRules;
  host.files["shardplan.yaml"] = config;
  return host;
}

TEST_CASE("a repository is the nearest folder with .git, else the own one") {
  MemoryHost host = repository_host("");
  CHECK(repository_of("shardplan.yaml", host) == "/home/ann/repo");
  CHECK(repository_of("../rules.yaml", host) == "/home/ann/repo");
  CHECK(repository_of("/home/ann/outside.yaml", host) == "/home/ann");
  CHECK(repository_of("/nowhere/x.yaml", host).empty());
}

TEST_CASE("paths within a folder, whatever their spelling and links") {
  MemoryHost host = repository_host("");
  host.files["/home/ann/repo-twin/x"] = "";
  host.links["/home/ann/repo/out"] = "/etc";
  host.links["/home/ann/repo/in"] = "model";
  host.links["/home/ann/repo/token"] = ".git/config";
  const struct {
    const char* path;
    bool within;
  } rows[] = {
      {"r.yaml", true},
      {"../rules.yaml", true},
      {"../model/../rules.yaml", true},
      {"/home/ann/repo/rules.yaml", true},
      {"..", true},
      {"missing.yaml", true},
      {"missing/x.yaml", true},
      {"../in/r.yaml", true},
      {"../in/missing.yaml", true},
      {"../../outside.yaml", false},
      {"../../repo-twin/x", false},
      {"/etc/shadow", false},
      {"/", false},
      {"../out/shadow", false},
      {"../out/missing", false},
      {"missing/../../../outside.yaml", false},
      {"../.git/config", false},
      {"../token", false},
      {"../.git", false},
  };
  for (const auto& row : rows) {
    CAPTURE(row.path);
    CHECK(stays_within(row.path, "/home/ann/repo", host) == row.within);
  }
  CHECK_FALSE(stays_within("r.yaml", "", host));
}

// `extends: /etc/shadow` in the shardplan.yaml of a pull request printed lines
// of that file, and so did any other setting that names a file. Whatever flag
// is added, it must not read outside.
TEST_CASE("no setting of a configuration that was found reads outside") {
  int files = 0;
  testing::Thinned rows{4};
  for (const Flag& flag : flags()) {
    if (!flag.configurable || flag.takes == Takes::Nothing) continue;
    for (const char* path : {"/etc/shadow", "../../outside.yaml"}) {
      CAPTURE(flag.name);
      CAPTURE(path);
      const std::string config = std::string(flag.name) + ": " + path + "\n";
      const Setting setting = {&flag, path, {}, ""};
      files += files_of(setting).empty() ? 0 : 1;
      if (rows.skips()) continue;
      for (const char* command : {"check", "simulate", "analyze", "sweep"}) {
        MemoryHost host = repository_host(config);
        std::vector<std::string> words = {command, "m.json"};
        if (flag.name != "rules" && flag.name != "plan") {
          words.insert(words.end(), {"-r", "r.yaml", "-m", "tp=2"});
        }
        run(words, host);
        CHECK(host.read.count("/etc/shadow") == 0);
        CHECK(host.read.count("/home/ann/outside.yaml") == 0);
        CHECK_FALSE(has_text(host.out + host.err, "hunter2"));
      }
    }
  }
  CHECK(files >= 14);  // rules, plan, hardware, graph, ..: two paths each
}

TEST_CASE("a path outside is refused where it stands, and --config may") {
  MemoryHost host =
      repository_host("mesh: {tp: 2}\nrules: ../../outside.yaml\n");
  CHECK(run({"check", "m.json"}, host) == 2);
  CHECK(has_text(host.err,
                 "error[SP010]: an automatically found configuration may not "
                 "name `../../outside.yaml`\n --> shardplan.yaml:2:8\n"));
  CHECK(has_text(host.err, "  = it may name files in `/home/ann/repo` "));
  CHECK(run({"check", "m.json", "--config", "shardplan.yaml"}, host) == 0);
  host.files["shardplan.yaml"] = "mesh: {tp: 2}\nrules: ../rules.yaml\n";
  CHECK(run({"check", "m.json"}, host) == 0);
  // Without a repository the folder is all.
  host.files.erase("/home/ann/repo/.git/HEAD");
  host.files.erase("/home/ann/repo/.git/config");
  CHECK(run({"check", "m.json"}, host) == 2);
}

TEST_CASE("a folder that is named may hold links, which lead nowhere else") {
  MemoryHost host = repository_host("mesh: {tp: 2}\nrules: ckpt\n");
  host.files["ckpt/named_shardings.json"] = "";
  host.links["ckpt/named_shardings.json"] = "/etc/shadow";
  CHECK(run({"check", "m.json"}, host) == 2);
  CHECK_FALSE(has_text(host.err, "hunter2"));
  CHECK(has_text(host.err,
                 "cannot read `ckpt/named_shardings.json`: it leads outside "
                 "`/home/ann/repo`"));
  // The mutation: on a host without a fence the line is shown.
  CHECK(run({"check", "m.json", "--config", "shardplan.yaml"}, host) == 2);
  CHECK(has_text(host.err, "hunter2"));
}

TEST_CASE("what is not a configuration is never quoted, within bounds or not") {
  const struct {
    const char* config;
    const char* link;  // of shardplan.yaml, or null
  } rows[] = {{"extends: secrets.env\n", nullptr},
              {"extends: keys.yaml\n", nullptr},
              {"extends: list.yaml\n", nullptr},
              {"extends: ../.git/config\n", nullptr},
              {"", "secrets.env"},
              {"", "keys.yaml"},
              {"", "/etc/shadow"}};
  for (const auto& row : rows) {
    CAPTURE(row.config);
    CAPTURE(row.link);
    MemoryHost host = repository_host(row.config);
    host.files["secrets.env"] = "TOKEN=hunter2\n: : [\n";
    host.files["keys.yaml"] = "hunter2: hunter2\n";
    host.files["list.yaml"] = "- hunter2\n";
    if (row.link != nullptr) host.links["shardplan.yaml"] = row.link;
    CHECK(run({"check", "m.json", "-r", "r.yaml", "-m", "tp=2"}, host) == 2);
    CHECK(has_text(host.err, "error[SP010]"));
    CHECK_FALSE(has_text(host.out + host.err, "hunter2"));
  }
  // The mutation: the same text in the configuration itself is shown.
  MemoryHost host = repository_host("hunter2: hunter2\n");
  CHECK(run({"check", "m.json", "-r", "r.yaml", "-m", "tp=2"}, host) == 2);
  CHECK(has_text(host.err, "hunter2"));
}

TEST_CASE("a named configuration that extends another repository's file") {
  MemoryHost host = repository_host("extends: /etc/shadow\n");
  CHECK(run({"check", "m.json", "--config", "shardplan.yaml"}, host) == 2);
  CHECK_FALSE(has_text(host.err, "hunter2"));
  CHECK(has_text(host.err, "`/etc/shadow` is not a configuration"));
}

// The shardplan.yaml of another user in a folder above was obeyed.
TEST_CASE("another user's configuration is refused, as git does") {
  const struct {
    const char* owned;  // by user 66
    int64_t user;
    const char* sudo;
    int exit;
  } rows[] = {
      {"r.yaml", 1000, "", 0},
      {"/home/ann/repo/shardplan.yaml", 1000, "", 2},
      {"/home/ann/repo", 1000, "", 2},
      {"/home/ann/repo/shardplan.yaml", 1000, "66", 2},
      {"/home/ann/repo/shardplan.yaml", 0, "66", 0},
      {"/home/ann/repo/shardplan.yaml", 0, "67", 2},
      {"/home/ann/repo/shardplan.yaml", 0, "66x", 2},
      {"/home/ann/repo/shardplan.yaml", 66, "", 0},
  };
  for (const auto& row : rows) {
    CAPTURE(row.owned);
    CAPTURE(row.user);
    CAPTURE(row.sudo);
    MemoryHost host = repository_host("");
    host.files.erase("shardplan.yaml");
    host.files["/home/ann/repo/shardplan.yaml"] = "mesh: {tp: 2}\n";
    host.uid = row.user;
    for (const char* place :
         {"/home/ann/repo/shardplan.yaml", "/home/ann/repo"}) {
      host.owners[place] = row.user;
    }
    host.owners[host.normal(row.owned)] = 66;
    host.variables["SUDO_UID"] = row.sudo;
    CHECK(run({"check", "m.json", "-r", "r.yaml"}, host) == row.exit);
    if (row.exit == 0) continue;
    CHECK(has_text(host.err, "belongs to another user"));
    CHECK(has_text(host.err, "belongs to user 66, but this run's user is " +
                                 std::to_string(row.user)));
    CHECK(
        has_text(host.err, "`--config /home/ann/repo/shardplan.yaml` uses it"));
    CHECK(run({"check", "m.json", "-r", "r.yaml", "-m", "tp=2", "--config",
               "/home/ann/repo/shardplan.yaml"},
              host) == 0);
    CHECK(run({"check", "m.json", "-r", "r.yaml", "-m", "tp=2", "--isolated"},
              host) == 0);
  }
}

TEST_CASE("the search ends at a repository's root and a file system's end") {
  MemoryHost host = repository_host("");
  host.files.erase("shardplan.yaml");
  host.files["/home/ann/shardplan.yaml"] = "";
  CHECK_FALSE(find_config(host));
  host.files.erase("/home/ann/repo/.git/HEAD");
  host.files.erase("/home/ann/repo/.git/config");
  CHECK(find_config(host) == "/home/ann/shardplan.yaml");
  host.devices["/home/ann/repo"] = 7;
  CHECK_FALSE(find_config(host));
  host.devices["/home/ann"] = 7;
  CHECK(find_config(host) == "/home/ann/shardplan.yaml");
}

// `output: ../victim.sh` in the shardplan.yaml of a pull request wrote there.
TEST_CASE("no configuration writes a file") {
  for (const char* key : {"output", "plot", "fix", "config"}) {
    for (const bool named : {false, true}) {
      CAPTURE(key);
      MemoryHost host =
          repository_host(std::string(key) + ": ../victim.sh\nmesh: {tp: 2}\n");
      std::vector<std::string> words = {"check", "m.json", "-r", "r.yaml"};
      if (named) words.insert(words.end(), {"--config", "shardplan.yaml"});
      CHECK(run(words, host) == 2);
      CHECK(host.written.empty());
      CHECK(has_text(host.err,
                     "error[SP004]: `" + std::string(key) +
                         "` is not a setting\n --> shardplan.yaml:1:1"));
    }
  }
}

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
  host.files["shardplan.yaml/inside"] = "a folder of that name is not a file";
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
  CHECK(options.planning.rules ==
        std::vector<std::string>{"team/a.yaml", "@llama"});
  CHECK(options.planning.mesh->text() == "fsdp=8,tp=-1");
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
      {"mesh:\n", Code::MalformedDocument, "`mesh` must be one value, not null",
       1, 0},
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
