// SPDX-License-Identifier: Apache-2.0
// Help texts, printed from the tables of commands and flags; 80 columns.
#pragma once

#include <string>
#include <string_view>

#include "cli/commands.h"

namespace shardplan::cli {

// "0.1.0"
std::string_view version();

// What `shardplan` prints without arguments.
std::string overview_text(bool colour);
// What `shardplan help COMMAND` prints: examples, arguments, flags by group,
// exit codes, a page to read on.
std::string command_help_text(const Command& command, bool colour);

}  // namespace shardplan::cli
