// SPDX-License-Identifier: Apache-2.0
#include "cli/commands/simulate/variants.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "base/parallel.h"
#include "base/text.h"
#include "cli/commands/simulate/values.h"
#include "cli/options.h"
#include "findings/findings.h"
#include "spmd/layout.h"

namespace shardplan::cli {
namespace {

constexpr const char* kAlgorithms = "algorithm";

// A run that differs from the requested one.
struct VariantChange {
  Mesh mesh;
  std::string algorithm;
};

const Algorithm& algorithm_of(const PartitionOptions& how) {
  return how.algorithm != nullptr ? *how.algorithm : algorithms().front();
}

bool is_reduction(CollectiveKind kind) {
  return kind == CollectiveKind::AllReduce ||
         kind == CollectiveKind::ReduceScatter;
}

// Returns whether the algorithm supports all reductions of the program. If it
// did not, the first algorithm of the table would be used instead.
bool fits(const Program& program, const Algorithm& algorithm) {
  for (const CollectivePrice& priced :
       price(program, Storage::F32, Storage::F32)) {
    const AxisNames& axes = program.instructions[priced.instruction].axes;
    if (is_reduction(priced.kind) &&
        !algorithm.supports(priced.kind, ranks_along(program.mesh, axes))) {
      return false;
    }
  }
  return true;
}

// Returns the mesh without its views, whose sizes do not match another number
// of devices.
Mesh resized(const Mesh& mesh, size_t axis, int64_t size) {
  std::vector<Axis> axes = mesh.axes();
  axes[axis].size = size;
  return Mesh(std::move(axes));
}

std::optional<std::vector<VariantChange>> changes_of(Context& context,
                                                     const SimulateInput& input,
                                                     const Program& program) {
  const Mesh& mesh = input.session.plan.mesh;
  const std::string own(algorithm_of(input.how).name);
  std::vector<VariantChange> changes;
  for (const std::string& wish : context.options.simulate.vary) {
    const auto axis =
        std::ranges::find(mesh.axes(), AxisName(wish), &Axis::name);
    if (axis != mesh.axes().end()) {
      if (!mesh.views().empty()) {
        context.diags
            .error(Code::Usage, {},
                   "`--vary " + wish + "` cannot change a mesh with views")
            .fact("view `" + mesh.views().front().name + "` is " +
                  axes_text(mesh.views().front().axes))
            .help("run `simulate` with another `--mesh` and `--view`");
        return std::nullopt;
      }
      const auto number = static_cast<size_t>(axis - mesh.axes().begin());
      for (int64_t size = axis->size - 1; size >= 1; --size) {
        if (axis->size % size != 0) continue;
        changes.push_back({resized(mesh, number, size), own});
      }
      continue;
    }
    if (wish != kAlgorithms) {
      std::vector<std::string> known = {kAlgorithms};
      for (const Axis& each : mesh.axes()) known.push_back(each.name);
      auto problem = context.diags.error(
          Code::Usage, {},
          "--vary takes a mesh axis or `algorithm`, not " + in_backticks(wish));
      if (const auto near = nearest(wish, known)) {
        problem.help("did you mean `" + *near + "`?");
      } else {
        problem.fact("the mesh is " + mesh_text(mesh));
      }
      return std::nullopt;
    }
    for (const Algorithm& each : algorithms()) {
      if (each.name != own && fits(program, each)) {
        changes.push_back({mesh, std::string(each.name)});
      }
    }
  }
  return changes;
}

std::optional<Variant> run_changed(Context& context, const SimulateInput& base,
                                   const Simulation& base_outcome,
                                   const VariantChange& change) {
  Options options = context.options;
  options.planning.mesh =
      std::make_shared<SourceFile>("--mesh", mesh_text(change.mesh));
  options.planning.devices.reset();
  options.planning.slices.reset();
  options.simulate.algorithm = change.algorithm;
  options.simulate.shrink_mesh = base.session.plan.mesh;
  if (base.model) {
    options.simulate.shrink = base.model->shrunk;
    options.simulate.full = !base.model->shrunk;
    options.simulate.batch = base.model->batch;
    options.simulate.length = base.model->length;
  }
  // Findings of variants are dropped; the report is about the requested plan.
  Diagnostics diags = context.diags.fresh();
  Context changed{options, context.host, diags, context.progress};
  const auto input = read_simulation(changed);
  const auto values = input ? simulation_values(changed, *input) : std::nullopt;
  const std::string where =
      mesh_text(change.mesh) + ", algorithm " + change.algorithm;
  if (!values) {
    auto problem =
        context.diags.error(Code::Usage, {}, "--vary could not run " + where);
    for (const Diagnostic& each : diags.all()) {
      if (each.severity == Severity::Error) problem.fact(each.message);
    }
    return std::nullopt;
  }
  const Program program = partition(input->graph, input->placed.mesh,
                                    input->placed.wanted, input->how);
  const SimulateOptions how = simulate_options(changed, *input);
  Variant variant{change.mesh, change.algorithm, how.storage, how.reduce,
                  simulate(program, *values, how)};
  const ProgramInput of = program_input(*input, program);
  RunInput to_check = run_input(*input, of, variant.outcome);
  to_check.variant = where;
  to_check.asked_for = &base_outcome;
  lint(to_check, context.diags);
  return variant;
}

}  // namespace

SimulateOptions simulate_options(Context& context, const SimulateInput& input) {
  const SimulateRequest& flags = context.options.simulate;
  SimulateOptions options;
  options.values = input.source;
  options.storage = input.storage;
  options.reduce = input.reduce;
  options.seed = flags.seed;
  options.partition = input.how;
  options.threads = thread_count(context.options.planning.jobs);
  options.progress = [&](const char* stage) { context.progress.stage(stage); };
  options.step = [&](const char* work, const char* text, double done) {
    context.progress.step(work, text, done);
  };
  return options;
}

std::optional<std::vector<Variant>> run_variants(Context& context,
                                                 const SimulateInput& input,
                                                 const Program& program,
                                                 const Simulation& outcome) {
  const SimulateOptions how = simulate_options(context, input);
  std::vector<Variant> variants;
  variants.push_back({program.mesh, std::string(algorithm_of(input.how).name),
                      how.storage, how.reduce, outcome});
  const auto changes = changes_of(context, input, program);
  if (!changes) return std::nullopt;
  for (const VariantChange& change : *changes) {
    auto variant = run_changed(context, input, outcome, change);
    if (!variant) return std::nullopt;
    variants.push_back(*std::move(variant));
  }
  return variants;
}

}  // namespace shardplan::cli
