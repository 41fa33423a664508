// SPDX-License-Identifier: Apache-2.0
// The table of commands.
//
// To add one: write cli/commands/x.cc with its run function, declare that
// below, add a row in commands.cc, and name the command at the flags that it
// takes. Flags of its own stand in x.cc, with their checks, and what they ask
// for in x.h, a member of Options. Help, completion, `list commands` and the
// checks of arguments follow from these rows.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/diagnostic.h"
#include "base/host.h"
#include "cli/progress.h"

namespace shardplan::cli {

struct Options;
struct Setting;

// 0 fine, 1 findings, 2 could not run, 3 a bug in shardplan.
enum class Exit : int { Fine = 0, Findings = 1, CouldNotRun = 2, Bug = 3 };

struct Context {
  const Options& options;
  Host& host;
  Diagnostics& diags;
  Progress& progress;
  // Whether some of the answer is on standard output already.
  bool began_answer = false;
  // Whether it has been said there why there is no answer.
  bool explained = false;
};

struct Argument {
  std::string_view name;  // "MODEL"
  std::string_view help;  // one line
  bool optional = false;
  // Who completes it: a file of that extension, or one of a list of words.
  enum class Kind : uint8_t {
    Model,
    Plan,
    Folder,
    Code,
    Topic,
    Shell
  } kind = Kind::Model;
};

struct Command {
  std::string_view name;
  std::string_view group;    // heading in the overview
  std::string_view summary;  // one line
  std::vector<Argument> arguments;
  std::vector<std::string_view> examples;  // command lines, shown first
  std::vector<std::string_view> exits;     // what 0, 1 and 2 mean, in order
  // The flags of its short help; empty: all that it takes.
  std::string_view usual;
  std::string_view page;  // docs page at the end of its help
  // Does all of it: reads, computes, and hands its answer to cli/output.h.
  // Exit::CouldNotRun means that the reason is in the context's diagnostics as
  // an error that prevents running; else run() takes it for a bug of ours.
  Exit (*run)(Context&);
  // Reports flags that contradict one another or mean nothing together (SP010).
  // `given` are those of the command line; a configuration's are in the
  // options alone, since they may be meant for other commands.
  void (*validate)(std::span<const Setting> given, const Options&,
                   Diagnostics&) = nullptr;
  // With one of these flags it takes other arguments.
  std::vector<std::string_view> other_flags = {};
  std::vector<Argument> other_arguments = {};
};

std::span<const Command> commands();
const Command* find_command(std::string_view name);
// "MODEL", "A.plan.json B.plan.json", "[TOPIC]"
std::string arguments_text(std::span<const Argument> arguments);

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

// The whole program: parses, runs, renders; the result is the exit code.
// Throws nothing. `arguments` are without the program's name.
int run(const std::vector<std::string>& arguments, Host& host);

}  // namespace shardplan::cli
