// SPDX-License-Identifier: Apache-2.0
// The table of commands.
//
// To add a command: write cli/commands/x.cc with its run function, declare that
// function below, add a row in commands.cc, and name the command in the rows of
// the flags it accepts. A run function reads from top to bottom: it opens its
// input (open_session()), evaluates it to a report, and ends with finish() or
// another function of cli/output.h. Flags that only this command accepts are
// defined in x.cc with their checks; the request that they fill is a member of
// Options. Help, completion, `list commands` and the checks of arguments follow
// from these rows.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/diagnostic.h"
#include "base/host.h"
#include "cli/progress.h"

namespace shardplan {
struct Session;
}  // namespace shardplan

namespace shardplan::cli {

struct Options;
struct Setting;

// 0: no findings; 1: findings; 2: could not run; 3: a bug in shardplan.
enum class Exit : int { Fine = 0, Findings = 1, CouldNotRun = 2, Bug = 3 };

struct Context {
  const Options& options;
  Host& host;
  Diagnostics& diags;
  Progress& progress;
  // Whether part of the answer is already on standard output.
  bool began_answer = false;
  // Whether standard output already explains why there is no answer.
  bool explained = false;
};

// Opens the session that the options ask for. Empty, with the reason reported.
std::optional<Session> open_session(Context& context);

struct Argument {
  std::string_view name;  // "MODEL"
  std::string_view help;  // one line
  bool optional = false;
  // Returns the words that the shell completes; null: it completes files.
  std::vector<std::string> (*words)() = nullptr;
};

// Reports flags that contradict one another or have no meaning together
// (SP010). `given` holds the flags of the command line. A configuration's
// settings are in the options only, since they may be meant for other commands.
using Validate = void(std::span<const Setting> given, const Options& options,
                      Diagnostics& diags);

struct Command {
  std::string_view name;
  std::string_view group;    // heading in the overview
  std::string_view summary;  // one line
  std::vector<Argument> arguments;
  std::vector<std::string_view> examples;  // command lines, shown first
  std::vector<std::string_view> exits;     // what 0, 1 and 2 mean, in order
  // The flags that the short help shows; empty: all flags of the command.
  std::string_view usual;
  std::string_view page;  // docs page at the end of its help
  // Runs the whole command: reads, computes, and passes its answer to
  // cli/output.h. Exit::CouldNotRun means that the context's diagnostics
  // contain an error that prevents running; otherwise run() reports a bug in
  // shardplan.
  Exit (*run)(Context&);
  Validate* validate = nullptr;
  // Flags with any of which the command expects `other_arguments`.
  std::vector<std::string_view> other_flags = {};
  std::vector<Argument> other_arguments = {};
};

std::span<const Command> commands();
const Command* find_command(std::string_view name);

Exit run_analyze(Context& context);
Exit run_check(Context& context);
Exit run_completion(Context& context);
Exit run_diff(Context& context);
Exit run_explain(Context& context);
Exit run_export(Context& context);
Exit run_gate(Context& context);
Exit run_inspect(Context& context);
Exit run_list(Context& context);
Exit run_plan(Context& context);
Exit run_resolve(Context& context);
Exit run_simulate(Context& context);
Exit run_sweep(Context& context);

Validate validate_check;
Validate validate_diff;
Validate validate_explain;
Validate validate_inspect;
Validate validate_resolve;
Validate validate_simulate;

// Runs the whole program: parses, runs, renders. Returns the exit code and
// never throws. `arguments` exclude the program's name.
int run(const std::vector<std::string>& arguments, Host& host);

}  // namespace shardplan::cli
