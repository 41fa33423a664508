// SPDX-License-Identifier: Apache-2.0
// `shardplan simulate MODEL`: the sharded forward pass on simulated devices,
// and whether it computes what the unsharded one does.
#include <string>
#include <utility>

#include "base/parallel.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "cli/simulate_findings.h"
#include "cli/simulate_input.h"
#include "cli/simulate_report.h"

namespace shardplan::cli {

Exit run_simulate(Context& context) {
  const std::optional<SimulateInput> input = read_simulation(context);
  if (!input) return Exit::CouldNotRun;
  context.progress.stage("partitioning");
  const Program program = partition(input->graph, input->session.plan.mesh,
                                    input->placed.wanted, input->how);
  report_program(*input, program, context.diags);
  SimulateOptions options;
  options.values = input->source;
  options.seed = context.options.simulation.seed;
  options.partition = input->how;
  options.threads = thread_count(context.options.jobs);
  options.progress = [&](const char* stage) { context.progress.stage(stage); };
  const Simulation outcome = simulate(program, input->values, options);
  report_outcome(*input, program, outcome, context.diags);
  return finish(context, simulate_report(context, *input, program, outcome));
}

}  // namespace shardplan::cli
