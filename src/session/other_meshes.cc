// SPDX-License-Identifier: Apache-2.0
#include "session/other_meshes.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "base/checked.h"
#include "core/mesh.h"
#include "resolve/device_memory.h"

namespace shardplan {
namespace {

constexpr int64_t kMostFactor = 8;
// Parameters that are placed anew on all meshes of a kind together.
constexpr int64_t kMostPlaced = 4'000'000;

Mesh with_sizes(const Mesh& mesh, const AxisName& more, const AxisName& fewer,
                int64_t factor) {
  std::vector<Axis> axes = mesh.axes();
  for (Axis& axis : axes) {
    if (axis.name == more) axis.size *= factor;
    if (axis.name == fewer) axis.size /= factor;
  }
  if (!mesh.find(more)) axes.push_back({more, factor});
  return Mesh(std::move(axes));
}

// Whether a spec of the rules names it, or a dimension's name stands for it.
bool is_in_specs(const RuleSet& rules, const AxisName& axis) {
  if (rules.partition_axis) return true;  // semantic names stand for any
  const auto names_it = [&](const PartitionSpec& spec) {
    return std::any_of(spec.dims.begin(), spec.dims.end(),
                       [&](const auto& dim) { return contains(dim, axis); });
  };
  return std::any_of(rules.rules.begin(), rules.rules.end(),
                     [&](const Rule& rule) { return names_it(rule.spec); }) ||
         std::any_of(rules.logical_rules.begin(), rules.logical_rules.end(),
                     [&](const LogicalRule& rule) {
                       return contains(rule.axes, axis);
                     });
}

}  // namespace

std::vector<OtherMesh> other_meshes(const PlanRequest& planning,
                                    const MemoryRequest& memory,
                                    const Session& session, int64_t most) {
  const Mesh& mesh = session.plan.mesh;
  AxisNames names;
  for (const Axis& axis : mesh.axes()) {
    const bool is_stage = memory.stages && memory.stages->axis == axis.name;
    if (!is_stage) names.push_back(axis.name);
  }
  AxisNames targets = names;
  if (session.rules) {
    for (const AxisName& axis : session.rules->declared_axes) {
      // Along which nothing is cut, nothing is saved.
      const bool is_for_experts = axis == "ep" || axis == "expert";
      const bool has_experts =
          session.model.manifest.facts.experts.value_or(0) > 0;
      if (!mesh.find(axis) && is_in_specs(*session.rules, axis) &&
          (has_experts || !is_for_experts)) {
        targets.push_back(axis);
      }
    }
  }
  std::vector<OtherMesh> meshes;
  const auto add = [&](bool more_devices, int64_t factor, Mesh other) {
    const auto of_kind =
        std::count_if(meshes.begin(), meshes.end(), [&](const OtherMesh& each) {
          return each.more_devices == more_devices;
        });
    const bool adds = other.axes().size() > mesh.axes().size();
    if (of_kind < most)
      meshes.push_back({more_devices, factor, std::move(other), adds});
  };
  for (int64_t factor = 2; factor <= kMostFactor; factor *= 2) {
    for (const AxisName& to : targets) {
      for (const AxisName& from : names) {
        if (from == to || mesh.size_of(from) % factor != 0) continue;
        add(false, factor, with_sizes(mesh, to, from, factor));
      }
    }
  }
  // A topology has so many devices.
  if (planning.topology) return meshes;
  for (int64_t factor = 2; factor <= kMostFactor; factor *= 2) {
    for (const AxisName& to : targets) {
      if (mesh.devices() <= kMaxDevices / factor) {
        add(true, factor, with_sizes(mesh, to, "", factor));
      }
    }
  }
  return meshes;
}

std::string mesh_flags(const PlanRequest& planning, const Mesh& mesh) {
  std::string flags = "--mesh " + mesh_text(mesh);
  if (planning.devices && *planning.devices != mesh.devices()) {
    flags += " --devices " + std::to_string(mesh.devices());
  }
  return flags;
}

int64_t most_meshes(const Session& session) {
  const auto size = static_cast<int64_t>(session.model.manifest.size());
  return std::max<int64_t>(kMostPlaced / std::max<int64_t>(size, 1), 2);
}

namespace {

// Built from the session's rules, or from its saved plan.
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

}  // namespace

Replanner::Replanner(const PlanRequest& planning, const MemoryRequest& memory,
                     const Session& session, Host& host)
    : planning_(planning),
      memory_(memory),
      session_(session),
      host_(host, std::make_shared<std::mutex>()),
      ground_(groundwork_of(planning, session, host)) {
  const Borrowed worker(*this);
  Diagnostics found;
  const auto judged =
      worker->evaluator.judge({}, session.plan.mesh, kMeshSides, found);
  errors_ = judged ? found.count(Severity::Error) : 1;
  if (threads() == 1) return;  // counting lines reads every file
  if (session.rules) count_lines(session.rules->sources);
  count_lines(session.model.manifest.sources);
}

Replanner::Borrowed::Borrowed(Replanner& from) : from_(from) {
  const std::lock_guard lock(from.mutex_);
  if (from.idle_.empty()) {
    worker_ = std::make_unique<Worker>(Worker{Evaluator(from.ground_), {}});
    return;
  }
  worker_ = std::move(from.idle_.back());
  from.idle_.pop_back();
}

Replanner::Borrowed::~Borrowed() {
  const std::lock_guard lock(from_.mutex_);
  from_.idle_.push_back(std::move(worker_));
}

int Replanner::threads() const { return thread_count(planning_.jobs); }

std::optional<Replanned> Replanner::on(const Mesh& mesh) {
  const Borrowed worker(*this);
  Diagnostics quiet;
  auto judged = worker->evaluator.judge({}, mesh, kMeshSides, quiet);
  if (!judged || quiet.cannot_run() || quiet.count(Severity::Error) > errors_) {
    return std::nullopt;
  }
  Plan plan = plan_of_all(std::move(judged->plan), ground_.groups);
  if (leaves_idle(plan)) return std::nullopt;
  auto input = budget_input(memory_, planning_, session_.model.manifest, plan,
                            worker->names, host_, quiet,
                            token_axes_of(memory_, planning_, session_, mesh));
  if (!input) return std::nullopt;
  auto budget = make_budget(session_.model.manifest, plan, input->groups,
                            input->options, quiet);
  if (!budget) return std::nullopt;
  return Replanned{std::move(plan), *std::move(input), *std::move(budget)};
}

// Whether an axis that is longer than in the requested mesh shards nothing: no
// parameters, batch, tokens, optimizer state, cache or layers.
bool Replanner::leaves_idle(const Plan& plan) const {
  const AxisNames tokens =
      token_axes_of(memory_, planning_, session_, plan.mesh);
  const std::vector<AxisSaving> savings = axis_savings(
      plan, staged_counts(plan.placement_of, plan.placements.size(),
                          session_.lint_how.stages.get()));
  return std::any_of(
      savings.begin(), savings.end(), [&](const AxisSaving& each) {
        return each.size > 1 && each.sharded_tensors == 0 &&
               each.size > session_.plan.mesh.size_of(each.axis) &&
               !is_data_axis(each.axis) && !contains(tokens, each.axis) &&
               !contains(memory_.state.zero_axes, each.axis) &&
               !contains(memory_.kv_axes, each.axis) &&
               !contains(memory_.batch_axes, each.axis) &&
               !contains(memory_.sequence_axes, each.axis) &&
               !(memory_.stages && memory_.stages->axis == each.axis);
      });
}

}  // namespace shardplan
