// SPDX-License-Identifier: Apache-2.0
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include <doctest/doctest.h>
#include <unistd.h>

#include "cli/commands.h"
#include "cli/flags.h"
#include "tests/support/memory_host.h"

namespace shardplan::cli {
namespace {

using shardplan::testing::MemoryHost;

std::string script(const char* shell) {
  MemoryHost host;
  CHECK(run({"completion", shell}, host) == 0);
  CHECK(host.err.empty());
  return host.out;
}

bool is_there(const char* shell) {
  return std::system(("command -v " + std::string(shell) + " >/dev/null 2>&1")
                         .c_str()) == 0;
}

// Runs `shell -c` with the script in a file as its only argument, and gives
// what it prints.
std::string shell_output(const std::string& shell, const std::string& text,
                         const std::string& command) {
  namespace fs = std::filesystem;
  const fs::path folder =
      fs::temp_directory_path() /
      ("shardplan_completion_" + std::to_string(::getpid()));
  fs::create_directory(folder);
  const fs::path file = folder / "script";
  const fs::path out = folder / "out";
  std::ofstream(file) << text;
  const std::string line = shell + " -c '" + command + "' x " + file.string() +
                           " >" + out.string() + " 2>&1";
  CHECK(std::system(line.c_str()) == 0);
  std::ifstream result(out);
  std::string content((std::istreambuf_iterator<char>(result)), {});
  fs::remove_all(folder);
  return content;
}

TEST_CASE("every shell is told of every command and flag") {
  for (const char* shell : {"bash", "zsh", "fish"}) {
    CAPTURE(shell);
    const std::string text = script(shell);
    for (const Command& command : commands()) {
      CAPTURE(command.name);
      CHECK(text.find(command.name) != std::string::npos);
    }
    for (const Flag& flag : flags()) {
      CAPTURE(flag.name);
      const std::string name = shell == std::string("fish")
                                   ? "-l " + std::string(flag.name)
                                   : "--" + std::string(flag.name);
      CHECK(text.find(name) != std::string::npos);
    }
    CHECK(text.find("drop prefix pad chunk error") != std::string::npos);
  }
}

TEST_CASE("the shells that are there accept their scripts") {
  for (const char* shell : {"bash", "zsh", "fish"}) {
    if (!is_there(shell)) continue;
    CAPTURE(shell);
    CHECK(shell_output(shell, script(shell),
                       std::string(shell) + " -n \"$1\"") == "");
  }
}

TEST_CASE("bash completes commands, flags, choices and words") {
  if (!is_there("bash")) return;
  const struct {
    const char* words;  // after `shardplan`
    const char* replies;
  } rows[] = {
      {"insp", "inspect"},
      {"--mesh tp=2 insp", "inspect"},
      {"check m.json --on-indivisible p", "prefix pad"},
      {"inspect m.json --isol", "--isolated"},
      {"diff a.json b.json --mes", "--mesh"},
      {"explain split", "split-unit"},
      {"list cod", "codes"},
      {"completion f", "fish"},
      {"help di", "diff"},
  };
  const std::string text = script("bash");
  for (const auto& row : rows) {
    CAPTURE(row.words);
    const std::string got = shell_output(
        "bash", text,
        "source \"$1\"; COMP_WORDS=(shardplan " + std::string(row.words) +
            "); COMP_CWORD=$((${#COMP_WORDS[@]}-1)); _shardplan; "
            "echo \"${COMPREPLY[*]}\"");
    CHECK(got == row.replies + std::string("\n"));
  }
}

TEST_CASE("an unknown shell is refused with those that are known") {
  MemoryHost host;
  CHECK(run({"completion", "csh"}, host) == 2);
  CHECK(host.err ==
        "error[SP010]: unknown shell `csh`\n"
        "help: `bash`, `zsh` and `fish` are known\n");
}

}  // namespace
}  // namespace shardplan::cli
