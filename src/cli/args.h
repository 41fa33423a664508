// SPDX-License-Identifier: Apache-2.0
// The words of the command line as a command, its arguments and settings.
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
  // Help on `command`, or on the whole program without one.
  bool help = false;
  bool version = false;
  const Page* page = nullptr;        // to show as help
  const Command* command = nullptr;  // null only with help or version
  std::vector<std::string> arguments;
  std::vector<Setting> settings;
};

// Every mistake is reported as SP010; what was understood is returned all the
// same, so that the mistakes can be shown in the format that was asked for.
CommandLine parse_command_line(const std::vector<std::string>& words,
                               Diagnostics& diags);

// Help texts (help.cc).

// "0.1.0"
std::string_view version();

// What `shardplan` prints without arguments.
std::string overview_text(bool colour);
// What `shardplan help COMMAND [TOPIC]` prints: examples, arguments, the usual
// flags, exit codes, a page to read on. With `all` every flag, with the name of
// a topic the flags of that alone.
std::string command_help_text(const Command& command, std::string_view topic,
                              bool colour);
// A page of docs/: "guide", "rules", "formats/rules.md"; null: there is none.
const Page* find_help_page(std::string_view word);
std::vector<std::string> help_page_names();

// Words that arguments may be, for help with misspellings and for completion.

std::vector<std::string> topic_names();  // of `list`
std::vector<std::string> shell_names();  // of `completion`

}  // namespace shardplan::cli
