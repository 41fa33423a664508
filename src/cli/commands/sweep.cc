// SPDX-License-Identifier: Apache-2.0
#include "cli/commands/sweep.h"

#include <algorithm>
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
#include "cli/flag_values.h"
#include "cli/flags.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/targets.h"
#include "cli/views/budget_tables.h"
#include "cli/views/sweep_tables.h"
#include "cli/views/tables.h"
#include "core/fold.h"
#include "findings/findings.h"
#include "memory/sweep.h"
#include "resolve/device_memory.h"
#include "resolve/match.h"
#include "resolve/resolve.h"
#include "session/budget.h"
#include "session/session.h"

namespace shardplan::cli {
namespace {

// More take too long to read, let alone to compute.
constexpr size_t kMaxMeshes = 10'000;

void add_once(Mesh mesh, std::vector<Mesh>& meshes) {
  if (std::find(meshes.begin(), meshes.end(), mesh) == meshes.end()) {
    meshes.push_back(std::move(mesh));
  }
}

// `tp=1,2,4` as tp=1, tp=2 and tp=4: a size alone is another one of the axis
// before it. In the order written, the last list fastest.
std::vector<std::string> listed_meshes(const std::string& text) {
  std::vector<std::vector<std::string>> axes;  // spellings of each
  for (const std::string& part : split_list(text)) {
    const bool is_size =
        !part.empty() && part.find_first_not_of("0123456789") == part.npos;
    const size_t sign = axes.empty() ? std::string::npos
                                     : axes.back().front().find_first_of("=:");
    if (is_size && sign != std::string::npos) {
      axes.back().push_back(axes.back().front().substr(0, sign + 1) + part);
    } else {
      axes.push_back({part});
    }
  }
  std::vector<std::string> meshes = {""};
  for (const std::vector<std::string>& spellings : axes) {
    std::vector<std::string> more;
    for (const std::string& mesh : meshes) {
      for (const std::string& axis : spellings) {
        if (more.size() == kMaxMeshes + 1) break;
        more.push_back(mesh + (mesh.empty() ? "" : ",") + axis);
      }
    }
    meshes = std::move(more);
  }
  return meshes;
}

// The meshes of one text, for every number of devices that was given.
bool add_written(const SweepRequest& sweep, const PlanRequest& planning,
                 const std::string& text, std::vector<Mesh>& meshes,
                 Diagnostics& diags) {
  const auto source = std::make_shared<SourceFile>(planning.mesh->name(), text);
  std::vector<std::optional<int64_t>> counts(sweep.devices.begin(),
                                             sweep.devices.end());
  if (counts.empty()) counts.emplace_back();
  for (const std::optional<int64_t>& count : counts) {
    auto mesh = written_mesh(source, planning, count, diags);
    if (!mesh) return false;
    add_once(std::move(mesh->mesh), meshes);
  }
  return true;
}

bool add_over(const SweepRequest& sweep, std::vector<Mesh>& meshes,
              Diagnostics& diags) {
  if (sweep.devices.empty()) {
    diags.error(Code::Usage, {}, "`--over` needs numbers of devices to cut")
        .help("add `--devices`, e.g. `--devices 8,16,64`, or `--topology`");
    return false;
  }
  for (const int64_t devices : sweep.devices) {
    auto made = factorizations(devices, sweep.over, kMaxMeshes);
    if (!made || meshes.size() + made->size() > kMaxMeshes) {
      diags
          .error(Code::Usage, {},
                 "`--over` makes more than " +
                     count_text(static_cast<int64_t>(kMaxMeshes)) + " meshes")
          .help("name fewer axes, or fewer numbers of devices");
      return false;
    }
    for (Mesh& mesh : *made) add_once(std::move(mesh), meshes);
  }
  return true;
}

bool check_over(const AxisNames& over, Diagnostics& diags) {
  for (size_t i = 0; i < over.size(); ++i) {
    if (std::find(over.begin(), over.begin() + static_cast<std::ptrdiff_t>(i),
                  over[i]) == over.begin() + static_cast<std::ptrdiff_t>(i)) {
      continue;
    }
    diags.error(Code::Usage, {}, "`--over` names axis `" + over[i] + "` twice")
        .help("name each axis once");
    return false;
  }
  return true;
}

}  // namespace

std::optional<std::vector<Mesh>> sweep_meshes(const SweepRequest& sweep,
                                              const PlanRequest& planning,
                                              const RuleSet& rules,
                                              Diagnostics& diags) {
  std::vector<Mesh> meshes;
  if (!sweep.over.empty()) {
    if (planning.mesh != nullptr) {
      return diags
          .error(Code::Usage, {}, "both `--mesh` and `--over` are given")
          .help("name the meshes, or the axes to make them of");
    }
    // What devices hold does not depend on the slices that a topology names.
    if (planning.slices && !planning.topology) {
      return diags
          .error(Code::Usage, {}, "both `--slices` and `--over` are given")
          .help(
              "leave `--slices` out: what devices hold does not depend on "
              "slices");
    }
    if (!check_over(sweep.over, diags) || !add_over(sweep, meshes, diags)) {
      return std::nullopt;
    }
    return meshes;
  }
  if (planning.mesh != nullptr) {
    for (const std::string& text : split_list(planning.mesh->text(), ';')) {
      for (const std::string& mesh : listed_meshes(text)) {
        if (!add_written(sweep, planning, mesh, meshes, diags)) {
          return std::nullopt;
        }
        if (meshes.size() <= kMaxMeshes) continue;
        return diags.error(Code::Usage, {},
                           "`--mesh` makes more than " +
                               count_text(static_cast<int64_t>(kMaxMeshes)) +
                               " meshes");
      }
    }
    return meshes;
  }
  if (!rules.mesh) {
    return diags.error(Code::InvalidMesh, {}, "no mesh was given")
        .help(
            "add `--mesh \"fsdp=8,tp=4;fsdp=16,tp=2\"`, or `--devices 8,16 "
            "--over fsdp,tp`");
  }
  auto mesh = mesh_of_rules(rules, planning, diags);
  if (!mesh) return std::nullopt;
  meshes.push_back(std::move(mesh->mesh));
  return meshes;
}

std::vector<Workload> sweep_workloads(const SweepRequest& sweep) {
  std::vector<Workload> workloads;
  std::vector<int64_t> batches = sweep.batch;
  if (batches.empty()) batches.push_back(1);
  for (const int64_t batch : batches) {
    for (const int64_t seq : sweep.seq) workloads.push_back({batch, seq});
  }
  return workloads;
}

std::optional<std::vector<SweepDevice>> sweep_devices(
    const SweepRequest& sweep, const MemoryRequest& memory, Host& host,
    Diagnostics& diags) {
  std::vector<SweepDevice> devices;
  std::vector<std::optional<std::string>> names(sweep.hardware.begin(),
                                                sweep.hardware.end());
  if (names.empty()) names.emplace_back();
  for (const std::optional<std::string>& name : names) {
    MemoryRequest own = memory;
    own.hardware = name;
    SweepDevice device;
    device.limit = device_limit(own, host, diags);
    if (diags.cannot_run()) return std::nullopt;
    const auto reserve = reserve_bytes(own, device.limit, diags);
    if (!reserve) return std::nullopt;
    device.reserve = *reserve;
    devices.push_back(std::move(device));
  }
  return devices;
}

// `shardplan sweep MODEL`: which of many meshes, workloads and devices fit.

namespace {

constexpr size_t kSweepRowsForPeople = 40;
constexpr size_t kMaxPoints = 200'000;

// The model once for parameters that no mesh tells apart: of one type, decided
// alike, and named alike but for numbers. Resolving and telling findings then
// costs as much as there are kinds of parameters, for every mesh.
struct Kinds {
  Manifest firsts;
  Matches matches;  // of the firsts
  Folding folding;  // of all parameters
  UnitFacts known;
  std::vector<int64_t> counts;  // of parameters
};

struct Sweep {
  Inputs inputs;
  Kinds kinds;
  NamesRead names;
  std::vector<Workload> workloads;
  std::vector<SweepDevice> devices;
  std::vector<SweepMesh> meshes;
  std::vector<SweepPoint> points;
};

// Findings about a plan on one mesh, which the report counts.
class Findings {
 public:
  explicit Findings(const Options& options) {
    apply_severities(options, diags_);
  }
  Diagnostics& diags() { return diags_; }
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

Kinds sweep_kinds_of(const Manifest& manifest, const Matches& matches) {
  std::map<std::tuple<uint32_t, int32_t, AxisLabels>, uint32_t> numbers;
  std::vector<uint32_t> kinds;
  for (size_t i = 0; i < manifest.size(); ++i) {
    const AxisLabels* labels = manifest.axes(i);
    kinds.push_back(
        numbers
            .try_emplace({manifest.type_number(i), matches.winner[i],
                          labels ? *labels : AxisLabels()},
                         static_cast<uint32_t>(numbers.size()))
            .first->second);
  }
  Kinds result;
  result.folding = fold(kinds, [&](size_t i) { return manifest.name(i); });
  result.known = unit_facts(manifest);
  result.firsts.facts = manifest.facts;
  result.matches.rules = matches.rules;
  for (const ParameterClass& c : result.folding.classes) {
    SHARDPLAN_CHECK(result.firsts.add(manifest.name(c.first),
                                      manifest.type(c.first),
                                      manifest.where(c.first)));
    if (const AxisLabels* labels = manifest.axes(c.first)) {
      result.firsts.set_axes(result.firsts.size() - 1, *labels);
    }
    result.matches.winner.push_back(matches.winner[c.first]);
    result.counts.push_back(c.count);
  }
  return result;
}

// The plan of all parameters, from that of their kinds.
Plan unfolded(Plan plan, const Kinds& kinds) {
  std::vector<uint32_t> placement_of;
  placement_of.reserve(kinds.folding.class_of.size());
  for (const uint32_t kind : kinds.folding.class_of) {
    placement_of.push_back(plan.placement_of[kind]);
  }
  plan.placement_of = std::move(placement_of);
  return plan;
}

// The folding of the kinds by placement; classes count parameters.
Folding folded_by_placement(const Kinds& kinds, const Plan& plan) {
  Folding folding;
  folding.folded_names = kinds.folding.folded_names;
  std::map<std::pair<uint32_t, uint32_t>, uint32_t> numbers;
  for (size_t i = 0; i < kinds.counts.size(); ++i) {
    const uint32_t folded = kinds.folding.classes[i].folded;
    const auto [entry, is_new] =
        numbers.try_emplace({folded, plan.placement_of[i]},
                            static_cast<uint32_t>(folding.classes.size()));
    if (is_new) {
      folding.classes.push_back({folded, plan.placement_of[i], i, 0});
    }
    folding.classes[entry->second].count += kinds.counts[i];
    folding.class_of.push_back(entry->second);
  }
  return folding;
}

// What the rules are to the names is the same on every mesh: reported once.
bool lint_names(const PlanRequest& planning, const Sweep& sweep,
                const Plan& plan, Diagnostics& diags) {
  const Manifest& manifest = sweep.inputs.manifest;
  const auto memory = device_memory(manifest, plan, diags);
  if (!memory) return false;
  const Folding folding =
      fold(plan.placement_of, [&](size_t i) { return manifest.name(i); });
  const LintOptions how = lint_options(planning);
  const LintInput input = make_lint_input(manifest, plan, folding,
                                          &sweep.inputs.rules, *memory, how);
  lint(input, {Needs::Names}, diags);
  return true;
}

// `plan` is of the kinds of parameters.
bool lint_mesh(const PlanRequest& planning, const Sweep& sweep,
               const Plan& plan, Diagnostics& diags) {
  const Kinds& kinds = sweep.kinds;
  PlacementCounts placed(plan.placements.size());
  for (size_t i = 0; i < kinds.counts.size(); ++i) {
    placed[plan.placement_of[i]] += kinds.counts[i];
  }
  const auto memory = device_memory(plan, placed, diags);
  if (!memory) return false;
  const Folding folding = folded_by_placement(kinds, plan);
  const LintOptions how = lint_options(planning);
  const Summary summary = {kinds.counts, sweep.inputs.manifest.total_bytes(),
                           kinds.known, is_catch_all};
  LintInput input = make_lint_input(kinds.firsts, plan, folding,
                                    &sweep.inputs.rules, *memory, how);
  input.summary = &summary;
  lint(input, {Needs::Specs, Needs::WholePlan}, diags);
  return true;
}

bool add_points(const Sweep& sweep, const SweepMesh& mesh, BudgetInput& input,
                std::vector<SweepPoint>& points, Diagnostics& diags) {
  const auto add = [&](const SweepDevice& device) {
    input.options.limit = device.limit;
    input.options.reserve = device.reserve;
    auto point = sweep_point(sweep.inputs.manifest, mesh, input.groups,
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

// What became of one mesh.
struct Swept {
  Findings findings;
  std::optional<SweepMesh> mesh;  // empty: diagnostics say why
  std::vector<SweepPoint> points;
};

// Safe to call from several threads, each with `names` of its own. What the
// rules are to the names is reported where `of_names` is given.
Swept sweep_mesh(const Options& options, const Mesh& mesh, const Sweep& sweep,
                 NamesRead& names, Host& host, Diagnostics* of_names) {
  Swept swept{Findings(options), {}, {}};
  Diagnostics& diags = swept.findings.diags();
  auto plan =
      resolve(sweep.kinds.firsts, sweep.inputs.rules, sweep.kinds.matches, mesh,
              sweep.inputs.how, sweep.kinds.known, diags);
  // Limits come from the list of devices.
  const PlanRequest& planning = options.planning;
  MemoryRequest memory = options.memory;
  memory.hardware.reset();
  memory.limit.reset();
  memory.reserve_fraction = 0;
  if (!plan || !lint_mesh(planning, sweep, *plan, diags)) return swept;
  plan = unfolded(*std::move(plan), sweep.kinds);
  if (of_names != nullptr && !lint_names(planning, sweep, *plan, *of_names)) {
    return swept;
  }
  std::optional<BudgetInput> input = budget_input(
      memory, planning, sweep.inputs.manifest, *plan, names, host, diags);
  if (!input) return swept;
  SweepMesh added{*std::move(plan), input->options.kv_sharding,
                  diags.count(Severity::Error), diags.count(Severity::Warning),
                  codes_of_errors(diags)};
  if (!add_points(sweep, added, *input, swept.points, diags)) return swept;
  // Thousands of meshes are kept, of whose plans nobody asks any more.
  added.plan.placement_of = {};
  added.plan.placements = {};
  added.plan.rules = {};
  swept.mesh = std::move(added);
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
  return !swept.findings.prevent_running(mesh, diags);
}

// Every mesh, in order; the first tells what names say, which the others copy.
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
  const auto sweep_next = [&](NamesRead& names, Diagnostics* of_names) {
    const int64_t i = next++;
    if (i >= end) return false;
    const Mesh& mesh = meshes[static_cast<size_t>(i)];
    pieces.begin(mesh_text(mesh));
    Swept one = sweep_mesh(options, mesh, sweep, names, host, of_names);
    if (one.findings.diags().cannot_run()) {
      const std::lock_guard lock(mutex);
      end = std::min<int64_t>(end, i + 1);
    }
    swept[static_cast<size_t>(i)] = std::move(one);
    return true;
  };
  count_lines(sweep.inputs.rules.sources);
  count_lines(sweep.inputs.manifest.sources);
  sweep_next(sweep.names, &context.diags);
  const int threads = thread_count(options.planning.jobs);
  const int64_t shares = std::min<int64_t>(threads, count - 1);
  parallel_for(shares, threads, [&](int64_t) {
    NamesRead names = sweep.names;
    while (sweep_next(names, nullptr)) {
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
  if (meshes <= kMaxPoints / workloads / sweep.devices.size()) return true;
  diags
      .error(Code::Usage, {},
             "the sweep has more than " +
                 count_text(static_cast<int64_t>(kMaxPoints)) + " points")
      .fact(plural(static_cast<int64_t>(meshes), "mesh") + ", " +
            plural(static_cast<int64_t>(workloads), "workload") + ", " +
            plural(static_cast<int64_t>(sweep.devices.size()), "device"))
      .help("give shorter lists");
  return false;
}

std::optional<Sweep> run(Context& context) {
  const Options& options = context.options;
  auto inputs = read_inputs(options.planning, context.host, context.diags,
                            context.progress);
  if (!inputs) return std::nullopt;
  const auto meshes = sweep_meshes(options.sweep, options.planning,
                                   inputs->rules, context.diags);
  auto devices =
      sweep_devices(options.sweep, options.memory, context.host, context.diags);
  if (!meshes || !devices) return std::nullopt;
  auto matches =
      match_rules(inputs->manifest, inputs->rules, inputs->how, context.diags);
  if (!matches) return std::nullopt;
  Kinds kinds = sweep_kinds_of(inputs->manifest, *matches);
  Sweep sweep{*std::move(inputs),
              std::move(kinds),
              {},
              sweep_workloads(options.sweep),
              *std::move(devices),
              {},
              {}};
  if (!check_count(sweep, meshes->size(), context.diags)) return std::nullopt;
  if (!sweep_all(context, *meshes, sweep)) return std::nullopt;
  return sweep;
}

std::string trained_text(const Sweep& sweep) {
  const Manifest& manifest = sweep.inputs.manifest;
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

std::string sweep_headline(const Sweep& sweep, int64_t fitting) {
  const auto points = static_cast<int64_t>(sweep.points.size());
  const Manifest& manifest = sweep.inputs.manifest;
  std::string line =
      manifest.title + ": " +
      plural(static_cast<int64_t>(manifest.size()), "parameter") + ", " +
      bytes_text(static_cast<double>(manifest.total_bytes())) + "; " +
      plural(points, "point");
  if (sweep.devices.front().limit) {
    line += fitting == points ? ", all of which fit"
            : fitting == 0    ? ", none of which fits"
                              : ", " + count_text(fitting) + " of which fit";
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
                    [](const SweepPoint& point) { return point.fits; });
  const bool limited = sweep->devices.front().limit.has_value();
  Report report;
  report.command = "sweep";
  report.diagnostics = &context.diags;
  report.summary = {
      {"total_parameters", Count{sweep->inputs.manifest.total_elements()}},
      {"total_bytes", ByteSize{sweep->inputs.manifest.total_bytes()}},
      {"meshes", Count{static_cast<int64_t>(sweep->meshes.size())}},
      {"points", Count{static_cast<int64_t>(sweep->points.size())}},
      {"fitting", limited ? Cell(Count{fitting}) : Cell()},
      {"errors", Count{context.diags.count(Severity::Error)}},
      {"warnings", Count{context.diags.count(Severity::Warning)}}};
  report.headline = {sweep_headline(*sweep, fitting)};
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
  report.notes = sweep->inputs.manifest.remarks;
  if (sweep->names.trained) report.notes.push_back(trained_text(*sweep));
  add_topology(context, report);
  const Exit exit = finish(context, std::move(report));
  return exit == Exit::Fine && fitting == 0 ? Exit::Findings : exit;
}

const std::vector<Flag>& sweep_flags() {
  static const std::vector<Flag> kFlags = {
      {"over", 0, Takes::Text, "A,B", "Inputs",
       "axes to cut --devices over, in every way", "sweep", false, true,
       nullptr,
       [](const Setting& s, Options& o, Diagnostics& d) {
         o.sweep.over = axes_of(s, d);
       }},
  };
  return kFlags;
}

}  // namespace shardplan::cli
