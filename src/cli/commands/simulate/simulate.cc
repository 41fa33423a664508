// SPDX-License-Identifier: Apache-2.0
// `shardplan simulate MODEL`: runs the sharded forward pass on simulated
// devices, and reports whether it computes the same as the unsharded pass.

#include <algorithm>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/text.h"
#include "base/words.h"
#include "cli/commands.h"
#include "cli/commands/simulate/checked_run.h"
#include "cli/commands/simulate/cost.h"
#include "cli/commands/simulate/input.h"
#include "cli/commands/simulate/model.h"
#include "cli/commands/simulate/request.h"
#include "cli/commands/simulate/values.h"
#include "cli/commands/simulate/variants.h"
#include "cli/flag_values.h"
#include "cli/flags.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/views/figures/plan_figures.h"
#include "cli/views/simulate_report.h"
#include "findings/findings.h"

namespace shardplan::cli {
namespace {

// Returns whether there will be errors to compare or to plot.
bool has_errors_to_show(const Context& context, const SimulateInput& input) {
  const bool plot = !context.options.plots.empty();
  const auto& vary = context.options.simulate.vary;
  if (!plot && vary.empty()) return true;
  const std::string flag = plot ? "--plot" : "--vary";
  if (input.source == ValueSource::Field) {
    context.diags
        .error(Code::Usage, {},
               flag + " shows rounding errors, but `--values field` has none")
        .help("leave out `--values field`");
    return false;
  }
  if (!input.graph.probes.empty()) return true;
  context.diags.error(Code::Usage, {}, flag + " needs probes")
      .fact(in_backticks(input.graph.name) + " names no probes")
      .help("add `probes: [NAME, ..]` to the graph file");
  return false;
}

// Attention over one token is 1 whatever the queries and keys are, so such a
// run cannot expose an error in them.
void doubt_one_token(const SimulateInput& input, Simulation& outcome) {
  if (!input.model || input.model->length != 1 ||
      input.source == ValueSource::Field || input.graph.outputs.empty()) {
    return;
  }
  outcome.unseen.push_back(
      {Unseen::Kind::OneToken, input.graph.outputs.front()});
}

// Hooks run only the collectives that their plan names, so a program with a
// compiler's collectives proves nothing about them.
void judge_hooks(const SimulateInput& input, Simulation& outcome) {
  outcome.hooked = input.placed.hooked;
  if (outcome.hooked && !outcome.hooked->unknown.empty()) {
    outcome.unseen.push_back({Unseen::Kind::NotAsHooks, ValueId(0)});
  }
}

// Returns whether the run can be done as --as requests.
bool can_run_as(const Context& context, const SimulateInput& input) {
  if (context.options.simulate.run_as != RunAs::Hooks) return true;
  const auto& walk = input.placed.hooked;
  if (walk) {
    if (walk->unknown.empty()) return true;
    context.diags
        .error(Code::Usage, {},
               "`--as hooks` cannot run this plan: " + walk->unknown)
        .help("`--as compiler` partitions the model as a compiler would");
  } else {
    context.diags
        .error(Code::Usage, {},
               "`--as hooks` needs a plan of hooks, such as a `tp_plan`")
        .fact("a compiler inserts the collectives that these rules need")
        .help("leave out `--as`");
  }
  return false;
}

// Runs the program and reports its findings.
Simulation judged_run(Context& context, const SimulateInput& input,
                      const ReadValue& values, const Program& program) {
  const ProgramInput to_check = program_input(input, program);
  lint(to_check, context.diags);
  Simulation outcome =
      simulate(program, values, simulate_options(context, input));
  doubt_one_token(input, outcome);
  judge_hooks(input, outcome);
  lint(run_input(input, to_check, outcome), context.diags);
  return outcome;
}

constexpr int64_t kMaxLayers = 100'000;
// Numbers of sequences and of tokens per sequence, far more than can be run.
constexpr int64_t kMaxTokens = int64_t{1} << 30U;

std::vector<std::string> overlap_names() {
  return {"off", "ring", "bidirectional", "split"};
}
std::vector<std::string> value_names() {
  return {"random", "init", "field", "checkpoint"};
}
std::vector<std::string> run_as_names() { return {"compiler", "hooks"}; }
std::vector<std::string> storage_names() { return {"f32", "bf16", "f16"}; }

// Reads `batch=2,length=16`.
void set_dims(const Setting& setting, Options& options, Diagnostics& diags) {
  for (const std::string& entry : split_list(setting.value)) {
    const size_t equals = entry.find('=');
    const std::string name = entry.substr(0, equals);
    if (equals == std::string::npos || !is_dim_name(name)) {
      diags
          .error(Code::Usage, setting.where,
                 title_of(setting) + " takes sizes by name, not " +
                     in_backticks(entry))
          .help("for example `--dims batch=2,length=16`");
      continue;
    }
    Setting size = setting;
    size.value = entry.substr(equals + 1);
    if (const auto number = integer_of(size, 0, kMaxDimSize, diags)) {
      options.simulate.dims[name] = *number;
    }
  }
}

void set_overlap(const Setting& setting, Options& options, Diagnostics&) {
  const std::vector<std::string> names = overlap_names();
  for (size_t i = 0; i < names.size(); ++i) {
    if (names[i] == setting.value) {
      options.simulate.overlap = static_cast<Overlap>(i);
    }
  }
}

// Reads `2x16`.
void set_tokens(const Setting& setting, Options& options, Diagnostics& diags) {
  const std::vector<std::string> sizes = split_list(setting.value, 'x');
  if (sizes.size() != 2) {
    diags
        .error(Code::Usage, setting.where,
               title_of(setting) + " takes sequences x tokens, not " +
                   in_backticks(setting.value))
        .help("for example `--tokens 2x16`");
    return;
  }
  Setting size = setting;
  size.value = sizes[0];
  options.simulate.batch = integer_of(size, 1, kMaxTokens, diags);
  size.value = sizes[1];
  options.simulate.length = integer_of(size, 1, kMaxTokens, diags);
}

// Reads `x=inputs.safetensors`.
void set_input(const Setting& setting, Options& options, Diagnostics& diags) {
  const size_t equals = setting.value.find('=');
  if (equals == std::string::npos || equals == 0 ||
      equals + 1 == setting.value.size()) {
    diags
        .error(Code::Usage, setting.where,
               title_of(setting) + " takes an input and a file, not " +
                   in_backticks(setting.value))
        .help("for example `--input x=inputs.safetensors`");
    return;
  }
  options.simulate.inputs.push_back(
      {setting.value.substr(0, equals),
       join_path(setting.directory, setting.value.substr(equals + 1))});
}

std::vector<Flag> what_is_run() {
  return {
      {"graph", Takes::File, "FILE|@NAME", "Simulation",
       "the forward pass; without it the model must be a graph file or of a "
       "known family",
       "simulate",
       [](auto& s, auto& o, auto&) { o.simulate.graph = path_of(s); }},
      {"dims", Takes::Text, "NAME=N,..", "Simulation",
       "sizes to use instead of the graph file's own", "simulate", set_dims},
      {"layers", Takes::Text, "N", "Simulation",
       "whole model: run only the first N layers", "simulate",
       [](auto& s, auto& o, auto& d) {
         o.simulate.layers = integer_of(s, 1, kMaxLayers, d);
       }},
      {"tokens", Takes::Text, "BxS", "Simulation",
       "whole model: B sequences of S tokens (default 2x16)", "simulate",
       set_tokens},
      {"input", Takes::Text, "NAME=FILE", "Simulation",
       "read an input from a safetensors file: the tensor of its name, or the "
       "only one; may repeat",
       "simulate", set_input, true},
      {"input-ids", Takes::Text, "IDS|FILE", "Simulation",
       "tokens of a whole model, or of a graph's only integer input: "
       "`1,2,3;4,5,6` or a JSON list of lists (default random)",
       "simulate",
       [](auto& s, auto& o, auto&) {
         o.simulate.input_ids = is_written_out(s.value) ? s.value : path_of(s);
       }},
      {"shrink", Takes::Nothing, "", "Simulation",
       "whole model: use smaller sizes that divide like the real ones",
       "simulate", [](auto&, auto& o, auto&) { o.simulate.shrink = true; }},
      {"full", Takes::Nothing, "", "Simulation",
       "run a whole model at its real sizes, however slow; large models "
       "without weights default to --shrink",
       "simulate", [](auto&, auto& o, auto&) { o.simulate.full = true; }},
      {"capacity", Takes::Text, "N", "Simulation",
       "expert capacity in tokens of a sequence (default: all)", "simulate",
       [](auto& s, auto& o, auto& d) {
         o.simulate.capacity = integer_of(s, 1, kMaxTokens, d);
       }},
  };
}

std::vector<Flag> what_numbers() {
  return {
      {"values", Takes::Choice, "WHAT", "Simulation",
       "values to compute with: checkpoint (default with weights), random "
       "(default without), init (as JAX does), or field (exact integers)",
       "simulate",
       [](auto& s, auto& o, auto&) {
         o.simulate.values = find_value_source(s.value);
       },
       false, true, value_names},
      {"seed", Takes::Text, "N", "Simulation", "random seed (default 0)",
       "simulate",
       [](auto& s, auto& o, auto& d) {
         o.simulate.seed = integer_of(s, std::numeric_limits<int32_t>::min(),
                                      std::numeric_limits<int32_t>::max(), d)
                               .value_or(0);
       }},
      {"dtype", Takes::Choice, "DTYPE", "Simulation",
       "round weights and every result to f32 (default), bf16 or f16",
       "simulate",
       [](auto& s, auto& o, auto&) {
         o.simulate.storage = find_storage(s.value);
       },
       false, true, storage_names},
      {"reduce-dtype", Takes::Choice, "DTYPE", "Simulation",
       "dtype for the partial sums of collectives (default: --dtype)",
       "simulate",
       [](auto& s, auto& o, auto&) {
         o.simulate.reduce = find_storage(s.value);
       },
       false, true, storage_names},
  };
}

std::vector<Flag> how_and_what_for() {
  return {
      {"as", Takes::Choice, "WHO", "Simulation",
       "what runs the model: a compiler, which inserts the collectives that "
       "specs need, or a plan's hooks (default: by the rules)",
       "simulate",
       [](auto& s, auto& o, auto&) {
         o.simulate.run_as =
             s.value == "hooks" ? RunAs::Hooks : RunAs::Compiler;
       },
       false, true, run_as_names},
      {"overlap", Takes::Choice, "FORM", "Simulation",
       "interleave matrix products with their collectives (default off)",
       "simulate", set_overlap, false, true, overlap_names},
      {"expect", Takes::File, "FILE", "Simulation",
       "compare the outputs with those in a safetensors file, using any inputs "
       "it contains (input_ids)",
       "simulate",
       [](auto& s, auto& o, auto&) { o.simulate.expect = path_of(s); }},
      {"vary", Takes::Text, "AXIS|algorithm", "Simulation",
       "run again with smaller sizes of a mesh axis, or with every algorithm, "
       "and compare precision; may repeat",
       "simulate",
       [](auto& s, auto& o, auto&) { o.simulate.vary.push_back(s.value); },
       true},
  };
}

}  // namespace

std::optional<CheckedRun> checked_run(Context& context) {
  const std::optional<SimulateInput> input = read_simulation(context);
  if (!input) return std::nullopt;
  const auto values = simulation_values(context, *input);
  if (!values) return std::nullopt;
  const Program program = partition(input->graph, input->placed.mesh,
                                    input->placed.wanted, input->how);
  const Simulation outcome = judged_run(context, *input, *values, program);
  return CheckedRun{verdict_of(outcome), verdict_line(*input, outcome)};
}

Exit run_simulate(Context& context) {
  const std::optional<SimulateInput> input = read_simulation(context);
  if (!input || !can_run_as(context, *input) ||
      !has_errors_to_show(context, *input)) {
    return Exit::CouldNotRun;
  }
  const auto values = simulation_values(context, *input);
  if (!values) return Exit::CouldNotRun;
  context.progress.stage("partitioning");
  const Program program = partition(input->graph, input->placed.mesh,
                                    input->placed.wanted, input->how);
  announce_cost(context, *input, program);
  const Simulation outcome = judged_run(context, *input, *values, program);
  std::vector<ExpectedError> expected;
  if (input->expected) {
    const ExpectedOutputs& recorded = *input->expected;
    auto errors =
        compare_expected(input->graph,
                         {outcome.exact_unsharded, outcome.exact_sharded,
                          outcome.unsharded, outcome.sharded},
                         recorded.manifest, recorded.numbers, context.diags);
    if (!errors) return Exit::CouldNotRun;
    expected = *std::move(errors);
    // The recorded outputs do not determine the result in lower precision.
    if (!context.options.simulate.storage) {
      lint(RecordedInput{input->graph, expected, recorded.path}, context.diags);
    }
  }
  const auto variants = run_variants(context, *input, program, outcome);
  if (!variants) return Exit::CouldNotRun;
  Report report =
      simulate_report(context, *input, program, *variants, expected);
  if (!input->graph.probes.empty() && input->source != ValueSource::Field) {
    report.figures.push_back({"errors", "Error by layer", [&] {
                                return error_plot(input->graph, *variants);
                              }});
  }
  report.figures.push_back(mesh_figure(variants->front().mesh));
  return finish(context, std::move(report));
}

std::vector<Flag> simulate_flags() {
  std::vector<Flag> all = what_is_run();
  for (const auto& more : {what_numbers(), how_and_what_for()}) {
    all.insert(all.end(), more.begin(), more.end());
  }
  return all;
}

void validate_simulate(std::span<const Setting> /*given*/,
                       const Options& options, Diagnostics& diags) {
  if (options.simulate.full && options.simulate.shrink) {
    diags
        .error(Code::Usage, {},
               "`--full` and `--shrink` are mutually exclusive")
        .help("`--full` runs the real sizes, `--shrink` smaller ones");
  }
}

}  // namespace shardplan::cli
