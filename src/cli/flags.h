// SPDX-License-Identifier: Apache-2.0
// The table of flags: their names, help texts, the commands that accept them,
// and how a value becomes an option.
//
// Both the command line and shardplan.yaml are converted to Settings, so the
// same code checks a value wherever it was written. Help and completion are
// printed from the same table. Its rows are next to the code that they concern;
// flags.cc defines their order.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/diagnostic.h"
#include "base/source.h"

namespace shardplan::cli {

struct Flag;
struct Options;

// A flag with one value, as the user wrote it.
struct Setting {
  const Flag* flag = nullptr;
  std::string value;      // "" for a switch
  Span where;             // in a configuration file; empty on the command line
  std::string directory;  // base of relative paths; "" is here
};

enum class Takes : uint8_t { Nothing, Text, File, Choice };

struct Flag {
  std::string_view name;  // long name and configuration key: "min-size"
  Takes takes = Takes::Text;
  std::string_view value;  // the value's name in help: "FILE", "N"
  std::string_view
      group;  // "Inputs", "Simulation", "Memory", "Output" or "Diagnostics"
  std::string_view help;      // one line
  std::string_view commands;  // that accept it, separated by blanks
  // Checks the value and stores it; reports SP010 if it is not understood.
  void (*apply)(const Setting&, Options&, Diagnostics&) = nullptr;
  bool repeats = false;      // may be given several times
  bool configurable = true;  // may be set in shardplan.yaml
  std::vector<std::string> (*choices)() = nullptr;  // for Takes::Choice
  char letter = 0;                                  // "-r", or 0
  // Returns a help line that explains what a value known from another program
  // means here; "" if there is none.
  std::string (*meant)(std::string_view) = nullptr;
};

std::span<const Flag> flags();
const Flag* find_flag(std::string_view name);
// Returns the last setting of that flag; null if there is none.
const Setting* find_setting(std::span<const Setting> settings,
                            std::string_view flag);
bool is_accepted_by(const Flag& flag, std::string_view command);
// Returns whether the flag makes a plan or controls how a plan is checked.
// `inspect` accepts such flags only with --shard, `diff` only with --semantics.
bool makes_plan(const Flag& flag);
// Returns whether `diff` accepts the flag only with --before, because it
// controls how a plan is checked or estimates memory per device.
bool needs_before(const Flag& flag);
// Stores settings into options, in order. Reports all problems.
void apply_settings(std::span<const Setting> settings, Options& options,
                    Diagnostics& diags);

// Applies --deny and --allow to `diags`.
//
// REQUIRES: apply_settings checked them.
void apply_severities(const Options& options, Diagnostics& diags);

// Resolves `path`, written in a file of `directory` ("" is the working
// directory).
std::string join_path(const std::string& directory, const std::string& path);

// The rows of the table.

// Flags that make a plan and control how it is checked.
std::vector<Flag> planning_flags();
// Flags for what a device must hold and what it has: training state, KV cache,
// pipeline stages, hardware.
std::vector<Flag> memory_flags();
// Flags for the engine that serves the model, and the engine's own settings.
std::vector<Flag> engine_flags();
// Flags of a training step, which determine its activations.
std::vector<Flag> workload_flags();
// Flags of single commands, defined with them. Some of those of `gate`,
// `explain`, `diff` and `sweep` are also flags of another command.
std::vector<Flag> check_flags();
std::vector<Flag> diff_flags();
std::vector<Flag> explain_flags();
std::vector<Flag> export_flags();
std::vector<Flag> gate_flags();
std::vector<Flag> inspect_flags();
std::vector<Flag> plan_flags();
std::vector<Flag> resolve_flags();
std::vector<Flag> simulate_flags();
std::vector<Flag> sweep_flags();

}  // namespace shardplan::cli
