// SPDX-License-Identifier: Apache-2.0
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "cli/args.h"
#include "cli/commands.h"
#include "tests/support/memory_host.h"
#include "tests/support/words.h"

namespace shardplan::cli {
namespace {

using testing::command_line;
using testing::has_text;
using testing::Words;

using shardplan::testing::MemoryHost;

constexpr const char* kModel = R"({"w": {"shape": [4, 6], "dtype": "f32"}})";
constexpr const char* kRules = "rules:\n  - [\"w\", [tp]]\n";

MemoryHost ready() {
  MemoryHost host;
  host.files["m.json"] = kModel;
  host.files["r.yaml"] = kRules;
  return host;
}

TEST_CASE("help and version are answers") {
  MemoryHost host;
  CHECK(run({}, host) == 0);
  CHECK(host.out == overview_text(false));
  host.out.clear();
  CHECK(run({"help", "inspect"}, host) == 0);
  CHECK(host.out == command_help_text(*find_command("inspect"), "", false));
  host.out.clear();
  CHECK(run({"--version"}, host) == 0);
  CHECK(host.out == "shardplan " + std::string(version()) + "\n");
  CHECK(host.err.empty());
}

TEST_CASE("help is coloured like any other output") {
  MemoryHost host;
  CHECK(run({"--color", "always"}, host) == 0);
  CHECK(host.out == overview_text(true));
}

// `shardplan --help >/dev/full` ended with 0: what was printed by no command
// was not looked after.
TEST_CASE("whatever is printed, an answer that nobody got is exit 2") {
  for (const Words& words : std::vector<Words>{
           {},
           {"--help"},
           {"--version"},
           {"help", "check"},
           {"check", "--help"},
           {"list"},
           {"list", "codes", "--json"},
           {"explain", "SP203"},
           {"explain", "--matmul", "P(tp) @ P(tp)"},
           {"completion", "bash"},
           {"check", "m.json", "-r", "r.yaml", "-m", "tp=2"},
           {"check", "m.json", "-r", "r.yaml", "-m", "tp=3", "--exit-zero"},
           {"inspect", "m.json", "--format", "csv"},
           {"export", "m.json", "-r", "r.yaml", "-m", "tp=2", "--to", "jax"}}) {
    CAPTURE(command_line(words));
    MemoryHost host = ready();
    // Nothing fits on standard output, what is said on the other one does.
    struct FullHost : MemoryHost {
      explicit FullHost(MemoryHost host) : MemoryHost(std::move(host)) {}
      bool write(Stream stream, std::string_view text) override {
        if (stream == Stream::Err) return MemoryHost::write(stream, text);
        failed = true;
        return false;
      }
      std::string write_problem(Stream stream) override {
        return failed && stream == Stream::Out && !closed ? "disk full" : "";
      }
      bool failed = false;
      bool closed = false;
    };
    FullHost full(host);
    CHECK(run(words, full) == 2);
    CHECK(full.err ==
          "error[SP001]: cannot write to standard output: disk full\n");
    // A reader that has seen enough is not a failure.
    FullHost closed(host);
    closed.closed = true;
    CHECK(run(words, closed) < 2);
    CHECK(closed.err.empty());
  }
}

// A run whose file became shorter reported what zeros were there instead.
TEST_CASE("a file that became shorter is all that is reported") {
  for (const char* model : {"m.json", "missing.json"}) {
    for (const char* format : {"text", "concise", "json"}) {
      MemoryHost host = ready();
      host.shortened = "weights.safetensors";
      CHECK(run({"check", model, "-r", "r.yaml", "-m", "tp=2", "--format",
                 format},
                host) == 2);
      const std::string said = host.out + host.err;
      CHECK(has_text(said,
                     "`weights.safetensors` changed while it was being read"));
      CHECK_FALSE(has_text(said, "missing.json"));
      CHECK_FALSE(has_text(said, "No problems"));
    }
  }
  MemoryHost host = ready();
  host.shortened = "weights.safetensors";
  CHECK(run({"resolve", "m.json", "-r", "r.yaml", "-m", "tp=2", "-o", "x.json",
             "--json"},
            host) == 2);
  CHECK(host.written.empty());
}

TEST_CASE("what the user names may be waited for, what is found may not") {
  MemoryHost host = ready();
  host.pipes = {"m.json", "r.yaml"};
  CHECK(run({"check", "m.json", "-r", "r.yaml", "-m", "tp=2"}, host) == 0);
  host = ready();
  host.pipes = {"r.yaml"};
  host.files["shardplan.yaml"] = "rules: r.yaml\nmesh: {tp: 2}\n";
  CHECK(run({"check", "m.json"}, host) == 2);
  CHECK(has_text(host.err, "cannot read `r.yaml`: is a pipe"));
  CHECK(run({"check", "m.json", "--config", "shardplan.yaml"}, host) == 0);
  // A folder that was named holds files.
  host = ready();
  host.files["folder/config.json"] = "{}";
  host.pipes = {"folder/config.json"};
  CHECK(run({"inspect", "folder"}, host) == 2);
  CHECK(has_text(host.err, "cannot read `folder/config.json`: is a pipe"));
}

TEST_CASE("two answers of a run do not go to one file") {
  MemoryHost host = ready();
  CHECK(run({"simulate", "m.json", "-r", "r.yaml", "-m", "tp=2", "--plot",
             "x.svg", "-o", "x.svg"},
            host) == 2);
  CHECK(has_text(host.err, "`--output` and `--plot` both write `x.svg`"));
}

TEST_CASE("exit codes say what happened") {
  const struct {
    Words words;
    int exit;
  } rows[] = {
      {{"check", "m.json", "-r", "r.yaml", "-m", "tp=2"}, 0},
      {{"check", "m.json", "-r", "r.yaml", "-m", "fsdp=2"}, 1},
      {{"check", "m.json", "-r", "r.yaml", "-m", "fsdp=2", "--exit-zero"}, 0},
      {{"check", "m.json", "-r", "r.yaml", "-m", "tp=3"}, 1},
      {{"check", "m.json", "-r", "r.yaml", "-m", "tp=3", "--tolerance", "9"},
       0},
      {{"check", "m.json", "-r", "r.yaml", "-m", "tp=3", "--tolerance", "9",
        "--deny", "SP203"},
       1},
      {{"check", "m.json", "-r", "r.yaml", "-m", "tp=2,x=1", "--allow",
        "SP204"},
       0},
      {{"check", "m.json", "-r", "r.yaml"}, 2},
      {{"check", "m.json", "-r", "r.yaml", "--exit-zero"}, 2},
      {{"check", "missing.json", "-r", "r.yaml", "-m", "tp=2"}, 2},
      {{"check", "m.json", "-r", "r.yaml", "-m", "tp=0"}, 2},
      {{"chekc"}, 2},
      {{"list"}, 0},
      {{"list", "nothing"}, 2},
  };
  for (const auto& row : rows) {
    CAPTURE(command_line(row.words));
    MemoryHost host = ready();
    CHECK(run(row.words, host) == row.exit);
    if (row.exit == 2) {
      CHECK(host.out.empty());
      CHECK_FALSE(host.err.empty());
    }
  }
}

TEST_CASE("a wrong command line shows its mistakes, whatever the format") {
  MemoryHost host;
  CHECK(run({"resolve", "--json", "--mesh", "tp=2"}, host) == 2);
  CHECK(host.err.empty());
  CHECK(has_text(host.out, "\"schema\": \"shardplan.report/1\""));
  CHECK(has_text(host.out, "\"message\": \"`resolve` needs MODEL\""));
  host.out.clear();
  CHECK(run({"resolve", "--format", "csv", "--mesh", "tp=2"}, host) == 2);
  CHECK(host.err ==
        "error[SP010]: `resolve` needs MODEL\n"
        "help: usage: `shardplan resolve MODEL`\n");
  CHECK(host.out.empty());
}

TEST_CASE("mistakes are annotations where those were asked for") {
  MemoryHost host;
  CHECK(run({"check", "--format", "github"}, host) == 2);
  CHECK(has_text(host.out, "::error"));
  CHECK(has_text(host.out, "`check` needs MODEL"));
  CHECK(host.err.empty());
}

TEST_CASE("the nearest configuration is used, and said with -v") {
  MemoryHost host = ready();
  host.files["shardplan.yaml"] = "rules: r.yaml\nmesh: {tp: 2}\n";
  CHECK(run({"check", "m.json", "-v"}, host) == 0);
  CHECK(host.err == "configuration: shardplan.yaml\n");
  host.err.clear();
  CHECK(run({"check", "m.json"}, host) == 0);
  CHECK(host.err.empty());
}

TEST_CASE("flags override the configuration, --isolated ignores it") {
  MemoryHost host = ready();
  host.files["shardplan.yaml"] = "rules: r.yaml\nmesh: {fsdp: 2}\n";
  CHECK(run({"check", "m.json"}, host) == 1);
  CHECK(run({"check", "m.json", "--mesh", "tp=2"}, host) == 0);
  CHECK(run({"check", "m.json", "--mesh", "tp=2", "--isolated"}, host) == 2);
  host.files["other.yaml"] = "rules: r.yaml\nmesh: tp=2\n";
  CHECK(run({"check", "m.json", "--config", "other.yaml"}, host) == 0);
}

TEST_CASE("a broken configuration stops what would read it, and nothing else") {
  MemoryHost host = ready();
  host.files["shardplan.yaml"] = "ruels: r.yaml\n";
  CHECK(run({"check", "m.json", "--mesh", "tp=2"}, host) == 2);
  CHECK(has_text(host.err, "error[SP004]"));
  CHECK(has_text(host.err, "shardplan.yaml:1:1"));
  CHECK(run({"list"}, host) == 0);
  CHECK(run({"help", "check"}, host) == 0);
}

TEST_CASE("a report is not written under the name of a plan") {
  MemoryHost host = ready();
  Words words = {"check", "m.json", "-r", "r.yaml",
                 "-m",    "tp=2",   "-o", "x.plan.json"};
  CHECK(run(words, host) == 2);
  CHECK(host.written.empty());
  words.emplace_back("--json");
  CHECK(run(words, host) == 0);
  CHECK(host.files["x.plan.json"].starts_with("{"));
  words[0] = "resolve";
  words.back() = "--why=w";
  CHECK(run(words, host) == 2);
}

// Fails where no program can do anything about it.
class BrokenHost : public MemoryHost {
 public:
  std::shared_ptr<const Bytes> read_file(const std::string&, int64_t,
                                         std::string&) override {
    throw std::logic_error("the \x1b[31mdisk\x1b[0m melted");
  }
};

TEST_CASE("a bug exits with 3 and says how to report it") {
  BrokenHost host;
  host.files["m.json"] = kModel;
  CHECK(run({"inspect", "m.json", "--isolated"}, host) == 3);
  CHECK(has_text(host.err, "error[SP900]: the \\x1b[31mdisk"));
  CHECK(has_text(host.err, "shardplan " + std::string(version())));
  CHECK(has_text(host.err, "command: shardplan inspect m.json --isolated"));
  CHECK(host.out.empty());
}

TEST_CASE("progress shows only on a terminal and leaves nothing behind") {
  for (const char* flag : {"", "--no-progress", "--quiet"}) {
    MemoryHost host = ready();
    host.terminals = {Stream::Err};
    host.tick = 1;
    Words words = {"inspect", "m.json"};
    if (*flag != 0) words.emplace_back(flag);
    CHECK(run(words, host) == 0);
    CHECK(has_text(host.err, "\r\x1b[K") == (*flag == 0));
    CHECK((host.err.empty() || host.err.ends_with("\r\x1b[K")));
  }
}

TEST_CASE("progress says how much of a large file is left to read") {
  MemoryHost host = ready();
  std::string model;
  for (int i = 0; i < 30000; ++i) {
    model += "layers." + std::to_string(i) + ".w: {shape: [4], dtype: f32}\n";
  }
  host.files["m.yaml"] = model;
  host.terminals = {Stream::Err};
  host.tick = 1;
  CHECK(run({"inspect", "m.yaml"}, host) == 0);
  CHECK(has_text(host.err, "reading the model ..."));
  CHECK(has_text(host.err, " left"));
  host.err.clear();
  CHECK(run({"inspect", "m.yaml", "--no-progress"}, host) == 0);
  CHECK(host.err.empty());
}

// Where targets are judged, it says which of how many, and about how long the
// others take. One thread: of several, each names the target it begins.
TEST_CASE("progress tells targets, and what is left") {
  MemoryHost host = ready();
  std::string config = "targets:\n";
  for (const char* name : {"a", "b", "c", "d", "e"}) {
    config += "  " + std::string(name) +
              ": {model: m.json, rules: r.yaml, mesh: \"tp=2\"}\n";
  }
  for (const std::string side : {"", "old/", "new/"}) {
    host.files[side + "shardplan.yaml"] = config;
    host.files[side + "m.json"] = kModel;
    host.files[side + "r.yaml"] = kRules;
  }
  host.terminals = {Stream::Err};
  host.tick = 1;
  for (const Words& words : std::vector<Words>{
           {"check", "--jobs", "1"}, {"gate", "old", "new", "--jobs", "1"}}) {
    for (const bool wanted : {true, false}) {
      host.err.clear();
      Words all = words;
      if (!wanted) all.emplace_back("--no-progress");
      CHECK(run(all, host) == 0);
      CAPTURE(host.err);
      CHECK(has_text(host.err, "target 3 of 5: c ...") == wanted);
      CHECK(has_text(host.err, "target 5 of 5: e ...") == wanted);
      CHECK(has_text(host.err, " left") == wanted);
      CHECK((host.err.empty() || host.err.ends_with("\r\x1b[K")));
    }
  }
}

}  // namespace
}  // namespace shardplan::cli
