// SPDX-License-Identifier: Apache-2.0
// The words of the command line as a command, its arguments and settings.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/diagnostic.h"
#include "cli/commands.h"
#include "cli/flags.h"

namespace shardplan::cli {

struct CommandLine {
  // Help on `command`, or on the whole program without one.
  bool help = false;
  bool version = false;
  const Command* command = nullptr;  // null only with help or version
  std::vector<std::string> arguments;
  std::vector<Setting> settings;
};

// Every mistake is reported as SP010; what was understood is returned all the
// same, so that the mistakes can be shown in the format that was asked for.
CommandLine parse_command_line(const std::vector<std::string>& words,
                               Diagnostics& diags);

// Help texts, printed from the tables of commands and flags; 80 columns.

// "0.1.0"
std::string_view version();

// What `shardplan` prints without arguments.
std::string overview_text(bool colour);
// What `shardplan help COMMAND` prints: examples, arguments, flags by group,
// exit codes, a page to read on.
std::string command_help_text(const Command& command, bool colour);

// Words that arguments may be, for help with misspellings and for completion.

std::vector<std::string> topic_names();  // of `list`
std::vector<std::string> shell_names();  // of `completion`

}  // namespace shardplan::cli
