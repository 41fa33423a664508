// SPDX-License-Identifier: Apache-2.0
// The table of commands, and what each may use.
#pragma once

#include <span>
#include <string_view>

#include "base/diagnostic.h"
#include "base/host.h"
#include "cli/options.h"

namespace shardplan::cli {

// 0 fine, 1 findings, 2 could not run, 3 a bug in shardplan.
enum class Exit : int { Fine = 0, Findings = 1, CouldNotRun = 2, Bug = 3 };

struct Context {
  const Options& options;
  Host& host;
  Diagnostics& diags;
};

struct Command {
  std::string_view name;
  std::string_view group;      // heading in the overview
  std::string_view arguments;  // "MODEL", "A.plan.json B.plan.json"
  std::string_view summary;    // one line
  std::string_view examples;   // shown first in its help, one per line
  std::string_view page;       // docs page named at the end of its help
  Exit (*run)(Context&);
};

std::span<const Command> commands();
const Command* find_command(std::string_view name);

// The whole program: parses, runs, renders. Never throws.
int run(const std::vector<std::string>& arguments, Host& host);

}  // namespace shardplan::cli
