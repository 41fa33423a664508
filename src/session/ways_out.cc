// SPDX-License-Identifier: Apache-2.0
#include "session/ways_out.h"

#include <algorithm>
#include <functional>
#include <string>
#include <utility>

#include "base/text.h"
#include "findings/findings.h"
#include "memory/zero.h"
#include "model/units.h"
#include "session/other_meshes.h"

namespace shardplan {
namespace {

// In the order in which they are tried together: what costs least time first.
enum class ChangeKind : uint8_t {
  Loss,
  Attention,
  Microbatches,
  Remat,
  Offload,
  Zero,
  Optimizer,  // of the state alone
};

// A change of options: of those of one kind the smallest first.
struct Change {
  ChangeKind kind = ChangeKind::Loss;
  std::string flags;
  std::function<void(StepOptions&, BudgetOptions&)> make;
};

constexpr int64_t kMostTiles = 16;
// Logits that are less than this part of the peak are not worth a change.
constexpr int64_t kWorthTiling = 20;

void add_loss(const StepChangesInput& in, std::vector<Change>& changes) {
  const int64_t tiles = in.request.workload.step.segments.loss_tiles;
  const auto logits = std::find_if(
      in.bracket.rows.begin(), in.bracket.rows.end(),
      [](const BracketRow& row) { return row.category == "logits"; });
  if (logits == in.bracket.rows.end() ||
      logits->bytes[1] <= in.bracket.estimate() / kWorthTiling) {
    return;
  }
  for (int64_t more = 2 * tiles; more <= kMostTiles; more *= 2) {
    changes.push_back({ChangeKind::Loss, "--loss-tiles " + std::to_string(more),
                       [more](StepOptions& s, BudgetOptions&) {
                         s.segments.loss_tiles = more;
                       }});
  }
}

// More parts, down to one sequence at a time, that divide what a device has of
// the batch: multiples of those that are asked for, where these divide it.
void add_microbatches(const StepChangesInput& in, int64_t shards,
                      std::vector<Change>& changes) {
  const int64_t parts = in.request.workload.step.microbatches;
  const int64_t batch = *in.request.memory.batch;
  if (batch % shards != 0) return;
  const int64_t sequences = batch / shards;
  const bool divides = sequences % parts == 0;
  for (const int64_t more :
       common_divisors(sequences, sequences, kMostMicrobatches)) {
    if (more <= parts || (divides && more % parts != 0)) continue;
    changes.push_back(
        {ChangeKind::Microbatches, "--microbatches " + std::to_string(more),
         [more](StepOptions& s, BudgetOptions&) { s.microbatches = more; }});
  }
}

void add_remat(const StepChangesInput& in, std::vector<Change>& changes) {
  const Remat& asked = in.request.workload.step.remat;
  const auto add = [&](ChangeKind kind, const RematPolicy& policy) {
    changes.push_back({kind, "--remat " + std::string(policy.name),
                       [&policy](StepOptions& s, BudgetOptions&) {
                         s.remat = {};
                         s.remat.policy = &policy;
                       }});
  };
  const bool is_full = !asked.is_none() && asked.policy->name == "full";
  for (const char* name : {"block", "full"}) {
    const RematPolicy* policy = find_remat_policy(name);
    if (policy == nullptr || is_full || asked.policy == policy) continue;
    add(ChangeKind::Remat, *policy);
  }
  for (const RematPolicy& policy : remat_policies()) {
    if (offloads(policy) && asked.policy != &policy) {
      add(ChangeKind::Offload, policy);
    }
  }
}

void add_zero(const StateOptions& state, const AxisNames& batch_axes,
              std::vector<Change>& changes) {
  for (ZeroStage& zero : higher_zero_stages(state, batch_axes)) {
    changes.push_back({ChangeKind::Zero, std::move(zero.flags),
                       [stage = zero.stage, axes = zero.axes](
                           StepOptions&, BudgetOptions& b) {
                         b.state.zero = stage;
                         b.state.zero_axes = axes;
                       }});
  }
}

std::vector<Change> step_changes(const StepChangesInput& in, const Mesh& mesh,
                                 const AxisNames& batch_axes) {
  std::vector<Change> changes;
  add_loss(in, changes);
  if (in.request.workload.step.segments.attention == AttentionKind::Scores) {
    changes.push_back({ChangeKind::Attention, "--attention flash",
                       [](StepOptions& s, BudgetOptions&) {
                         s.segments.attention = AttentionKind::Flash;
                       }});
  }
  add_microbatches(in, shard_count(mesh, batch_axes), changes);
  add_remat(in, changes);
  if (batch_axes.empty()) return changes;
  add_zero(in.budget.input.options.state, batch_axes, changes);
  return changes;
}

// The data-parallel axes that ZeRO could shard over.
AxisNames data_axes(const Plan& plan, const BudgetOptions& options) {
  AxisNames axes;
  for (const Axis& axis : plan.mesh.axes()) {
    const bool pipeline =
        options.stages.has_value() && options.stages->axis == axis.name;
    if (axis.size > 1 && is_gathered_axis(axis.name) && !pipeline) {
      axes.push_back(axis.name);
    }
  }
  return axes;
}

void add_optimizers(const StateOptions& state, std::vector<Change>& changes) {
  if (!state.moment_dtype) {
    changes.push_back({ChangeKind::Optimizer, "--moment-dtype bf16",
                       [](StepOptions&, BudgetOptions& b) {
                         b.state.moment_dtype = DType::BF16;
                       }});
  }
  if (!state.groups.empty()) return;  // chosen with care
  for (const Optimizer other : {Optimizer::Lion, Optimizer::Adafactor}) {
    changes.push_back({ChangeKind::Optimizer,
                       "--optimizer " + std::string(optimizer_name(other)),
                       [other](StepOptions&, BudgetOptions& b) {
                         b.state.optimizer = other;
                       }});
  }
}

// Changes to try when the request has no training step.
std::vector<Change> state_changes(const Plan& plan,
                                  const BudgetOptions& options) {
  std::vector<Change> changes;
  if (options.state.optimizer == Optimizer::None) return changes;
  add_zero(options.state, data_axes(plan, options), changes);
  add_optimizers(options.state, changes);
  return changes;
}

// A plan that is tried.
struct TriedOn {
  std::string flags;  // of its mesh; "" where it is the one that was asked for
  const Plan& plan;
  const LayerGroups& groups;
  const BudgetOptions& how;
};

// Computes steps of a plan again, with some changes.
class Trial {
 public:
  Trial(const StepChangesInput& in, TriedOn on, Steps& steps)
      : in_(in), on_(std::move(on)), steps_(steps) {}

  std::optional<TriedStep> with(const std::vector<const Change*>& changes) {
    const MemoryRequest& memory = in_.request.memory;
    StepOptions step =
        in_.model.sized(in_.request.workload.step, in_.request.memory.hardware);
    BudgetOptions how = on_.how;
    std::string flags = on_.flags;
    for (const Change* change : changes) {
      change->make(step, how);
      flags += (flags.empty() ? "" : " ") + change->flags;
    }
    const StepWorkload workload = {*memory.batch, *memory.seq};
    // The framework would reject this step.
    if (!steps_.refused(workload, step).empty()) return std::nullopt;
    Diagnostics quiet;
    const auto budget = make_budget(in_.session.model.manifest, on_.plan,
                                    on_.groups, how, quiet);
    if (!budget) return std::nullopt;
    const auto judged = steps_.judge(workload, how, *budget, step, quiet);
    if (!judged) return std::nullopt;
    const MemoryBracket& bracket = judged->bracket;
    TriedStep tried{std::move(flags), bracket.lower(), bracket.estimate(),
                    bracket.upper(), judged->fit};
    return tried;
  }

 private:
  const StepChangesInput& in_;
  TriedOn on_;
  Steps& steps_;
};

// Whether each option of the kind holds less than the one before it.
bool is_ordered(ChangeKind kind) {
  return kind == ChangeKind::Loss || kind == ChangeKind::Microbatches;
}

using Options = std::vector<const Change*>;

// All of a kind, in their order.
Options options_of(const std::vector<Change>& changes, ChangeKind kind) {
  Options options;
  for (const Change& change : changes) {
    if (change.kind == kind) options.push_back(&change);
  }
  return options;
}

struct Chosen {
  const Change* change = nullptr;
  TriedStep step;
};

// The smallest of a kind that fits, else the one that needs least. `one` tries
// an option.
template <typename Try>
std::optional<Chosen> smallest_fitting(const Options& options, Try one) {
  std::optional<Chosen> best;
  const auto fits = [&](const Change* option) {
    auto step = one(option);
    if (!step) return false;
    const bool does = step->fit.surely();
    if (!best || does ||
        (!best->step.fit.surely() && step->upper < best->step.upper)) {
      best = Chosen{option, *std::move(step)};
    }
    return does;
  };
  if (options.empty()) return best;
  if (!is_ordered(options.front()->kind)) {
    std::any_of(options.begin(), options.end(), fits);
    return best;
  }
  // What the last one does not do, none does.
  size_t last = options.size() - 1;
  if (!fits(options[last])) return best;
  for (size_t first = 0; first < last;) {
    const size_t middle = (first + last) / 2;
    if (fits(options[middle])) {
      last = middle;
    } else {
      first = middle + 1;
    }
  }
  return best;
}

// Of each kind the smallest that fits, else the one that needs least.
void try_single(const std::vector<Change>& changes, Trial& trial,
                std::vector<TriedStep>& tried) {
  for (size_t i = 0; i < changes.size(); ++i) {
    const ChangeKind kind = changes[i].kind;
    if (i > 0 && changes[i - 1].kind == kind) continue;
    auto chosen =
        smallest_fitting(options_of(changes, kind),
                         [&](const Change* one) { return trial.with({one}); });
    if (chosen) tried.push_back(std::move(chosen->step));
  }
}

// The largest of each kind, added one by one until it fits; then those that it
// fits without are left out again, what costs most time first, and of the
// others the smallest are taken with which it still fits.
std::optional<TriedStep> try_together(const std::vector<Change>& changes,
                                      Trial& trial) {
  Options made;
  std::optional<TriedStep> fitting;
  for (size_t i = 0; i < changes.size() && !fitting; ++i) {
    const bool is_largest =
        i + 1 == changes.size() || changes[i + 1].kind != changes[i].kind;
    // Not beside another policy.
    if (!is_largest || changes[i].kind == ChangeKind::Offload) continue;
    made.push_back(&changes[i]);
    auto one = trial.with(made);
    if (one && one->fit.surely()) fitting = std::move(one);
  }
  if (!fitting) return std::nullopt;
  for (size_t i = made.size(); i-- > 0;) {
    Options fewer = made;
    fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(i));
    auto one = trial.with(fewer);
    if (!one || !one->fit.surely()) continue;
    fitting = std::move(one);
    made = std::move(fewer);
  }
  for (size_t i = made.size(); i-- > 0;) {
    Options smaller = options_of(changes, made[i]->kind);
    smaller.pop_back();
    const auto chosen = smallest_fitting(smaller, [&](const Change* option) {
      Options with = made;
      with[i] = option;
      return trial.with(with);
    });
    if (!chosen || !chosen->step.fit.surely()) continue;
    fitting = chosen->step;
    made[i] = chosen->change;
  }
  return fitting;
}

// Other meshes.

// Meshes of a kind on which a step is computed: its forward pass is partitioned
// for each.
constexpr int64_t kMostSteps = 6;

// Calls `use` with a trial on another mesh, where frameworks run the step
// there.
template <typename Use>
void on_mesh(const StepChangesInput& in, Replanner& replanner, const Mesh& mesh,
             Use use) {
  const auto again = replanner.on(mesh);
  if (!again) return;
  Steps steps(in.request, in.model, in.session.model.manifest, again->plan,
              in.session.rules ? &*in.session.rules : nullptr);
  const StepOptions& step = in.request.workload.step;
  const StepWorkload workload = {*in.request.memory.batch,
                                 *in.request.memory.seq};
  if (!steps.refused(workload, step).empty()) return;
  Trial trial(in,
              {mesh_flags(in.request.planning, mesh), again->plan,
               again->input.groups, again->input.options},
              steps);
  use(trial, steps);
}

void try_meshes(const StepChangesInput& in, Host& host,
                std::vector<TriedStep>& tried) {
  const int64_t usable = in.budget.input.options.limit->usable;
  Replanner replanner(in.request.planning, in.request.memory, in.session, host);
  const std::vector<OtherMesh> meshes =
      other_meshes(in.request.planning, in.request.memory, in.session,
                   std::min(most_meshes(in.session), kMostSteps));
  const auto one = [&](const Mesh& mesh) {
    Answer<TriedStep> answer;
    on_mesh(in, replanner, mesh, [&](Trial& trial, Steps&) {
      answer.tried = trial.with({});
      if (!answer.tried) return;
      answer.needed = answer.tried->fit.needed;
    });
    return answer;
  };
  for (TriedStep& each :
       smallest_meshes<TriedStep>(meshes, usable, replanner.threads(), one)) {
    tried.push_back(std::move(each));
  }
  const auto fits = [](const TriedStep& each) { return each.fit.surely(); };
  if (std::any_of(tried.begin(), tried.end(), fits)) return;
  // More devices, and other changes besides.
  for (const OtherMesh& other : meshes) {
    if (!other.more_devices) continue;
    std::optional<TriedStep> together;
    on_mesh(in, replanner, other.mesh, [&](Trial& trial, const Steps& steps) {
      together =
          try_together(step_changes(in, other.mesh, steps.axes().batch), trial);
    });
    if (!together) continue;
    tried.push_back(*std::move(together));
    return;
  }
}

}  // namespace

std::vector<TriedStep> tried_steps(const StepChangesInput& input, Steps& steps,
                                   Host& host) {
  std::vector<TriedStep> tried;
  const std::vector<Change> changes =
      step_changes(input, input.session.plan.mesh, steps.axes().batch);
  const BudgetInput& asked = input.budget.input;
  Trial trial(input, {"", input.session.plan, asked.groups, asked.options},
              steps);
  try_single(changes, trial, tried);
  const auto fits = [](const TriedStep& one) { return one.fit.surely(); };
  if (std::none_of(tried.begin(), tried.end(), fits)) {
    if (auto together = try_together(changes, trial)) {
      tried.push_back(*std::move(together));
    }
  }
  if (input.request.planning.find_fixes) {
    try_meshes(input, host, tried);
  }
  return tried;
}

std::vector<TriedState> tried_states(const MemoryInput& asked) {
  const int64_t total = asked.budget.classes.front().total;
  std::vector<TriedState> fitting;
  std::vector<TriedState> others;
  for (Change& change : state_changes(asked.plan, asked.options)) {
    StepOptions none;
    BudgetOptions how = asked.options;
    change.make(none, how);
    Diagnostics ignored;
    const auto changed =
        make_budget(asked.manifest, asked.plan, asked.groups, how, ignored);
    if (!changed) continue;
    const int64_t needed = changed->classes.front().total;
    // A change that does not fit either must save at least 5 %.
    if (!changed->fits() && needed > total - total / 20) continue;
    (changed->fits() ? fitting : others)
        .push_back({std::move(change.flags), needed, changed->headroom});
  }
  std::stable_sort(others.begin(), others.end(),
                   [](const TriedState& a, const TriedState& b) {
                     return a.needed < b.needed;
                   });
  if (others.size() > 2) others.resize(2);
  fitting.insert(fitting.end(), others.begin(), others.end());
  return fitting;
}

void add_meshes(const PlanRequest& planning, const MemoryRequest& memory,
                const Session& session, const BudgetAnswer& budget, Host& host,
                Diagnostics& diags) {
  Diagnostic* found = find_over_memory(diags);
  if (found == nullptr || !planning.find_fixes) return;
  Replanner replanner(planning, memory, session, host);
  const auto one = [&](const Mesh& mesh) {
    Answer<TriedState> answer;
    if (const auto again = replanner.on(mesh)) {
      answer.needed = again->budget.classes.front().total;
      answer.tried = TriedState{mesh_flags(planning, mesh), answer.needed,
                                again->budget.headroom};
    }
    return answer;
  };
  const int64_t usable = budget.input.options.limit->usable;
  const int64_t total = budget.budget.classes.front().total;
  for (const TriedState& tried : smallest_meshes<TriedState>(
           other_meshes(planning, memory, session, most_meshes(session)),
           usable, replanner.threads(), one)) {
    // A mesh that does not fit either must save at least 5 %.
    if (tried.needed > usable && tried.needed > total - total / 20) continue;
    found->help.push_back(tried_text(tried));
  }
}

}  // namespace shardplan
