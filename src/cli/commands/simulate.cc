// SPDX-License-Identifier: Apache-2.0
// `shardplan simulate MODEL`: the sharded forward pass on simulated devices,
// and whether it computes what the unsharded one does.
#include <string>
#include <utility>
#include <vector>

#include "base/parallel.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "cli/simulate_findings.h"
#include "cli/simulate_input.h"
#include "cli/simulate_report.h"
#include "cli/simulate_values.h"

namespace shardplan::cli {
namespace {

SimulateOptions simulate_options(Context& context, const SimulateInput& input) {
  const SimulationFlags& flags = context.options.simulation;
  SimulateOptions options;
  options.values = input.source;
  options.storage = flags.storage.value_or(Storage::F32);
  options.reduce = flags.reduce.value_or(options.storage);
  options.seed = flags.seed;
  options.partition = input.how;
  options.threads = thread_count(context.options.jobs);
  options.progress = [&](const char* stage) { context.progress.stage(stage); };
  return options;
}

}  // namespace

Exit run_simulate(Context& context) {
  const std::optional<SimulateInput> input = read_simulation(context);
  if (!input) return Exit::CouldNotRun;
  const auto values = simulation_values(context, *input);
  if (!values) return Exit::CouldNotRun;
  context.progress.stage("partitioning");
  const Program program = partition(input->graph, input->session.plan.mesh,
                                    input->placed.wanted, input->how);
  report_program(*input, program, context.diags);
  const Simulation outcome =
      simulate(program, *values, simulate_options(context, *input));
  report_outcome(*input, program, outcome, context.diags);
  return finish(context, simulate_report(context, *input, program, outcome));
}

}  // namespace shardplan::cli
