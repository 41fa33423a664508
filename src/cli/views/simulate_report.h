// SPDX-License-Identifier: Apache-2.0
// The report of `simulate`: how far a model's values are from exact ones, layer
// by layer, and how that depends on the mesh, the algorithm and the dtypes. It
// has tables, a plot, and a verdict in one line.
//
// Errors are those of sim/simulate.h: relative, over all rows of a value,
// against the unsharded run in double precision.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "cli/commands/simulate/input.h"
#include "core/mesh.h"
#include "graph/graph.h"
#include "report/report.h"
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

// Returns `error_by_layer`: for programs a row per probe; for people at most a
// dozen probes, including the first and the last, unless `expand`. Returns
// empty without probes.
std::vector<Table> error_tables(const Graph& graph, const Simulation& outcome,
                                bool expand);

// Returns `precision`: a row per variant, with the errors at the last probe and
// the error that a layer adds on average. Returns empty if no variant has
// probes.
std::vector<Table> precision_tables(std::span<const Variant> variants);

// Returns "at `h31`: error 0.0041 unsharded; sharded 0.0043 (1.05 times) with
// tp=2 to .."; empty without probes.
std::string precision_line(const Graph& graph,
                           std::span<const Variant> variants);

// Plots the errors of the unsharded run (one curve per storage type) and of
// every variant.
//
// REQUIRES: at least one variant.
Plot error_plot(const Graph& graph, std::span<const Variant> variants);

// Returns the verdict: "ok: sharded and unsharded agree to 12 digits".
std::string verdict_line(const SimulateInput& input, const Simulation& outcome);

// Returns the results of `simulate` as a report, and reports its findings.

// `runs` are the requested run, then those of --vary. `expected` are the
// differences between the outputs and those recorded for --expect. The report
// refers to all arguments: they must outlive it.
Report simulate_report(const Context& context, const SimulateInput& input,
                       const Program& program, std::span<const Variant> runs,
                       std::span<const ExpectedError> expected = {});

// Appends the comparison of recorded and computed outputs: a line for each
// output, and the table `expected`.
//
// REQUIRES: `input` has a recording.
void append_expected(const SimulateInput& input,
                     std::span<const ExpectedError> expected, Report& report);
// Appends where the given inputs come from: a line of the headline, and the
// table `inputs`.
//
// REQUIRES: there are given inputs.
void append_given(const SimulateInput& input, Report& report);

}  // namespace shardplan::cli
