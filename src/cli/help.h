// SPDX-License-Identifier: Apache-2.0
// Help texts, printed from the tables of commands and flags; 80 columns.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cli/commands.h"

namespace shardplan::cli {

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
