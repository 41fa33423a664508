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
#include "session/memory_answer.h"
#include "session/serving.h"
#include "session/session.h"

namespace shardplan::cli {

namespace {

constexpr size_t kMaxPoints = 200'000;

struct Sweep {
  std::unique_ptr<const Inputs> inputs;  // `ground` refers to them
  Groundwork ground;
  AskedMemory memory;
  std::vector<Candidate> candidates;           // for every mesh
  std::optional<StepModel> model = {};         // for training steps
  std::optional<ServedModels> served = {};     // for an engine
  std::optional<InferencePasses> passes = {};  // for a cache and a profile
  Objective objective = Objective::Memory;
  std::vector<SweepMesh> meshes = {};
  std::vector<SweepPoint> points = {};
  int64_t left_out = 0;  // meshes that a view does not fit
  std::string why_left_out = {};

  Asked asked() const {
    return {inputs->model,
            &inputs->rules,
            memory,
            model ? &*model : nullptr,
            served ? &served->model : nullptr,
            passes ? &*passes : nullptr};
  }
};

SweptStep swept_step(const JudgedStep& judged, const StepOptions& step) {
  const MemoryBracket& bracket = judged.bracket;
  SweptStep swept{step.microbatches,  remat_text(step.remat), bracket.lower(),
                  bracket.estimate(), bracket.upper(),        {}};
  for (size_t i = kCategories; i < bracket.rows.size(); ++i) {
    const BracketRow& row = bracket.rows[i];
    swept.beside.emplace_back(row.category, row.bytes[1]);
  }
  return swept;
}

SweptTimes swept_times(const Candidate& candidate, const Judgement& judged,
                       const PlanJudge& judge, const Diagnostics& like) {
  SweptTimes swept;
  const auto add = [&](Timed what, const std::optional<StepTime>& time) {
    if (!time) return;
    const Seconds& total = time->total;
    swept.of[static_cast<size_t>(what)] = {total.lower, total.estimate,
                                           total.upper};
    if (what != swept.asked) return;
    swept.tokens_per_second = time->tokens_per_second();
  };
  if (judged.step) {
    swept.asked = Timed::TrainingStep;
    add(Timed::TrainingStep, judged.step->time);
    swept.untimed = judged.step->untimed;
    return swept;
  }
  const auto times = judge.inference(
      candidate, judged.serving ? &*judged.serving : nullptr, like);
  if (!times) return swept;
  swept.asked =
      judge.memory().options.kv->prefill ? Timed::FirstToken : Timed::NextToken;
  add(Timed::FirstToken, times->first_token);
  add(Timed::NextToken, times->next_token);
  swept.untimed = times->untimed;
  return swept;
}

SweptServing swept_serving(const Serving& serving) {
  SweptServing swept;
  swept.starts = serving.starts();
  swept.reasons = serving.problems;
  if (serving.missing_at_start > 0) {
    swept.reasons.push_back(bytes_text(serving.missing_at_start) +
                            " of its share is taken before it starts");
  }
  if (serving.missing_for_steps > 0) {
    swept.reasons.push_back("a step needs " +
                            bytes_text(serving.missing_for_steps) +
                            " more than the share leaves");
  }
  const ServedStage& stage = serving.stage();
  swept.weights = stage.weights.total;
  swept.cache = stage.available.estimate;
  if (!swept.starts) return swept;
  if (!serving.limits_sequences()) return swept;
  if (stage.pools[1]) swept.tokens = stage.pools[1]->tokens;
  for (size_t end = 0; end < swept.sequences.size(); ++end) {
    swept.sequences[end] = serving.sequences(end);
  }
  return swept;
}

// Returns a candidate with its results.
SweepPoint point_of(const Candidate& candidate, const Judgement& judged,
                    PlanJudge& judge, const Diagnostics& like) {
  SweepPoint point;
  if (candidate.workload) {
    point.batch = candidate.workload->batch;
    point.seq = candidate.workload->seq;
  }
  point.limit = candidate.device->limit;
  // --memory replaces only the memory size of a profile.
  const HardwareProfile* const card = candidate.device->card.get();
  point.device = card != nullptr ? card->name
                 : point.limit   ? point.limit->name
                                 : "";
  point.fit = judged.fit;
  point.times = swept_times(candidate, judged, judge, like);
  if (judged.serving) {
    point.serving = swept_serving(*judged.serving);
    const int64_t cache = std::max<int64_t>(point.serving->cache, 0);
    point.bytes[static_cast<size_t>(Category::Parameters)] =
        point.serving->weights;
    point.bytes[static_cast<size_t>(Category::KvCache)] = cache;
    point.total = point.serving->weights + cache;
    return point;
  }
  if (judged.step) {
    const MemoryBracket& bracket = judged.step->bracket;
    point.step = swept_step(*judged.step, *candidate.step);
    for (size_t i = 0; i < kCategories; ++i) {
      point.bytes[i] = bracket.rows[i].bytes[1];
    }
    point.total = bracket.estimate();
    for (const DivisionProblem& refusal : judged.step->refused) {
      point.refused.push_back(refusal.text);
    }
    return point;
  }
  const BudgetClass& fullest = judged.budget->classes.front();
  point.bytes = fullest.bytes;
  point.total = fullest.total;
  if (const auto headroom = judge.headroom(candidate, *judged.budget)) {
    point.workload_headroom = *headroom;
  }
  return point;
}

// Returns every combination of workload, step options and device.
std::vector<Candidate> candidates_of(const Options& options,
                                     const std::vector<Device>& devices) {
  std::vector<Candidate> all(1);
  const auto vary = [&](const auto& values, auto set) {
    if (values.empty()) return;
    std::vector<Candidate> varied;
    for (const Candidate& one : all) {
      for (const auto& value : values) {
        varied.push_back(one);
        set(varied.back(), value);
      }
    }
    all = std::move(varied);
  };
  vary(sweep_workloads(options.sweep),
       [](Candidate& c, const Workload& workload) { c.workload = workload; });
  if (asks_for_step(options.planning, options.memory)) {
    vary(sweep_steps(options.sweep, options.workload.step),
         [](Candidate& c, const StepOptions& step) { c.step = step; });
  }
  vary(devices, [](Candidate& c, const Device& device) { c.device = device; });
  return all;
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

// The result of one mesh.
struct Swept {
  std::vector<Diagnostic> errors = {};  // errors that end the run
  bool stopped = false;                 // the run ends without an answer
  std::optional<SweepMesh> mesh = {};
  std::vector<SweepPoint> points = {};
};

// Checks one mesh. Several threads may call it, each with its own evaluator.
// Findings about the rules and the parameter names are the same on every mesh,
// so they are only reported to `of_all`, if that is not null.
Swept sweep_mesh(const Mesh& mesh, const Sweep& sweep, Evaluator& evaluator,
                 Diagnostics* of_all) {
  const Placing placing = {{}, mesh, {}, {}};
  Evaluator::Placed& on = evaluator.placed(placing);
  Swept swept;
  const auto fail = [&](const Diagnostic& error) {
    swept.errors.push_back(error);
    swept.errors.back().facts.push_back("on mesh " + mesh_text(mesh) +
                                        views_text(mesh));
  };
  // Errors of a plan are counted; only those that prevent an answer end the
  // run.
  for (const Diagnostic& each : on.findings.all()) {
    if (on.judge == nullptr ? each.severity == Severity::Error
                            : prevents_running(each.code)) {
      fail(each);
    }
  }
  swept.stopped = on.judge == nullptr || !swept.errors.empty();
  if (swept.stopped) return swept;
  if (of_all != nullptr &&
      !judge_plan(
          sweep.inputs->model, &sweep.inputs->rules,
          sweep.served ? plan_of_all(*on.plan, sweep.ground.groups) : *on.plan,
          sweep.ground.linting, std::array{Needs::Names}, *of_all)) {
    return swept;
  }
  for (Candidate candidate : sweep.candidates) {
    candidate.placing = placing;
    Diagnostics diags = on.findings.fresh();
    const auto judged = evaluator.judge(candidate, diags);
    for (const Diagnostic& each : diags.all()) {
      if (each.severity == Severity::Error) fail(each);
    }
    swept.stopped = !judged;
    if (swept.stopped) return swept;
    swept.points.push_back(point_of(candidate, *judged, *on.judge, diags));
    swept.points.back().warnings = diags.count(Severity::Warning);
  }
  swept.mesh = SweepMesh{mesh, on.findings.count(Severity::Error),
                         on.findings.count(Severity::Warning),
                         codes_of_errors(on.findings)};
  // The parts that a sweep from shapes omits are the same on every mesh.
  if (of_all != nullptr && sweep.model &&
      sweep.model->from() == BracketSource::Shapes) {
    on.judge->report_shapes(sweep.candidates.front(), *of_all);
  }
  return swept;
}

// Returns false, with the reason reported, if the mesh has no answer.
bool take(Swept swept, Sweep& sweep, Diagnostics& diags) {
  if (swept.mesh) {
    for (SweepPoint& point : swept.points) {
      point.mesh = sweep.meshes.size();
      if (point.times.is_known()) point.objective = sweep.objective;
      sweep.points.push_back(std::move(point));
    }
    sweep.meshes.push_back(*std::move(swept.mesh));
  }
  for (Diagnostic& error : swept.errors) diags.add(std::move(error));
  return !swept.stopped;
}

// Sweeps the meshes in order. The first mesh with an answer reports the
// findings that are the same on all meshes, and the evaluators of the other
// threads start with what its evaluator has cached.
bool sweep_all(Context& context, const std::vector<Mesh>& meshes,
               Sweep& sweep) {
  const auto count = static_cast<int64_t>(meshes.size());
  WorkProgress work(context.progress, "mesh", meshes.size());
  std::mutex mutex;
  std::vector<std::optional<Swept>> swept(meshes.size());
  // Meshes after the first one that ends the run are skipped.
  std::atomic<int64_t> end = count;
  std::atomic<int64_t> next = 0;
  const auto sweep_next = [&](Evaluator& evaluator, Diagnostics* of_all) {
    const int64_t i = next++;
    if (i >= end) return false;
    const Mesh& mesh = meshes[static_cast<size_t>(i)];
    work.begin(mesh_text(mesh) + views_text(mesh));
    Swept one = sweep_mesh(mesh, sweep, evaluator, of_all);
    if (one.stopped) {
      const std::lock_guard lock(mutex);
      end = std::min<int64_t>(end, i + 1);
    }
    swept[static_cast<size_t>(i)] = std::move(one);
    return true;
  };
  count_lines(sweep.inputs->rules.sources);
  count_lines(sweep.inputs->model.manifest.sources);
  size_t begun = 0;
  Diagnostics like;
  apply_severities(context.options, like);
  Evaluator first(sweep.ground, sweep.asked(), like);
  while (sweep_next(first, &context.diags) && !swept[begun]->mesh) ++begun;
  const int threads = thread_count(context.options.planning.jobs);
  const int64_t shares =
      std::max<int64_t>(std::min<int64_t>(threads, count - next), 0);
  parallel_for(shares, threads, [&](int64_t) {
    Evaluator evaluator = first.for_thread();
    while (sweep_next(evaluator, nullptr)) {
    }
  });
  for (size_t i = 0; i < meshes.size() && swept[i]; ++i) {
    if (!take(*std::move(swept[i]), sweep, context.diags)) return false;
  }
  return true;
}

// Reports a sweep of too many configurations before they are created.
bool check_count(const Options& options, size_t meshes, size_t devices,
                 Diagnostics& diags) {
  const size_t workloads =
      std::max<size_t>(1, sweep_workloads(options.sweep).size());
  size_t ways = 1;
  const auto text = [](size_t count, const char* what) {
    return plural(static_cast<int64_t>(count), what) + ", ";
  };
  std::string parts = text(meshes, "mesh") + text(workloads, "workload");
  if (asks_for_step(options.planning, options.memory)) {
    ways = sweep_steps(options.sweep, options.workload.step).size();
    parts += plural(static_cast<int64_t>(ways), "step setting") + ", ";
  }
  if (meshes <= kMaxPoints / (workloads * ways * devices)) return true;
  diags
      .error(Code::Usage, {},
             "the sweep has more than " +
                 count_text(static_cast<int64_t>(kMaxPoints)) +
                 " configurations")
      .fact(parts + plural(static_cast<int64_t>(devices), "device"))
      .help("give shorter lists");
  return false;
}

// Returns whether both hardware and a workload are given, which a time estimate
// requires.
bool asks_for_time(const Options& options) {
  return !options.sweep.hardware.empty() &&
         (options.planning.mode == Mode::Train
              ? asks_for_step(options.planning, options.memory)
              : options.memory.seq.has_value());
}

// Checks the step options with the smallest workload and the most
// micro-batches, which represent all others.
bool check_steps(const Options& options, Diagnostics& diags) {
  if (options.sweep.objective != Objective::Memory && !asks_for_time(options)) {
    diags
        .error(Code::Usage, {},
               "`--objective " +
                   std::string(kObjectiveNames.at(
                       static_cast<size_t>(options.sweep.objective))) +
                   "` needs devices and a workload")
        .help("add `--hardware`, `--batch` and `--seq`");
    return false;
  }
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
  return check_question({options.planning, memory, workload, options.engine},
                        diags);
}

std::optional<Sweep> run(Context& context) {
  const Options& options = context.options;
  auto inputs = read_inputs(options.planning, context.host, context.diags,
                            context.progress);
  if (!inputs) return std::nullopt;
  const auto listed = sweep_meshes(options.sweep, options.planning,
                                   inputs->rules, context.diags);
  if (!listed) return std::nullopt;
  auto viewed = with_views(*listed, options.planning, inputs->rules,
                           inputs->model, context.diags);
  if (!viewed) return std::nullopt;
  const std::vector<Mesh>& meshes = viewed->meshes;
  // All meshes have views of the same names.
  mark_inactive_views(inputs->rules, meshes.front());
  auto kept = std::make_unique<const Inputs>(*std::move(inputs));
  const Model& model = kept->model;
  auto found =
      find_rules(model.manifest, kept->rules, kept->how, context.diags);
  if (!found || !check_steps(options, context.diags)) return std::nullopt;
  auto devices =
      sweep_devices(options.sweep, options.memory, context.host, context.diags);
  if (!devices) return std::nullopt;
  Groundwork ground = groundwork_of_rules(
      model.manifest, kept->rules, *std::move(found), model.folding(),
      model.units(), kept->how,
      lint_options_with(options.planning, options.memory, {}), Places::Kept);
  auto asked = asked_memory(without_limit(options.memory), options.planning,
                            options.workload, model.manifest, &kept->rules,
                            context.host, context.diags);
  if (!asked) return std::nullopt;
  if (!check_count(options, meshes.size(), devices->size(), context.diags)) {
    return std::nullopt;
  }
  Sweep sweep{std::move(kept), std::move(ground), *std::move(asked),
              candidates_of(options, *devices)};
  if (options.engine.name) {
    sweep.served =
        served_models(options.engine, model, context.host, context.diags);
    if (!sweep.served) return std::nullopt;
    sweep.memory.serving = asked_serving(
        options.engine, options.memory, *sweep.served, *devices->front().limit);
    sweep.memory.serving->all_degrees = false;
  }
  if (sweep.memory.workload) {
    sweep.model = step_model(model, sweep.memory.trained, context.diags);
    if (!sweep.model) return std::nullopt;
  }
  if (sweep.memory.options.kv && asks_for_time(options)) {
    sweep.passes = inference_passes(model, context.diags);
  }
  sweep.memory.on_slices = options.planning.slices.value_or(1) > 1;
  for (const SlicedMesh& mesh : *listed) {
    if (!mesh.slices || mesh.slices->count() < 2) continue;
    sweep.memory.on_slices = true;
    sweep.memory.sliced.push_back(mesh);
  }
  sweep.objective = options.sweep.objective;
  if (!sweep_all(context, meshes, sweep)) return std::nullopt;
  sweep.left_out = viewed->left_out;
  sweep.why_left_out = std::move(viewed->why);
  return sweep;
}

std::string trained_text(const Sweep& sweep) {
  const Manifest& manifest = sweep.inputs->model.manifest;
  Budget::Part trained;
  Budget::Part frozen;
  for (size_t i = 0; i < manifest.size(); ++i) {
    const TensorType& type = manifest.type(i);
    const bool is_trained = sweep.memory.trained[i];
    if (is_trained && !is_trainable(type.dtype)) continue;
    Budget::Part& part = is_trained ? trained : frozen;
    ++part.parameters;
    part.elements += type.elements();
    part.bytes += type.bytes();
  }
  return training_note(trained, frozen);
}

// Returns "6 configurations: 2 fit, 3 may fit".
std::string fitting_text(int64_t points, int64_t fitting, int64_t perhaps) {
  if (fitting == points) return ": all fit";
  if (perhaps == points) return ": all may fit";
  if (fitting == 0 && perhaps == 0) return ": none fits";
  std::vector<std::string> parts;
  if (fitting > 0) parts.push_back(count_text(fitting) + " fit");
  if (perhaps > 0) parts.push_back(count_text(perhaps) + " may fit");
  return ": " + joined(parts, ", ");
}

std::string sweep_headline(const Sweep& sweep, int64_t fitting,
                           int64_t perhaps) {
  const auto points = static_cast<int64_t>(sweep.points.size());
  const Manifest& manifest = sweep.inputs->model.manifest;
  std::string line =
      manifest.title + ": " +
      plural(static_cast<int64_t>(manifest.size()), "parameter") + ", " +
      bytes_text(manifest.total_bytes()) + "; " +
      plural(points, "configuration");
  if (sweep.candidates.front().device->limit) {
    line += fitting_text(points, fitting, perhaps);
  }
  const auto refused = std::count_if(
      sweep.points.begin(), sweep.points.end(),
      [](const SweepPoint& point) { return !point.refused.empty(); });
  if (refused > 0) {
    line +=
        "; " + count_text(refused) + " cannot run because sizes do not divide";
  }
  const auto wrong = std::count_if(sweep.points.begin(), sweep.points.end(),
                                   [&](const SweepPoint& point) {
                                     return sweep.meshes[point.mesh].errors > 0;
                                   });
  if (wrong > 0) line += "; " + count_text(wrong) + " with errors";
  return line;
}

// Returns the reasons why points have no time, each once.
std::vector<std::string> untimed_notes(const Sweep& sweep) {
  std::map<std::string, int64_t> reasons;
  for (const SweepPoint& point : sweep.points) {
    if (!point.times.untimed.empty()) ++reasons[point.times.untimed];
  }
  const auto points = static_cast<int64_t>(sweep.points.size());
  std::vector<std::string> notes;
  for (const auto& [why, count] : reasons) {
    notes.push_back(std::string(sweep.model ? "no step time" : "no time") +
                    (count == points
                         ? ": "
                         : " for " + count_text(count) + " of " +
                               plural(points, "configuration") + ": ") +
                    why);
  }
  return notes;
}

// Returns how many bytes a point is over capacity; empty if no memory change
// makes it run.
std::optional<int64_t> bytes_over(const SweepPoint& point) {
  if (!point.refused.empty() || !point.limit) return std::nullopt;
  if (point.fit.headroom) return -*point.fit.headroom;
  return (point.step ? point.step->lower : point.total) - point.limit->usable;
}

// Checks the configuration that comes closest to fitting as `check` does: its
// findings include the changes that would make it fit.
void add_nearest(Context& context, const Sweep& sweep, Report& report) {
  if (sweep.memory.on_slices) return;
  std::optional<size_t> nearest;
  std::optional<int64_t> least;
  for (size_t i = 0; i < sweep.points.size(); ++i) {
    if (sweep.meshes[sweep.points[i].mesh].errors > 0) continue;
    const auto over = bytes_over(sweep.points[i]);
    if (!over || (least && *over >= *least)) continue;
    nearest = i;
    least = over;
  }
  if (!nearest) return;
  const SweepPoint& point = sweep.points[*nearest];
  const Mesh& mesh = sweep.meshes[point.mesh].mesh;
  const size_t kind = *nearest % sweep.candidates.size();
  const Candidate& candidate = sweep.candidates[kind];
  PlanRequest planning = context.options.planning;
  planning.mesh = std::make_shared<SourceFile>("--mesh", mesh_text(mesh));
  planning.views.clear();
  for (const MeshView& view : mesh.views()) {
    planning.views.push_back(std::make_shared<SourceFile>(
        "--view", view.name + ":" + axes_text(view.axes)));
  }
  planning.devices = mesh.devices();
  planning.find_fixes = false;  // this sweep already tried other meshes
  MemoryRequest memory = context.options.memory;
  if (point.batch) memory.batch = point.batch;
  if (point.seq) memory.seq = point.seq;
  // Devices vary fastest.
  const auto& hardware = context.options.sweep.hardware;
  if (!hardware.empty()) memory.hardware = hardware[kind % hardware.size()];
  WorkloadRequest workload = context.options.workload;
  if (candidate.step) workload.step = *candidate.step;
  Diagnostics found = context.diags.fresh();
  const auto session =
      open_session(planning, memory, context.host, found, context.progress);
  if (!session) return;
  const size_t before = found.all().size();
  if (!answer_memory({planning, memory, workload, context.options.engine},
                     *session, Headroom::Leave, context.host, found)) {
    return;
  }
  for (size_t i = before; i < found.all().size(); ++i) {
    const Diagnostic& each = found.all()[i];
    if (each.severity != Severity::Error || each.help.empty()) continue;
    report.notes.push_back("closest to fitting, `" + mesh_text(mesh) +
                           views_text(mesh) + "`: " + each.message);
    for (const std::string& help : each.help) report.notes.push_back(help);
    return;
  }
}

}  // namespace

Exit run_sweep(Context& context) {
  const auto sweep = run(context);
  if (!sweep) return Exit::CouldNotRun;
  const auto fitting =
      std::count_if(sweep->points.begin(), sweep->points.end(),
                    [](const SweepPoint& point) { return point.will_fit(); });
  const auto perhaps =
      std::count_if(sweep->points.begin(), sweep->points.end(),
                    [](const SweepPoint& point) { return point.may_fit(); });
  const bool limited = sweep->candidates.front().device->limit.has_value();
  Report report;
  report.command = "sweep";
  report.diagnostics = &context.diags;
  report.summary = {
      {"total_parameters",
       Count{sweep->inputs->model.manifest.total_elements()}},
      {"total_bytes", ByteSize{sweep->inputs->model.manifest.total_bytes()}},
      {"meshes", Count{static_cast<int64_t>(sweep->meshes.size())}},
      {"points", Count{static_cast<int64_t>(sweep->points.size())}},
      {"left_out", Count{sweep->left_out}},
      {"fitting", limited ? Cell(Count{fitting}) : Cell()},
      {"may_fit", limited ? Cell(Count{perhaps}) : Cell()},
      {"memory_bracket_from",
       sweep->model
           ? Cell(std::string(bracket_source_name(sweep->model->from())))
           : Cell()},
      {"calibrated", Names{context.options.memory.calibrate}},
      {"errors", Count{context.diags.count(Severity::Error)}},
      {"warnings", Count{context.diags.count(Severity::Warning)}}};
  report.headline = {sweep_headline(*sweep, fitting, perhaps)};
  if (std::string common = common_text(sweep->points, sweep->meshes);
      !common.empty()) {
    report.headline.push_back("each on " + std::move(common));
  }
  report.tables = frontier_tables(sweep->points, sweep->meshes);
  const bool expand = context.options.output.expand;
  report.tables.push_back(sorted_points(sweep->points, sweep->meshes, expand));
  report.tables.push_back(points_table(sweep->points, sweep->meshes));
  report.figures = sweep_figures(sweep->points, sweep->meshes);
  if (const auto& files = context.options.memory.calibrate; !files.empty()) {
    report.notes.push_back("calibrated with " + joined(files, ", ", " and "));
  }
  if (sweep->left_out > 0) {
    report.notes.push_back(
        plural(sweep->left_out, "combination") +
        " of mesh and views left out: " + sweep->why_left_out + ".");
  }
  for (std::string& note : untimed_notes(*sweep)) {
    report.notes.push_back(std::move(note));
  }
  if (!sweep->memory.trained.empty())
    report.notes.push_back(trained_text(*sweep));
  if (std::string text = left_out_text(sweep->points, sweep->meshes);
      !text.empty() && !expand) {
    report.notes.push_back(std::move(text));
  }
  if (limited && fitting + perhaps == 0) add_nearest(context, *sweep, report);
  add_topology(context, report);
  const Exit exit = finish(context, std::move(report));
  // Without a limit every point fits unless it is refused.
  const bool any = std::any_of(sweep->points.begin(), sweep->points.end(),
                               [](const SweepPoint& point) {
                                 return point.will_fit() || point.may_fit();
                               });
  return exit == Exit::Fine && !any ? Exit::Findings : exit;
}

}  // namespace shardplan::cli
