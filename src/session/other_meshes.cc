// SPDX-License-Identifier: Apache-2.0
// Finds other meshes for a request, and judges the request on them.
#include "session/other_meshes.h"

#include <algorithm>
#include <utility>

#include "base/checked.h"
#include "base/parallel.h"
#include "base/words.h"
#include "core/mesh.h"
#include "evaluate/candidate.h"
#include "resolve/device_memory.h"

namespace shardplan {
namespace {

constexpr int64_t kMostFactor = 8;
// The limit on parameters placed again, over all meshes of one kind.
constexpr int64_t kMostPlaced = 4'000'000;

// Returns the axes with `more` multiplied and `fewer` divided by `factor`.
std::vector<Axis> resized_axes(std::vector<Axis> axes, const AxisName& more,
                               const AxisName& fewer, int64_t factor) {
  for (Axis& axis : axes) {
    if (axis.name == more) axis.size *= factor;
    if (axis.name == fewer) axis.size /= factor;
  }
  return axes;
}

// Returns the resized mesh; empty if its views do not fit the sizes.
std::optional<Mesh> with_sizes(const Mesh& mesh, const AxisName& more,
                               const AxisName& fewer, int64_t factor) {
  std::vector<Axis> axes = resized_axes(mesh.axes(), more, fewer, factor);
  if (!mesh.find(more)) axes.push_back({more, factor});
  return viewed_mesh(std::move(axes), mesh.views());
}

// Returns the axes that only this view has.
AxisNames private_axes(const Mesh& mesh, const MeshView& view) {
  AxisNames axes;
  for (const Axis& axis : view.axes) {
    if (!mesh.has({}, axis.name)) axes.push_back(axis.name);
  }
  return axes;
}

// Returns every mesh with `factor` times the devices, added to axis `to`. Each
// view gains them in `to` if it has that axis, else in one of its private axes.
std::vector<Mesh> grown(const Mesh& mesh, const AxisName& to, int64_t factor) {
  std::vector<Mesh> meshes;
  std::vector<Axis> axes = resized_axes(mesh.axes(), to, "", factor);
  if (!mesh.has({}, to)) axes.push_back({to, factor});
  const AxisNames of_first = mesh.views().empty()
                                 ? AxisNames{}
                                 : private_axes(mesh, mesh.views().front());
  for (size_t i = 0; i < std::max<size_t>(1, of_first.size()); ++i) {
    std::vector<MeshView> views = mesh.views();
    for (MeshView& view : views) {
      const AxisNames own = private_axes(mesh, view);
      if (mesh.has(view.name, to)) {
        view.axes = resized_axes(view.axes, to, "", factor);
      } else if (!own.empty()) {
        view.axes = resized_axes(view.axes, own[std::min(i, own.size() - 1)],
                                 "", factor);
      }
    }
    auto other = viewed_mesh(axes, views);
    if (other && !contains(meshes, *other)) meshes.push_back(*std::move(other));
  }
  return meshes;
}

// Returns the meshes with a factor moved between two axes of a view.
std::vector<Mesh> with_moved_views(const Mesh& mesh, int64_t factor) {
  std::vector<Mesh> meshes;
  for (size_t v = 0; v < mesh.views().size(); ++v) {
    const AxisNames own = private_axes(mesh, mesh.views()[v]);
    for (const AxisName& to : own) {
      for (const AxisName& from : own) {
        if (from == to || mesh.size_of(from) % factor != 0) continue;
        std::vector<MeshView> views = mesh.views();
        views[v].axes = resized_axes(views[v].axes, to, from, factor);
        if (auto other = viewed_mesh(mesh.axes(), views)) {
          meshes.push_back(*std::move(other));
        }
      }
    }
  }
  return meshes;
}

// Returns whether the rules may shard something over the axis.
bool may_shard(const RuleSet& rules, const AxisName& axis) {
  // Semantic names may stand for any axis.
  return (rules.partition_axis && rules.partition_axis_where) ||
         is_named_in_rules(rules, axis);
}

// Returns the framework's flags that stand for the view `experts` of the mesh;
// empty if the framework refuses them there. REQUIRES: such flags are given.
std::optional<std::string> expert_flags(const PlanRequest& planning,
                                        const Mesh& mesh,
                                        std::optional<int64_t> experts) {
  const bool titan = planning.torchtitan.given();
  const int64_t ep = mesh.size_of("ep");
  const int64_t etp = mesh.size_of("etp");
  PlanRequest request;
  (titan ? request.torchtitan : request.megatron) = {ep, etp};
  const Mesh own(mesh.axes());
  Diagnostics quiet;
  const auto view = expert_view(request, own, experts, quiet);
  if (!view || view->axes.empty()) return std::nullopt;
  const auto viewed = add_view(own, *view, quiet);
  if (!viewed || !mesh.has_view(view->name) ||
      viewed->axes_of(view->name) != mesh.axes_of(view->name)) {
    return std::nullopt;
  }
  const std::string kind = titan ? "degree " : "size ";
  return std::string("--expert-") + (titan ? "" : "model-") + "parallel-" +
         kind + std::to_string(ep) + " --expert-tensor-parallel-" + kind +
         std::to_string(etp);
}

// Prepares the search from the session's rules, or from its saved plan.
Groundwork groundwork_of(const PlanRequest& planning, const Session& session,
                         Host& host) {
  const Manifest& manifest = session.model.manifest;
  const UnitFacts& known = session.model.units(session.folding);
  if (session.rules) {
    return groundwork_of_rules(
        manifest, *session.rules, session.found, session.folding, known,
        resolve_options(planning, host), session.lint_how, Places::LeftOut);
  }
  return groundwork_of_plan(
      manifest, session.plan, session.folding, known,
      {planning.axes, planning.unmatched == Unmatched::Auto, planning.parity},
      session.lint_how);
}

// Judges meshes on demand. Several threads also judge following meshes of the
// same kind and factor, but no larger factors, which are often not needed.
class JudgedMeshes {
 public:
  JudgedMeshes(const std::vector<OtherMesh>& meshes, int threads,
               const TryMesh& one)
      : meshes_(meshes), threads_(threads), one_(one), known_(meshes.size()) {}

  const std::optional<TriedChange>& at(size_t i) {
    if (!known_[i]) judge_from(i);
    return *known_[i];
  }

 private:
  void judge_from(size_t i) {
    std::vector<size_t> asked;
    for (size_t k = i; k < meshes_.size(); ++k) {
      if (std::ssize(asked) == threads_) break;
      const bool alike = meshes_[k].more_devices == meshes_[i].more_devices &&
                         meshes_[k].factor == meshes_[i].factor;
      if (alike && !known_[k]) asked.push_back(k);
    }
    parallel_for(std::ssize(asked), threads_, [&](int64_t a) {
      const size_t k = nth(asked, a);
      known_[k] = one_(meshes_[k].mesh);
    });
  }

  const std::vector<OtherMesh>& meshes_;
  int threads_;
  const TryMesh& one_;
  std::vector<std::optional<std::optional<TriedChange>>> known_;
};

}  // namespace

std::vector<OtherMesh> other_meshes(const PlanRequest& planning,
                                    const AskedMemory& asked,
                                    const Session& session, int64_t most) {
  const Mesh& mesh = session.plan.mesh;
  AxisNames names;
  for (const Axis& axis : mesh.axes()) {
    const auto& stages = asked.options.stages;
    if (!stages || stages->axis != axis.name) names.push_back(axis.name);
  }
  AxisNames targets = names;
  const bool has_experts = session.model.manifest.facts.experts.value_or(0) > 0;
  if (session.rules) {
    for (const AxisName& axis : session.rules->declared_axes) {
      // An axis that shards nothing saves nothing.
      const bool is_for_experts = axis == "ep" || axis == "expert";
      if (!mesh.find(axis) && may_shard(*session.rules, axis) &&
          (has_experts || !is_for_experts)) {
        targets.push_back(axis);
      }
    }
  }
  std::optional<int64_t> experts;
  if (planning.asks_experts()) {
    experts = session.model.units(session.folding).facts.experts;
  }
  std::vector<OtherMesh> meshes;
  const auto add = [&](bool more_devices, int64_t factor,
                       std::optional<Mesh> other) {
    if (!other) return;
    if (planning.asks_experts() && !expert_flags(planning, *other, experts)) {
      return;
    }
    const auto of_kind =
        std::ranges::count(meshes, more_devices, &OtherMesh::more_devices);
    const bool adds = other->axes().size() > mesh.axes().size();
    if (of_kind < most) {
      meshes.push_back({more_devices, factor, *std::move(other), adds});
    }
  };
  for (int64_t factor = 2; factor <= kMostFactor; factor *= 2) {
    for (const AxisName& to : targets) {
      for (const AxisName& from : names) {
        if (from == to || mesh.size_of(from) % factor != 0) continue;
        add(false, factor, with_sizes(mesh, to, from, factor));
      }
    }
    for (Mesh& other : with_moved_views(mesh, factor)) {
      add(false, factor, std::move(other));
    }
  }
  // The topology fixes the number of devices.
  if (planning.topology) return meshes;
  for (int64_t factor = 2; factor <= kMostFactor; factor *= 2) {
    if (mesh.devices() > kMaxDevices / factor) break;
    for (const AxisName& to : targets) {
      for (Mesh& other : grown(mesh, to, factor)) {
        add(true, factor, std::move(other));
      }
    }
  }
  return meshes;
}

std::string mesh_flags(const PlanRequest& planning, const Mesh& asked,
                       const Mesh& mesh) {
  std::string flags;
  if (mesh.axes() != asked.axes()) flags = "--mesh " + mesh_text(mesh);
  std::optional<std::string> degrees;
  if (planning.asks_experts()) degrees = expert_flags(planning, mesh, {});
  if (degrees) flags += (flags.empty() ? "" : " ") + *degrees;
  for (const MeshView& view : mesh.views()) {
    // Flags for unchanged views stay as given.
    if (contains(asked.views(), view)) continue;
    if (degrees && view.name == "experts") continue;
    flags += (flags.empty() ? "--view " : " --view ") + view.name + ":" +
             axes_text(view.axes);
  }
  if (planning.devices && *planning.devices != mesh.devices()) {
    flags += " --devices " + std::to_string(mesh.devices());
  }
  return flags;
}

int64_t most_meshes(const Session& session) {
  const auto size = std::ssize(session.model.manifest);
  return std::max<int64_t>(kMostPlaced / std::max<int64_t>(size, 1), 2);
}

MeshTrials::MeshTrials(const PlanRequest& planning, const Session& session,
                       const Asked& asked, Host& host)
    : planning_(planning),
      session_(session),
      asked_(asked),
      ground_(groundwork_of(planning, session, host)) {
  auto first = std::make_unique<Evaluator>(ground_, asked_, Diagnostics());
  Diagnostics found;
  const auto placed = first->place({}, session.plan.mesh, kMeshSides, found);
  errors_ = placed ? found.count(Severity::Error) : 1;
  idle_.push_back(std::move(first));
  if (threads() == 1) return;  // counting lines reads every file
  if (session.rules) count_lines(session.rules->sources);
  count_lines(session.model.manifest.sources);
}

int MeshTrials::threads() const { return thread_count(planning_.jobs); }

void MeshTrials::on(const Mesh& mesh,
                    const std::function<void(PlanJudge&)>& use) {
  std::unique_ptr<Evaluator> evaluator;
  {
    const std::lock_guard lock(mutex_);
    if (!idle_.empty()) {
      evaluator = std::move(idle_.back());
      idle_.pop_back();
    }
  }
  if (evaluator == nullptr) {
    evaluator = std::make_unique<Evaluator>(ground_, asked_, Diagnostics());
  }
  Evaluator::Placed& placed = evaluator->placed({{}, mesh, {}, {}});
  if (placed.judge != nullptr && !placed.findings.cannot_run() &&
      placed.findings.count(Severity::Error) <= errors_ &&
      !has_idle_axis(*placed.plan)) {
    use(*placed.judge);
  }
  const std::lock_guard lock(mutex_);
  idle_.push_back(std::move(evaluator));
}

// Returns whether an axis that is longer than in the requested mesh shards
// nothing: no parameters, batch, tokens, optimizer state, cache or layers.
bool MeshTrials::has_idle_axis(const Plan& plan) const {
  const AskedMemory& asked = asked_.memory;
  AxisNames used = asked.axes.heads;
  for (const AxisNames& more :
       {asked.axes.batch, asked.axes.sequence, asked.options.state.zero_axes,
        asked.workload ? step_token_axes(asked, asked_.rules, plan.mesh)
                       : AxisNames{},
        asked.options.stages ? AxisNames{asked.options.stages->axis}
                             : AxisNames{}}) {
    used.insert(used.end(), more.begin(), more.end());
  }
  const std::vector<AxisSaving> savings = axis_savings(
      plan, staged_counts(plan.placement_of, plan.placements.size(),
                          session_.lint_how.stages.get()));
  return std::ranges::any_of(savings, [&](const AxisSaving& each) {
    return each.size > 1 && each.sharded_tensors == 0 &&
           each.size > session_.plan.mesh.size_of(each.axis) &&
           !is_data_axis(each.axis) && !contains(used, each.axis);
  });
}

std::vector<TriedChange> smallest_meshes(const std::vector<OtherMesh>& meshes,
                                         int64_t usable, int threads,
                                         const TryMesh& one) {
  JudgedMeshes judged(meshes, threads, one);
  std::vector<TriedChange> kept;
  for (const bool more_devices : {false, true}) {
    std::optional<TriedChange> best;
    int64_t factor = 0;
    for (size_t i = 0; i < meshes.size(); ++i) {
      const OtherMesh& other = meshes[i];
      if (other.more_devices != more_devices) continue;
      const bool fits = best && best->fit.needed <= usable;
      if (fits && other.factor > factor) break;
      // Extending an existing axis is the smaller change.
      if (fits && other.adds_axis) continue;
      const std::optional<TriedChange>& tried = judged.at(i);
      if (!tried || (best && tried->fit.needed >= best->fit.needed)) continue;
      best = tried;
      factor = other.factor;
    }
    if (best) kept.push_back(*std::move(best));
  }
  return kept;
}

}  // namespace shardplan
