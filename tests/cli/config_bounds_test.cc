// SPDX-License-Identifier: Apache-2.0
#include "cli/config_bounds.h"

#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "cli/commands.h"
#include "cli/config.h"
#include "tests/support/memory_host.h"

namespace shardplan::cli {
namespace {

using shardplan::testing::MemoryHost;

constexpr const char* kModel = R"({"w": {"shape": [4, 6], "dtype": "f32"}})";
constexpr const char* kRules = "rules:\n  - [\"w\", [tp]]\n";

MemoryHost ready(const std::string& config) {
  MemoryHost host;
  host.directory = "/home/ann/repo/model";
  host.files["/home/ann/repo/.git/HEAD"] = "ref: main\n";
  host.files["/home/ann/repo/.git/config"] = "token = hunter2\n";
  host.files["/home/ann/repo/rules.yaml"] = kRules;
  host.files["/home/ann/outside.yaml"] = kRules;
  host.files["/etc/shadow"] = "root:hunter2:0:0\n";
  host.files["m.json"] = kModel;
  host.files["r.yaml"] = kRules;
  host.files["shardplan.yaml"] = config;
  return host;
}

bool contains(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

TEST_CASE("a repository is the nearest folder with .git, else the own one") {
  MemoryHost host = ready("");
  CHECK(repository_of("shardplan.yaml", host) == "/home/ann/repo");
  CHECK(repository_of("../rules.yaml", host) == "/home/ann/repo");
  CHECK(repository_of("/home/ann/outside.yaml", host) == "/home/ann");
  CHECK(repository_of("/nowhere/x.yaml", host).empty());
}

TEST_CASE("paths within a folder, whatever their spelling and links") {
  MemoryHost host = ready("");
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
  for (const Flag& flag : flags()) {
    if (!flag.configurable || flag.takes == Takes::Nothing) continue;
    for (const char* path : {"/etc/shadow", "../../outside.yaml"}) {
      CAPTURE(flag.name);
      CAPTURE(path);
      const std::string config = std::string(flag.name) + ": " + path + "\n";
      const Setting setting = {&flag, path, {}, ""};
      files += files_of(setting).empty() ? 0 : 1;
      for (const char* command : {"check", "simulate", "analyze", "sweep"}) {
        MemoryHost host = ready(config);
        std::vector<std::string> words = {command, "m.json"};
        if (flag.name != "rules" && flag.name != "plan") {
          words.insert(words.end(), {"-r", "r.yaml", "-m", "tp=2"});
        }
        run(words, host);
        CHECK(host.read.count("/etc/shadow") == 0);
        CHECK(host.read.count("/home/ann/outside.yaml") == 0);
        CHECK_FALSE(contains(host.out + host.err, "hunter2"));
      }
    }
  }
  CHECK(files >= 14);  // rules, plan, hardware, graph, ..: two paths each
}

TEST_CASE("a path outside is refused where it stands, and --config may") {
  MemoryHost host = ready("mesh: {tp: 2}\nrules: ../../outside.yaml\n");
  CHECK(run({"check", "m.json"}, host) == 2);
  CHECK(contains(host.err,
                 "error[SP010]: a configuration that was found may not name "
                 "`../../outside.yaml`\n --> shardplan.yaml:2:8\n"));
  CHECK(contains(host.err, "  = it names what is in `/home/ann/repo`, and"));
  CHECK(run({"check", "m.json", "--config", "shardplan.yaml"}, host) == 0);
  host.files["shardplan.yaml"] = "mesh: {tp: 2}\nrules: ../rules.yaml\n";
  CHECK(run({"check", "m.json"}, host) == 0);
  // Without a repository the folder is all.
  host.files.erase("/home/ann/repo/.git/HEAD");
  host.files.erase("/home/ann/repo/.git/config");
  CHECK(run({"check", "m.json"}, host) == 2);
}

TEST_CASE("a folder that is named may hold links, which lead nowhere else") {
  MemoryHost host = ready("mesh: {tp: 2}\nrules: ckpt\n");
  host.files["ckpt/named_shardings.json"] = "";
  host.links["ckpt/named_shardings.json"] = "/etc/shadow";
  CHECK(run({"check", "m.json"}, host) == 2);
  CHECK_FALSE(contains(host.err, "hunter2"));
  CHECK(contains(host.err,
                 "cannot read `ckpt/named_shardings.json`: it leads "
                 "out of `/home/ann/repo`"));
  // The mutation: on a host without a fence the line is shown.
  CHECK(run({"check", "m.json", "--config", "shardplan.yaml"}, host) == 2);
  CHECK(contains(host.err, "hunter2"));
}

TEST_CASE("what is no configuration is never quoted, within bounds or not") {
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
    MemoryHost host = ready(row.config);
    host.files["secrets.env"] = "TOKEN=hunter2\n: : [\n";
    host.files["keys.yaml"] = "hunter2: hunter2\n";
    host.files["list.yaml"] = "- hunter2\n";
    if (row.link != nullptr) host.links["shardplan.yaml"] = row.link;
    CHECK(run({"check", "m.json", "-r", "r.yaml", "-m", "tp=2"}, host) == 2);
    CHECK(contains(host.err, "error[SP010]"));
    CHECK_FALSE(contains(host.out + host.err, "hunter2"));
  }
  // The mutation: the same text in the configuration itself is shown.
  MemoryHost host = ready("hunter2: hunter2\n");
  CHECK(run({"check", "m.json", "-r", "r.yaml", "-m", "tp=2"}, host) == 2);
  CHECK(contains(host.err, "hunter2"));
}

TEST_CASE("a named configuration that extends another repository's file") {
  MemoryHost host = ready("extends: /etc/shadow\n");
  CHECK(run({"check", "m.json", "--config", "shardplan.yaml"}, host) == 2);
  CHECK_FALSE(contains(host.err, "hunter2"));
  CHECK(contains(host.err, "`/etc/shadow` is no configuration"));
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
    MemoryHost host = ready("");
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
    CHECK(contains(host.err, "belongs to another user"));
    CHECK(contains(host.err, "is of user 66, this run is of user " +
                                 std::to_string(row.user)));
    CHECK(
        contains(host.err, "`--config /home/ann/repo/shardplan.yaml` uses it"));
    CHECK(run({"check", "m.json", "-r", "r.yaml", "-m", "tp=2", "--config",
               "/home/ann/repo/shardplan.yaml"},
              host) == 0);
    CHECK(run({"check", "m.json", "-r", "r.yaml", "-m", "tp=2", "--isolated"},
              host) == 0);
  }
}

TEST_CASE("the search ends at a repository's root and a file system's end") {
  MemoryHost host = ready("");
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
          ready(std::string(key) + ": ../victim.sh\nmesh: {tp: 2}\n");
      std::vector<std::string> words = {"check", "m.json", "-r", "r.yaml"};
      if (named) words.insert(words.end(), {"--config", "shardplan.yaml"});
      CHECK(run(words, host) == 2);
      CHECK(host.written.empty());
      CHECK(contains(host.err, "error[SP004]: `" + std::string(key) +
                                   "` is no setting\n --> shardplan.yaml:1:1"));
    }
  }
}

}  // namespace
}  // namespace shardplan::cli
