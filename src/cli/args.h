// SPDX-License-Identifier: Apache-2.0
// Splits the words of the command line into a command, its arguments and its
// settings, and produces the help texts.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/diagnostic.h"
#include "cli/commands.h"
#include "cli/flags.h"
#include "cli/pages.h"

namespace shardplan::cli {

struct CommandLine {
  // Help on `command`, or on the whole program if `command` is null.
  bool help = false;
  bool version = false;
  const Page* page = nullptr;        // the help page to show
  const Command* command = nullptr;  // null only with help or version
  std::vector<std::string> arguments;
  std::vector<Setting> settings;
};

// Parses the words. Reports every mistake as SP010 and still returns what it
// understood, so that the mistakes can be shown in the requested format.
CommandLine parse_command_line(const std::vector<std::string>& words,
                               Diagnostics& diags);

// Help texts (help.cc).

// "0.1.0"
std::string_view version();

// Returns what `shardplan` prints without arguments.
std::string overview_text(bool colour);
// Returns what `shardplan help COMMAND [TOPIC]` prints: examples, arguments,
// the usual flags, exit codes and a page to read on. The topic "all" lists
// every flag; the name of a topic lists only the flags of that topic.
std::string command_help_text(const Command& command, std::string_view topic,
                              bool colour);
// Returns the page of docs/ that `word` names, e.g. "guide", "rules" or
// "formats/rules.md"; null if there is none.
const Page* find_help_page(std::string_view word);
std::vector<std::string> help_page_names();

// The words that arguments may be, for spelling suggestions and completion.

std::vector<std::string> topic_names();  // of `list`
std::vector<std::string> shell_names();  // of `completion`

}  // namespace shardplan::cli
