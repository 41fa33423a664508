// SPDX-License-Identifier: Apache-2.0
// The table of flags: names, words for help, which commands take them, and how
// a value becomes an option.
//
// The command line and shardplan.yaml both turn into Settings, so a value is
// checked by the same code wherever it was written; help and completion are
// printed from the same table. Its rows stand with what they are about; their
// order is in flags.cc.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/diagnostic.h"
#include "base/source.h"

namespace shardplan::cli {

struct Flag;
struct Options;

// A flag with one value, as somebody wrote it.
struct Setting {
  const Flag* flag = nullptr;
  std::string value;      // "" for a switch
  Span where;             // in a configuration file; none on the command line
  std::string directory;  // what relative paths are relative to; "" is here
};

enum class Takes : uint8_t { Nothing, Text, File, Choice };

struct Flag {
  std::string_view name;  // long name and configuration key: "min-size"
  Takes takes = Takes::Text;
  std::string_view value;  // what help calls the value: "FILE", "N"
  std::string_view
      group;  // "Inputs", "Simulation", "Memory", "Output" or "Diagnostics"
  std::string_view help;      // one line
  std::string_view commands;  // that take it, separated by blanks
  // Checks the value and stores it; reports SP010 when it is not understood.
  void (*apply)(const Setting&, Options&, Diagnostics&) = nullptr;
  bool repeats = false;      // may be given several times
  bool configurable = true;  // may stand in shardplan.yaml
  std::vector<std::string> (*choices)() = nullptr;  // of Takes::Choice
  char letter = 0;                                  // "-r", or 0
  // What a value of another program means here, as a help line; "": nothing.
  std::string (*meant)(std::string_view) = nullptr;
};

std::span<const Flag> flags();
const Flag* find_flag(std::string_view name);
bool is_taken_by(const Flag& flag, std::string_view command);
// What makes a plan, or says how one is judged: `inspect` takes it with --shard
// alone, `diff` with --semantics alone.
bool makes_plan(const Flag& flag);
// What `diff` takes with --before alone: it judges a plan, and says what
// devices hold.
bool needs_before(const Flag& flag);
// "`check`, `resolve` and `analyze`"
std::string takers_text(const Flag& flag);

// Stores settings into options, in order. Problems are reported, all of them.
void apply_settings(std::span<const Setting> settings, Options& options,
                    Diagnostics& diags);

// Puts --deny and --allow in force. REQUIRES: apply_settings checked them.
void apply_severities(const Options& options, Diagnostics& diags);

// `path` as written in a file of `directory` ("" is the working directory).
std::string join_path(const std::string& directory, const std::string& path);

// Rows of the table, but for those of single commands (cli/commands/x.h).

// What makes a plan, and how it is judged.
const std::vector<Flag>& planning_flags();
// What a device must hold and what it has: training state, KV cache, pipeline
// stages, hardware.
const std::vector<Flag>& memory_flags();
// The engine that serves the model, and what it is told.
const std::vector<Flag>& engine_flags();
// Where answers go and how they look, what is a finding, settings.
const std::vector<Flag>& general_flags();

}  // namespace shardplan::cli
