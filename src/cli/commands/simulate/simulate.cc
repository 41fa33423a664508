// SPDX-License-Identifier: Apache-2.0
// `shardplan simulate MODEL`: the sharded forward pass on simulated devices,
// and whether it computes what the unsharded one does.
#include <string>
#include <utility>
#include <vector>

#include "base/text.h"
#include "cli/commands.h"
#include "cli/commands/simulate/input.h"
#include "cli/commands/simulate/values.h"
#include "cli/commands/simulate/variants.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/views/simulate_report.h"
#include "findings/findings.h"
#include "report/svg_plot.h"

namespace shardplan::cli {
namespace {

// Whether there will be errors to compare or to draw.
bool has_errors_to_show(const Context& context, const SimulateInput& input) {
  const SimulateRequest& flags = context.options.simulate;
  if (!flags.plot && flags.vary.empty()) return true;
  const std::string flag = flags.plot ? "--plot" : "--vary";
  if (input.source == ValueSource::Field) {
    context.diags
        .error(Code::Usage, {}, flag + " is about rounding, and field has none")
        .help("leave out `--values field`");
    return false;
  }
  if (!input.graph.probes.empty()) return true;
  context.diags.error(Code::Usage, {}, flag + " needs values to look at")
      .fact(in_backticks(input.graph.name) + " names no probes")
      .help("`probes: [NAME, ..]` in a graph file names them");
  return false;
}

// Attention among one token is 1, whatever queries and keys are.
void doubt_one_token(const SimulateInput& input, Simulation& outcome) {
  if (!input.model || input.model->length != 1 ||
      input.source == ValueSource::Field || input.graph.outputs.empty()) {
    return;
  }
  outcome.unseen.push_back(
      {Unseen::Kind::OneToken, input.graph.outputs.front()});
}

}  // namespace

Exit run_simulate(Context& context) {
  const std::optional<SimulateInput> input = read_simulation(context);
  if (!input || !has_errors_to_show(context, *input)) return Exit::CouldNotRun;
  const auto values = simulation_values(context, *input);
  if (!values) return Exit::CouldNotRun;
  context.progress.stage("partitioning");
  const Program program = partition(input->graph, input->session.plan.mesh,
                                    input->placed.wanted, input->how);
  const ProgramInput to_check = program_input(*input, program);
  lint(to_check, context.diags);
  Simulation outcome =
      simulate(program, *values, simulate_options(context, *input));
  doubt_one_token(*input, outcome);
  lint(run_input(*input, to_check, outcome), context.diags);
  std::vector<ExpectedError> expected;
  if (input->expected) {
    const ExpectedOutputs& recorded = *input->expected;
    auto errors =
        compare_expected(input->graph, outcome.unsharded, outcome.sharded,
                         recorded.manifest, recorded.numbers, context.diags);
    if (!errors) return Exit::CouldNotRun;
    expected = *std::move(errors);
    // Runs in lower precision are not judged.
    if (!context.options.simulate.storage) {
      lint(RecordedInput{input->graph, expected, recorded.path}, context.diags);
    }
  }
  const auto variants = run_variants(context, *input, program, outcome);
  if (!variants) return Exit::CouldNotRun;
  if (const auto& path = context.options.simulate.plot) {
    const std::string picture = svg_text(error_plot(input->graph, *variants));
    const auto write = [&](const TextSink& sink) { return sink(picture); };
    if (!write_file(context, *path, write)) return Exit::CouldNotRun;
  }
  return finish(context,
                simulate_report(context, *input, program, *variants, expected));
}

}  // namespace shardplan::cli
