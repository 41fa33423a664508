// SPDX-License-Identifier: Apache-2.0
// Markdown that is run: what a page shows is what the program does.
//
//   ```yaml title=rules.yaml      a titled block is a file in memory
//   rules: [...]
//   ```
//   ```console                    a command, then what a terminal would show
//   $ shardplan check m.json --rules rules.yaml --mesh fsdp=2
//   standard output, then standard error
//   [exit 1]                      only when it is not 0
//   ```
//
// In a console block, lines that start with `$ shardplan` are run; of other
// commands nothing is. A final `\` continues a command, `NAME=value` may stand
// before it and `< FILE` after it. A line `...` stands for any lines, and
// blank lines before the next command do not count. Escape characters are
// written `␛`. Words after ```console: `norun`, `width=60`, `colour`, `ascii`,
// and `slow` for what takes too long under a sanitizer.
// An unknown language is a failure, and so is `$ shardplan` in another block
// than ```console: a misspelt fence would run nothing.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "tests/support/memory_host.h"

namespace shardplan::testing {

struct MarkdownFailure {
  size_t line = 0;  // 1-based, of the command or block
  std::string what;
};

struct MarkdownRun {
  std::vector<MarkdownFailure> failures;
  int commands = 0;       // how many were run
  std::string output;     // of all of them
  std::string corrected;  // the page, with the output in its place
};

// The whole program: arguments without its name, to the exit code.
using ProgramRun =
    std::function<int(const std::vector<std::string>& arguments, Host& host)>;

// Runs a page's commands in order, on one host.
MarkdownRun run_markdown(std::string_view page, MemoryHost& host,
                         const ProgramRun& program);

// Whether `lines` are as expected, where a line `...` stands for any lines.
bool lines_match(const std::vector<std::string>& expected,
                 const std::vector<std::string>& lines);

// Words as a shell splits them: blanks, quotes and backslashes.
std::vector<std::string> shell_words(std::string_view command);

}  // namespace shardplan::testing
