// SPDX-License-Identifier: Apache-2.0
// How far a model's values are from exact ones, layer by layer, and how that
// changes with the mesh, the algorithm and the types: tables, a plot, and the
// answer in a line.
//
// Errors are those of sim/simulate.h: relative, over all rows of a value,
// against the unsharded run in doubles.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "cli/commands/simulate/input.h"
#include "core/mesh.h"
#include "graph/graph.h"
#include "report/report.h"
#include "report/svg_plot.h"
#include "sim/simulate.h"

namespace shardplan::cli {

// One of several runs of the same graph on the same values.
struct Variant {
  Mesh mesh;
  std::string algorithm;  // "ring"
  Storage storage = Storage::F32;
  Storage reduce = Storage::F32;
  Simulation outcome;
};

// `error_by_layer`: a row per probe for programs; for people at most a dozen of
// them, the first and the last among them, unless `expand`. Empty without
// probes.
std::vector<Table> error_tables(const Graph& graph, const Simulation& outcome,
                                bool expand);

// `precision`: a row per variant, with the errors at the last probe, and what a
// layer adds on average. Empty where no variant has probes.
std::vector<Table> precision_tables(std::span<const Variant> variants);

// "at `h31`: error 0.0041 unsharded; sharded 0.0043 (1.05 times) with tp=2 to
// .."; empty without probes.
std::string precision_line(const Graph& graph,
                           std::span<const Variant> variants);

// The errors of the unsharded run (one for each storage type) and of every
// variant. REQUIRES: at least one variant.
Plot error_plot(const Graph& graph, std::span<const Variant> variants);

// "ok: sharded and unsharded agree to 12 digits"
std::string verdict_line(const SimulateInput& input, const Simulation& outcome);

// What `simulate` found, as a report and as diagnostics.

// `runs`: the one asked for, then those of --vary. `expected`: of --expect, how
// far the outputs are from those that were recorded. Refers to all arguments:
// they must outlive the report.
Report simulate_report(const Context& context, const SimulateInput& input,
                       const Program& program, std::span<const Variant> runs,
                       std::span<const ExpectedError> expected = {});

// What was recorded against what was computed: a line for each output, and the
// table `expected`. REQUIRES: `input` has a recording.
void append_expected(const SimulateInput& input,
                     std::span<const ExpectedError> expected, Report& report);
// Where given inputs are from: a line of the headline, and the table `inputs`.
// REQUIRES: there are some.
void append_given(const SimulateInput& input, Report& report);

}  // namespace shardplan::cli
