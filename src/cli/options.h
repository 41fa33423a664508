// SPDX-License-Identifier: Apache-2.0
// Options: everything the command line and shardplan.yaml ask for, before any
// input is read.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/commands/plan/request.h"
#include "cli/commands/requests.h"
#include "cli/commands/simulate/request.h"
#include "cli/commands/sweep/sweep.h"
#include "cli/output.h"
#include "cost/residual.h"
#include "session/memory_request.h"
#include "session/plan_request.h"
#include "session/serving.h"

namespace shardplan::cli {

// Options of the run itself, which apply to every command.
struct RunOptions {
  std::optional<std::string> config;  // --config; otherwise searched upward
  bool isolated = false;              // --isolated
  std::optional<int64_t> max_memory;  // --max-memory, bytes
  // Codes, names of codes, or "warnings" (--deny only). They are checked and
  // already applied when a command runs.
  std::vector<std::string> deny;
  std::vector<std::string> allow;
  bool exit_zero = false;
};

struct GivenFlag {
  std::string_view name;
  std::string value;  // "" for a switch
};

struct Options {
  std::string command;
  // MODEL; two plans or two files of rules for `diff`; a code for `explain`; a
  // topic for `list`.
  std::vector<std::string> arguments;
  // The flags of the command line, for checks that need the input files.
  std::vector<GivenFlag> given;
  // The path of the configuration that was read, if any.
  std::optional<std::string> config;

  bool gives(std::string_view flag) const {
    return std::ranges::any_of(
        given, [&](const GivenFlag& each) { return each.name == flag; });
  }

  PlanRequest planning;
  MemoryRequest memory;
  EngineRequest engine;
  OutputOptions output;
  std::vector<PlotRequest> plots;  // --plot
  RunOptions run;

  CheckRequest check;
  DiffRequest diff;
  ExplainRequest explain;
  ExportRequest exporting;
  GateRequest gate;
  InspectRequest inspect;
  PlanCommandRequest plan;
  ResolveRequest resolve;
  SimulateRequest simulate;
  SweepRequest sweep;
  WorkloadRequest workload;
  MeasuredStep measured;  // --measured of `analyze`
};

}  // namespace shardplan::cli
