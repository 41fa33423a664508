// SPDX-License-Identifier: Apache-2.0
// `shardplan sweep MODEL`: which of many meshes, workloads and devices fit.
#include "cli/commands/sweep/sweep.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/checked.h"
#include "base/parallel.h"
#include "base/text.h"
#include "cli/commands.h"
#include "cli/flags.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/targets.h"
#include "cli/views/budget_tables.h"
#include "cli/views/sweep_tables.h"
#include "cli/views/tables.h"
#include "core/fold.h"
#include "evaluate/evaluate.h"
#include "findings/findings.h"
#include "memory/sweep.h"
#include "session/budget.h"
#include "session/fit.h"
#include "session/serving.h"
#include "session/session.h"
#include "session/step.h"

namespace shardplan::cli {

namespace {

constexpr size_t kSweepRowsForPeople = 40;
constexpr size_t kMaxPoints = 200'000;

struct Sweep {
  std::unique_ptr<const Inputs> inputs;  // the ground refers to them
  Groundwork ground;
  NamesRead names;
  std::vector<Workload> workloads;
  std::vector<StepOptions> steps;  // none: no training step is asked for
  std::vector<SweepDevice> devices;
  std::vector<SweepMesh> meshes;
  std::vector<SweepPoint> points;
  std::optional<StepModel> model;  // with steps, from the first mesh on
  std::optional<ServedModels> served = {};  // with an engine

  // Of every mesh.
  size_t points_of_mesh() const {
    return std::max<size_t>(1, workloads.size()) *
           std::max<size_t>(1, steps.size()) * devices.size();
  }
};

// Findings about a plan on one mesh, which the report counts.
class Findings {
 public:
  explicit Findings(const Options& options) {
    apply_severities(options, diags_);
  }
  Diagnostics& diags() { return diags_; }
  const Diagnostics& diags() const { return diags_; }
  // Moves what prevents an answer to the report of the run.
  bool prevent_running(const Mesh& mesh, Diagnostics& diags) const {
    if (!diags_.cannot_run()) return false;
    for (Diagnostic problem : diags_.all()) {
      if (!prevents_running(problem.code)) continue;
      problem.facts.push_back("on mesh " + mesh_text(mesh));
      diags.add(std::move(problem));
    }
    return true;
  }

 private:
  Diagnostics diags_;
};

bool add_points(const Sweep& sweep, const SweepMesh& mesh, BudgetInput& input,
                std::vector<SweepPoint>& points, Diagnostics& diags) {
  const auto add = [&](const SweepDevice& device) {
    input.options.limit = device.limit;
    input.options.reserve = device.reserve;
    auto point = sweep_point(sweep.inputs->model.manifest, mesh, input.groups,
                             input.options, diags);
    if (!point) return false;
    points.push_back(*std::move(point));
    return true;
  };
  const auto add_all = [&] {
    return std::all_of(sweep.devices.begin(), sweep.devices.end(), add);
  };
  if (!input.options.kv) return add_all();
  for (const Workload& workload : sweep.workloads) {
    input.options.kv->batch = workload.batch;
    input.options.kv->seq = workload.seq;
    if (!add_all()) return false;
  }
  return true;
}

SweptStep swept_step(const MemoryBracket& bracket, const StepOptions& step) {
  SweptStep swept{step.microbatches,  remat_text(step.remat), bracket.lower(),
                  bracket.estimate(), bracket.upper(),        {}};
  for (size_t i = kCategories; i < bracket.rows.size(); ++i) {
    const BracketRow& row = bracket.rows[i];
    swept.beside.emplace_back(row.category, row.bytes[1]);
  }
  return swept;
}

CategoryBytes estimated_bytes(const MemoryBracket& bracket) {
  CategoryBytes bytes{};
  for (size_t i = 0; i < kCategories; ++i) bytes[i] = bracket.rows[i].bytes[1];
  return bytes;
}

// What the model's steps are known by was read with the first mesh.
bool add_steps(const Options& options, const SweepMesh& mesh,
               BudgetInput& input, const Sweep& sweep,
               std::vector<SweepPoint>& points, Diagnostics& diags) {
  const Manifest& manifest = sweep.inputs->model.manifest;
  const StepRequest request = {options.planning, options.memory,
                               options.workload};
  Steps steps(request, *sweep.model, manifest, mesh.plan, &sweep.inputs->rules);
  for (const Workload& workload : sweep.workloads) {
    for (const StepOptions& step : sweep.steps) {
      for (const SweepDevice& device : sweep.devices) {
        const StepOptions sized = sweep.model->sized(step, device.hardware);
        input.options.limit = device.limit;
        input.options.reserve = device.reserve;
        const auto budget = make_budget(manifest, mesh.plan, input.groups,
                                        input.options, diags);
        if (!budget) return false;
        const StepWorkload of = {workload.batch, workload.seq};
        const auto judged =
            steps.judge(of, input.options, *budget, sized, diags);
        if (!judged) return false;
        SweepPoint point =
            sweep_point(manifest, mesh, input.groups, input.options, *budget);
        point.batch = workload.batch;
        point.seq = workload.seq;
        set_step(swept_step(judged->bracket, step),
                 estimated_bytes(judged->bracket), judged->fit, point);
        for (const DivisionProblem& refusal : judged->refused) {
          point.refused.push_back(refusal.text);
        }
        if (!point.refused.empty() && point.fit.usable) point.fit.fits = false;
        points.push_back(std::move(point));
      }
    }
  }
  return true;
}

// What a sweep from shapes leaves out is the same on every mesh: reported once.
void report_source(const Options& options, const SweepMesh& mesh,
                   const Sweep& sweep, Diagnostics& diags) {
  if (sweep.model->from() != BracketSource::Shapes) return;
  const Manifest& manifest = sweep.inputs->model.manifest;
  const StepRequest request = {options.planning, options.memory,
                               options.workload};
  const Steps steps(request, *sweep.model, manifest, mesh.plan,
                    &sweep.inputs->rules);
  const Workload& workload = sweep.workloads.front();
  const StepOptions& step = sweep.steps.front();
  report_by_shapes(manifest,
                   steps.by_shapes({workload.batch, workload.seq},
                                   sweep.model->sized(step, {})),
                   step.segments.attention, diags);
}

SweptServing swept_serving(const Serving& serving) {
  SweptServing swept;
  swept.starts = serving.starts();
  swept.reasons = serving.problems;
  if (serving.missing_at_start > 0) {
    swept.reasons.push_back(bytes_text(serving.missing_at_start) +
                            " of its share are taken before it starts");
  }
  if (serving.missing_for_steps > 0) {
    swept.reasons.push_back("a step takes " +
                            bytes_text(serving.missing_for_steps) +
                            " more than the share leaves");
  }
  const ServedStage& stage = serving.stage();
  swept.weights = stage.weights.total;
  swept.cache = stage.available.estimate;
  if (!swept.starts) return swept;
  if (serving.without_cache) return swept;
  if (stage.pools[1]) swept.tokens = stage.pools[1]->tokens;
  for (size_t end = 0; end < swept.sequences.size(); ++end) {
    swept.sequences[end] = serving.sequences(end);
  }
  return swept;
}

bool add_served(const Options& options, const SweepMesh& mesh,
                const Sweep& sweep, std::vector<SweepPoint>& points,
                Diagnostics& diags) {
  for (const Workload& workload : sweep.workloads) {
    for (const SweepDevice& device : sweep.devices) {
      auto input = serving_input(options.engine, options.memory, *sweep.served,
                                 *device.limit, mesh.plan.mesh, diags);
      if (!input) return false;
      input->seq = workload.seq;
      input->batch = workload.batch;
      input->all_degrees = false;
      const auto serving = serve(sweep.served->model, *input, diags);
      if (!serving) return false;
      SweepPoint point;
      point.batch = workload.batch;
      point.seq = workload.seq;
      point.limit = device.limit;
      point.serving = swept_serving(*serving);
      const int64_t cache = std::max<int64_t>(point.serving->cache, 0);
      point.bytes[static_cast<size_t>(Category::Parameters)] =
          point.serving->weights;
      point.bytes[static_cast<size_t>(Category::KvCache)] = cache;
      point.total = point.serving->weights + cache;
      point.fit = fit_of(*serving);
      points.push_back(std::move(point));
    }
  }
  return true;
}

std::string codes_of_errors(const Diagnostics& diags) {
  std::set<Code> codes;
  for (const Diagnostic& each : diags.all()) {
    if (each.severity == Severity::Error) codes.insert(each.code);
  }
  std::string text;
  for (const Code code : codes) {
    text += (text.empty() ? "" : ", ") + code_id(code);
  }
  return text;
}

// What prevents an answer on one mesh, as errors of the run.
void report_on(const Mesh& mesh, const Diagnostics& found, Diagnostics& diags) {
  for (Diagnostic each : found.all()) {
    if (each.severity != Severity::Error) continue;
    each.facts.push_back("on mesh " + mesh_text(mesh));
    diags.add(std::move(each));
  }
}

// What became of one mesh.
struct Swept {
  Findings findings;
  Diagnostics of_steps = {};  // and of engines: their errors are the run's
  bool stopped = false;       // by what they are about
  std::optional<SweepMesh> mesh = {};  // empty: diagnostics say why
  std::vector<SweepPoint> points = {};

  bool ends_run() const { return stopped || findings.diags().cannot_run(); }
};

// Thousands of meshes are kept, of whose plans nobody asks any more.
SweepMesh kept(SweepMesh mesh) {
  mesh.plan.placement_of = {};
  mesh.plan.placements = {};
  mesh.plan.rules = {};
  return mesh;
}

// Safe to call from several threads, each with an evaluator and `names` of its
// own, once the
// model of a step is read. What is the same on every mesh is reported where
// `of_all` is given, and the model read.
Swept sweep_mesh(const Options& options, const Mesh& mesh, Sweep& sweep,
                 Evaluator& evaluator, NamesRead& names, Host& host,
                 Diagnostics* of_all) {
  Swept swept{Findings(options)};
  Diagnostics& diags = swept.findings.diags();
  auto judged = evaluator.judge({}, mesh, kMeshSides, diags);
  const PlanRequest& planning = options.planning;
  MemoryRequest memory = options.memory;
  memory.hardware.reset();
  memory.limit.reset();
  memory.reserve_fraction = 0;
  if (!judged) return swept;
  Plan& plan = judged->plan;
  if (sweep.served) {
    SweepMesh added{std::move(plan),
                    {},
                    diags.count(Severity::Error),
                    diags.count(Severity::Warning),
                    codes_of_errors(diags)};
    swept.stopped =
        !add_served(options, added, sweep, swept.points, swept.of_steps);
    if (!swept.stopped) swept.mesh = kept(std::move(added));
    return swept;
  }
  plan = plan_of_all(std::move(plan), sweep.ground.groups);
  // What the rules are to the names is the same on every mesh: reported once.
  if (of_all != nullptr &&
      !judge_plan(sweep.inputs->model, &sweep.inputs->rules, plan,
                  sweep.ground.linting, std::array{Needs::Names}, *of_all)) {
    return swept;
  }
  AxisNames token_axes;
  if (!sweep.steps.empty()) {
    token_axes = step_token_axes(memory, &sweep.inputs->rules, mesh);
  }
  std::optional<BudgetInput> input =
      budget_input(memory, planning, sweep.inputs->model.manifest, plan, names,
                   host, diags, token_axes);
  if (!input) return swept;
  SweepMesh added{std::move(plan), input->options.kv_sharding,
                  diags.count(Severity::Error), diags.count(Severity::Warning),
                  codes_of_errors(diags)};
  if (sweep.steps.empty()) {
    if (!add_points(sweep, added, *input, swept.points, diags)) return swept;
  } else {
    if (!sweep.model && of_all != nullptr) {
      sweep.model = step_model(sweep.inputs->model, *input, *of_all);
    }
    swept.stopped = !sweep.model || !add_steps(options, added, *input, sweep,
                                               swept.points, swept.of_steps);
    if (swept.stopped) return swept;
    if (of_all != nullptr) report_source(options, added, sweep, *of_all);
  }
  swept.mesh = kept(std::move(added));
  return swept;
}

// False, with the reason reported, where the mesh has no answer.
bool take(Swept swept, const Mesh& mesh, Sweep& sweep, Diagnostics& diags) {
  if (swept.mesh) {
    for (SweepPoint& point : swept.points) {
      point.mesh = sweep.meshes.size();
      sweep.points.push_back(std::move(point));
    }
    sweep.meshes.push_back(*std::move(swept.mesh));
  }
  report_on(mesh, swept.of_steps, diags);
  return !swept.findings.prevent_running(mesh, diags) && !swept.stopped;
}

// Every mesh, in order; the first that has an answer tells what is the same on
// all, which the others copy.
bool sweep_all(Context& context, const std::vector<Mesh>& meshes,
               Sweep& sweep) {
  const Options& options = context.options;
  const auto count = static_cast<int64_t>(meshes.size());
  SharedHost host(context.host, std::make_shared<std::mutex>());
  Pieces pieces(context.progress, "mesh", meshes.size());
  std::mutex mutex;
  std::vector<std::optional<Swept>> swept(meshes.size());
  // Behind the first mesh without an answer nobody looks.
  std::atomic<int64_t> end = count;
  std::atomic<int64_t> next = 0;
  const auto sweep_next = [&](Evaluator& evaluator, NamesRead& names,
                              Diagnostics* of_all) {
    const int64_t i = next++;
    if (i >= end) return false;
    const Mesh& mesh = meshes[static_cast<size_t>(i)];
    pieces.begin(mesh_text(mesh));
    Swept one =
        sweep_mesh(options, mesh, sweep, evaluator, names, host, of_all);
    if (one.ends_run()) {
      const std::lock_guard lock(mutex);
      end = std::min<int64_t>(end, i + 1);
    }
    swept[static_cast<size_t>(i)] = std::move(one);
    return true;
  };
  count_lines(sweep.inputs->rules.sources);
  count_lines(sweep.inputs->model.manifest.sources);
  int64_t begun = 0;
  Evaluator first(sweep.ground);
  while (sweep_next(first, sweep.names, &context.diags) &&
         !swept[static_cast<size_t>(begun)]->mesh) {
    ++begun;
  }
  const int threads = thread_count(options.planning.jobs);
  const int64_t shares =
      std::max<int64_t>(std::min<int64_t>(threads, count - next), 0);
  parallel_for(shares, threads, [&](int64_t) {
    Evaluator evaluator = first;
    NamesRead names = sweep.names;
    while (sweep_next(evaluator, names, nullptr)) {
    }
  });
  for (size_t i = 0; i < meshes.size() && swept[i]; ++i) {
    if (!take(*std::move(swept[i]), meshes[i], sweep, context.diags)) {
      return false;
    }
  }
  return true;
}

bool check_count(const Sweep& sweep, size_t meshes, Diagnostics& diags) {
  const size_t workloads = std::max<size_t>(1, sweep.workloads.size());
  if (meshes <= kMaxPoints / sweep.points_of_mesh()) return true;
  diags
      .error(Code::Usage, {},
             "the sweep has more than " +
                 count_text(static_cast<int64_t>(kMaxPoints)) + " points")
      .fact(plural(static_cast<int64_t>(meshes), "mesh") + ", " +
            plural(static_cast<int64_t>(workloads), "workload") + ", " +
            (sweep.steps.empty()
                 ? ""
                 : plural(static_cast<int64_t>(sweep.steps.size()), "way") +
                       " to do a step, ") +
            plural(static_cast<int64_t>(sweep.devices.size()), "device"))
      .help("give shorter lists");
  return false;
}

// The workload with the fewest sequences, in the most parts, stands for all.
bool check_steps(const Options& options, Diagnostics& diags) {
  MemoryRequest memory = options.memory;
  WorkloadRequest workload = options.workload;
  const SweepRequest& sweep = options.sweep;
  if (!sweep.batch.empty()) {
    memory.batch = *std::min_element(sweep.batch.begin(), sweep.batch.end());
  }
  if (!sweep.microbatches.empty()) {
    workload.step.microbatches =
        *std::max_element(sweep.microbatches.begin(), sweep.microbatches.end());
  }
  return check_memory_request(memory, options.planning.mode, diags) &&
         check_step_request({options.planning, memory, workload}, diags);
}

std::optional<Sweep> run(Context& context) {
  const Options& options = context.options;
  if (!check_engine_request(options.engine, options.memory,
                            options.planning.mode, context.diags) ||
      !check_steps(options, context.diags)) {
    return std::nullopt;
  }
  auto inputs = read_inputs(options.planning, context.host, context.diags,
                            context.progress);
  if (!inputs) return std::nullopt;
  const auto meshes = sweep_meshes(options.sweep, options.planning,
                                   inputs->rules, context.diags);
  auto devices =
      sweep_devices(options.sweep, options.memory, context.host, context.diags);
  if (!meshes || !devices) return std::nullopt;
  auto kept = std::make_unique<const Inputs>(*std::move(inputs));
  const Model& model = kept->model;
  auto found =
      find_rules(model.manifest, kept->rules, kept->how, context.diags);
  if (!found) return std::nullopt;
  Groundwork ground = groundwork_of_rules(
      model.manifest, kept->rules, *std::move(found), model.folding(),
      model.units(), kept->how,
      lint_options_with(options.planning, options.memory, {}), Places::Kept);
  Sweep sweep{std::move(kept),
              std::move(ground),
              {},
              sweep_workloads(options.sweep),
              {},
              *std::move(devices),
              {},
              {},
              {}};
  if (options.engine.name) {
    sweep.served = served_models(options.engine, sweep.inputs->model,
                                 context.host, context.diags);
    if (!sweep.served) return std::nullopt;
  }
  if (asks_for_step(options.planning, options.memory)) {
    sweep.steps = sweep_steps(options.sweep, options.workload.step);
  }
  if (!check_count(sweep, meshes->size(), context.diags)) return std::nullopt;
  if (!sweep_all(context, *meshes, sweep)) return std::nullopt;
  return sweep;
}

std::string trained_text(const Sweep& sweep) {
  const Manifest& manifest = sweep.inputs->model.manifest;
  Budget::Part trained;
  Budget::Part frozen;
  for (size_t i = 0; i < manifest.size(); ++i) {
    const TensorType& type = manifest.type(i);
    const bool is_trained = (*sweep.names.trained)[i];
    if (is_trained && !is_trainable(type.dtype)) continue;
    Budget::Part& part = is_trained ? trained : frozen;
    ++part.parameters;
    part.elements += type.elements();
    part.bytes += type.bytes();
  }
  return training_note(trained, frozen);
}

// "6 points, 2 of which fit and 3 may"
std::string fitting_text(int64_t points, int64_t fitting, int64_t perhaps) {
  if (fitting == points) return ", all of which fit";
  if (fitting == 0 && perhaps == 0) return ", none of which fits";
  if (perhaps == 0) return ", " + count_text(fitting) + " of which fit";
  if (fitting == 0) {
    return perhaps == points ? ", all of which may fit"
                             : ", " + count_text(perhaps) + " of which may fit";
  }
  return ", " + count_text(fitting) + " of which fit and " +
         count_text(perhaps) + " may";
}

std::string sweep_headline(const Sweep& sweep, int64_t fitting,
                           int64_t perhaps) {
  const auto points = static_cast<int64_t>(sweep.points.size());
  const Manifest& manifest = sweep.inputs->model.manifest;
  std::string line =
      manifest.title + ": " +
      plural(static_cast<int64_t>(manifest.size()), "parameter") + ", " +
      bytes_text(manifest.total_bytes()) + "; " + plural(points, "point");
  if (sweep.devices.front().limit) {
    line += fitting_text(points, fitting, perhaps);
  }
  const auto refused = std::count_if(
      sweep.points.begin(), sweep.points.end(),
      [](const SweepPoint& point) { return !point.refused.empty(); });
  if (refused > 0) {
    line += "; " + count_text(refused) +
            " refused, since something does not "
            "divide";
  }
  const auto wrong = std::count_if(sweep.points.begin(), sweep.points.end(),
                                   [&](const SweepPoint& point) {
                                     return sweep.meshes[point.mesh].errors > 0;
                                   });
  if (wrong > 0) line += "; " + count_text(wrong) + " with errors";
  return line;
}

}  // namespace

Exit run_sweep(Context& context) {
  const auto sweep = run(context);
  if (!sweep) return Exit::CouldNotRun;
  const auto fitting =
      std::count_if(sweep->points.begin(), sweep->points.end(),
                    [](const SweepPoint& point) { return point.fit.surely(); });
  const auto perhaps = std::count_if(
      sweep->points.begin(), sweep->points.end(),
      [](const SweepPoint& point) { return point.fit.perhaps(); });
  const bool limited = sweep->devices.front().limit.has_value();
  Report report;
  report.command = "sweep";
  report.diagnostics = &context.diags;
  report.summary = {
      {"total_parameters",
       Count{sweep->inputs->model.manifest.total_elements()}},
      {"total_bytes", ByteSize{sweep->inputs->model.manifest.total_bytes()}},
      {"meshes", Count{static_cast<int64_t>(sweep->meshes.size())}},
      {"points", Count{static_cast<int64_t>(sweep->points.size())}},
      {"fitting", limited ? Cell(Count{fitting}) : Cell()},
      {"may_fit", limited ? Cell(Count{perhaps}) : Cell()},
      {"memory_bracket_from",
       sweep->model
           ? Cell(std::string(bracket_source_name(sweep->model->from())))
           : Cell()},
      {"errors", Count{context.diags.count(Severity::Error)}},
      {"warnings", Count{context.diags.count(Severity::Warning)}}};
  report.headline = {sweep_headline(*sweep, fitting, perhaps)};
  if (std::string common = common_text(sweep->points, sweep->meshes);
      !common.empty()) {
    report.headline.push_back("each on " + std::move(common));
  }
  report.tables = frontier_tables(sweep->points, sweep->meshes);
  report.tables.push_back(sorted_points(sweep->points, sweep->meshes,
                                        context.options.output.expand
                                            ? sweep->points.size()
                                            : kSweepRowsForPeople));
  report.tables.push_back(points_table(sweep->points, sweep->meshes));
  if (sweep->names.trained) report.notes.push_back(trained_text(*sweep));
  add_topology(context, report);
  const Exit exit = finish(context, std::move(report));
  // Without a limit every point fits, but for those that are refused.
  const bool any = std::any_of(
      sweep->points.begin(), sweep->points.end(), [](const SweepPoint& point) {
        return point.refused.empty() &&
               (point.fit.surely() || point.fit.perhaps());
      });
  return exit == Exit::Fine && !any ? Exit::Findings : exit;
}

}  // namespace shardplan::cli
