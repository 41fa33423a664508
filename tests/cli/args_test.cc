// SPDX-License-Identifier: Apache-2.0

#include "cli/args.h"

#include <algorithm>
#include <filesystem>
#include <set>
#include <string>
#include <string_view>

#include <doctest/doctest.h>

#include "base/text.h"
#include "cli/commands.h"
#include "cli/progress.h"
#include "tests/support/memory_host.h"
#include "tests/support/messages.h"
#include "tests/support/source_dir.h"
#include "tests/support/words.h"

namespace shardplan::cli {
namespace {

using testing::has_text;

void check_width(std::string_view text) {
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    CAPTURE(line);
    CHECK(display_width(line) <= 80);
    CHECK((line.empty() || line.back() != ' '));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
  }
}

TEST_CASE("help fits 80 columns and has no trailing blanks") {
  check_width(overview_text(false));
  for (const Command& command : commands()) {
    CAPTURE(command.name);
    check_width(command_help_text(command, "", false));
    check_width(command_help_text(command, "all", false));
  }
}

TEST_CASE("the help of a command fits one screen") {
  for (const Command& command : commands()) {
    CAPTURE(command.name);
    const std::string text = command_help_text(command, "", false);
    CHECK(std::ranges::count(text, '\n') <= 60);
    std::string_view rest = command.usual;
    while (!rest.empty()) {
      const std::string_view word = rest.substr(0, rest.find(' '));
      rest.remove_prefix(std::min(rest.size(), word.size() + 1));
      CAPTURE(word);
      const Flag* flag = find_flag(word);
      REQUIRE(flag != nullptr);
      CHECK(is_accepted_by(*flag, command.name));
    }
  }
}

TEST_CASE("all options of a command are those of its topics, each once") {
  for (const Command& command : commands()) {
    CAPTURE(command.name);
    const std::string all = command_help_text(command, "all", false);
    for (const Flag& flag : flags()) {
      if (!is_accepted_by(flag, command.name)) continue;
      const std::string entry =
          (flag.letter == 0 ? "\n      --"
                            : "\n  -" + std::string(1, flag.letter) + ", --") +
          std::string(flag.name) + " ";
      CAPTURE(entry);
      CHECK(has_text(all, entry));
      int topics = 0;
      for (const char* topic : {"inputs", "simulation", "serving", "memory",
                                "output", "findings"}) {
        topics += has_text(command_help_text(command, topic, false), entry);
      }
      CHECK(topics == 1);
    }
  }
}

TEST_CASE("a page is found by its name, a command before a page") {
  const auto shown = [](const testing::Words& words) {
    Diagnostics diags;
    const CommandLine line = parse_command_line(words, diags);
    if (diags.has_errors()) return testing::messages(diags);
    return std::string(line.page != nullptr ? line.page->path
                                            : line.command->name);
  };
  CHECK(shown({"help", "guide"}) == "guide.md");
  CHECK(shown({"help", "rules"}) == "formats/rules.md");
  CHECK(shown({"help", "formats/rules.md"}) == "formats/rules.md");
  CHECK(shown({"help", "simulate"}) == "simulate");
  CHECK(shown({"help", "simulate.md"}) == "simulate.md");
  CHECK(shown({"help", "check", "all"}) == "check");
  CHECK(shown({"help", "giude"}) == "SP010 unknown command `giude`");
  for (const std::string& name : help_page_names()) {
    CAPTURE(name);
    CHECK(shown({"help", name}).ends_with(".md"));
  }
}

TEST_CASE("the overview names every command below its group") {
  const std::string text = overview_text(false);
  CHECK(text.starts_with("shardplan " + std::string(version()) + ": "));
  for (const Command& command : commands()) {
    CHECK(has_text(text, "\n" + std::string(command.group) + "\n"));
    CHECK(has_text(text, "\n  " + std::string(command.name) + " "));
    CHECK(has_text(text, command.summary));
  }
}

TEST_CASE("a command's help leads with examples and ends with a page") {
  for (const Command& command : commands()) {
    CAPTURE(command.name);
    const std::string text = command_help_text(command, "", false);
    const size_t example = text.find("\n  $ shardplan");
    const size_t arguments = text.find("\nArguments\n");
    const size_t exits = text.find("\nExit codes\n");
    CHECK(has_text(text, "  2  could not run"));
    REQUIRE(arguments != std::string::npos);
    CHECK(std::min(example, text.find("\n  $ ")) < arguments);
    CHECK(arguments < exits);
    const size_t more = text.rfind("\nMore: `shardplan help ");
    REQUIRE(more != std::string::npos);
    std::string page = text.substr(more + 23);
    page.resize(page.find('`'));
    REQUIRE(find_help_page(page) != nullptr);
    CHECK(find_help_page(page)->path == command.page);
  }
}

TEST_CASE("flags are shown to the commands that take them, in three groups") {
  const std::string check =
      command_help_text(*find_command("check"), "all", false);
  CHECK(has_text(check, "\nInputs\n  -r, --rules FILE|@NAME"));
  CHECK(has_text(check, "\nOutput\n"));
  CHECK(has_text(check, "\nFindings\n"));
  CHECK_FALSE(has_text(check, "--why"));
  CHECK_FALSE(has_text(check, "--exit-code"));
  const std::string explain =
      command_help_text(*find_command("explain"), "all", false);
  CHECK(has_text(explain, "--color WHEN"));
  CHECK(has_text(explain, "--matmul SPECS"));
  CHECK_FALSE(has_text(explain, "--rules"));
}

TEST_CASE("the help of a small command reads well") {
  CHECK(command_help_text(*find_command("completion"), "", false) ==
        R"(shardplan completion: print a completion script for bash, zsh or fish

  $ source <(shardplan completion bash)
  $ shardplan completion fish > ~/.config/fish/completions/shardplan.fish

Arguments
  SHELL  bash, zsh or fish

Inputs
      --max-memory SIZE  memory limit of shardplan itself (default: 3/4 of the
                         machine's memory)

Output
      --color WHEN  colours (default auto: on a terminal): auto, always, never

Exit codes
  0  the script was printed
  2  could not run: wrong usage, or an input that cannot be read or understood
  3  a bug in shardplan

More: `shardplan help guide`
)");
}

TEST_CASE("headings are bold on a terminal") {
  CHECK(has_text(overview_text(true), "\x1b[1mReference\x1b[0m\n"));
  CHECK_FALSE(has_text(overview_text(false), "\x1b"));
}

TEST_CASE("the pages that help names exist") {
  const std::filesystem::path root = source_dir();
  for (const Command& command : commands()) {
    CAPTURE(command.page);
    CHECK(std::filesystem::exists(root / "docs" / command.page));
  }
}

TEST_CASE("every command is found by its name and by no other") {
  std::set<std::string_view> names;
  for (const Command& command : commands()) {
    CAPTURE(command.name);
    CHECK(find_command(command.name) == &command);
    CHECK(names.insert(command.name).second);
    CHECK((command.run != nullptr));
    CHECK(command.exits.size() == 3);
    CHECK_FALSE(command.arguments.empty());
    CHECK_FALSE(command.examples.empty());
  }
  CHECK(find_command("help") == nullptr);
  CHECK(find_command("train") == nullptr);
  CHECK(find_command("") == nullptr);
}

TEST_CASE("the commands of one group stand together") {
  std::set<std::string_view> closed;
  std::string_view group;
  for (const Command& command : commands()) {
    if (command.group == group) continue;
    CHECK(closed.insert(command.group).second);
    group = command.group;
  }
}

using shardplan::testing::MemoryHost;

TEST_CASE("the status line comes after half a second and is erased") {
  MemoryHost host;
  host.terminals = {Stream::Err};
  {
    Progress progress(host, true);
    host.clock = 0.4;
    progress.stage("reading");
    CHECK(host.err.empty());
    host.clock = 0.6;
    progress.stage("matching");
    CHECK(host.err == "\r\x1b[Kmatching ...");
  }
  CHECK(host.err == "\r\x1b[Kmatching ...\r\x1b[K");
  CHECK(host.out.empty());
}

TEST_CASE("the status line tells the time, and about how much is left") {
  MemoryHost host;
  host.terminals = {Stream::Err};
  host.tick = 0;
  Progress progress(host, true);
  const auto said = [&](double clock, double done) {
    host.err.clear();
    host.clock = clock;
    progress.step("running", "running (node 2 of 9)", done);
    return host.err.empty() ? "" : host.err.substr(4);
  };
  CHECK(said(0.2, 0).empty());
  CHECK(said(0.9, 0.1) == "running (node 2 of 9) ...");
  CHECK(said(0.95, 0.2).empty());  // at most ten times a second
  CHECK(said(1.7, 0.25) == "running (node 2 of 9) ... 1 s, about 5 s left");
  CHECK(said(31, 0.25) ==
        "running (node 2 of 9) ... 31 s, about 1 min 35 s left");
  CHECK(said(100, 0.001) == "running (node 2 of 9) ... 1 min 40 s");
  CHECK(said(4000, 0.5) ==
        "running (node 2 of 9) ... 1 h 6 min, about 1 h 7 min left");
  // Other work has its own clock.
  host.err.clear();
  host.clock = 4001;
  progress.step("comparing", "comparing (node 1 of 9)", 0.5);
  CHECK(host.err.substr(4) == "comparing (node 1 of 9) ... 1 h 6 min");
  host.err.clear();
  host.clock = 4002;
  progress.stage("checking");
  CHECK(host.err.substr(4) == "checking ... 1 h 6 min");
}

TEST_CASE("nothing is shown where it would disturb") {
  const struct {
    bool terminal;
    bool enabled;
  } rows[] = {{false, true}, {true, false}, {false, false}};
  for (const auto& row : rows) {
    CAPTURE(row.terminal);
    CAPTURE(row.enabled);
    MemoryHost host;
    if (row.terminal) host.terminals = {Stream::Err};
    Progress progress(host, row.enabled);
    host.clock = 10;
    progress.stage("reading");
    progress.clear();
    CHECK(host.err.empty());
  }
}

TEST_CASE("a status line fits the terminal and cannot write escapes") {
  MemoryHost host;
  host.terminals = {Stream::Err};
  host.width = 20;
  Progress progress(host, true);
  host.clock = 1;
  progress.stage("reading \x1b[31m" + std::string(100, 'x'));
  CHECK(host.err.size() == 19 + std::string_view("\r\x1b[K").size());
  CHECK(host.err.find("\x1b[31m") == std::string::npos);
}

}  // namespace

}  // namespace shardplan::cli
