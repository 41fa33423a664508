// SPDX-License-Identifier: Apache-2.0
// What the command line and shardplan.yaml ask for, before anything is read.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/source.h"
#include "core/plan.h"

namespace shardplan::cli {

enum class Colour : uint8_t { Auto, Always, Never };

struct Options {
  std::string command;
  // MODEL; two plans for `diff`; a code for `explain`; a topic for `list`.
  std::vector<std::string> arguments;

  // Inputs
  std::vector<std::string> rules;      // --rules, in order
  std::optional<std::string> dialect;  // --dialect
  SourcePtr mesh;                      // --mesh, as text named "--mesh"
  std::optional<int64_t> devices;      // --devices
  std::vector<std::string> axes;       // --axes
  std::optional<std::string> plan;     // --plan; then no rules, no mesh
  int64_t min_size = 0;                // --min-size
  OnIndivisible on_indivisible = OnIndivisible::Drop;
  bool replicate_unmatched = false;      // --unmatched replicate
  bool strict = true;                    // --no-strict
  double tolerance = 0.02;               // --tolerance
  std::optional<double> max_replicated;  // --max-replicated
  std::optional<std::string> config;     // --config; else found upwards
  bool isolated = false;                 // --isolated
  int jobs = 0;                          // --jobs; 0: one per processor

  // Output
  std::string format = "text";
  std::optional<std::string> output;  // -o
  bool format_was_given = false;      // decides what `-o x.plan.json` writes
  Colour colour = Colour::Auto;
  bool expand = false;
  bool exact = false;
  bool quiet = false;
  bool verbose = false;
  bool progress = true;

  // Diagnostics: codes, names of codes, or "warnings" (--deny only); checked
  // and already in force when a command runs.
  std::vector<std::string> deny;
  std::vector<std::string> allow;
  bool exit_zero = false;

  // Of single commands
  std::optional<std::string> why;  // resolve --why NAME
  bool exit_code = false;          // diff --exit-code
};

}  // namespace shardplan::cli
