// SPDX-License-Identifier: Apache-2.0
#include "session/step_changes.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>

#include "base/checked.h"
#include "base/parallel.h"
#include "base/passing_host.h"
#include "base/text.h"
#include "evaluate/evaluate.h"
#include "session/fit.h"
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
};

// A change of options: of those of one kind the smallest first.
struct StepChange {
  ChangeKind kind = ChangeKind::Loss;
  std::string flags;
  std::function<void(StepOptions&, BudgetOptions&)> make;
};

constexpr int64_t kMostTiles = 16;
// Logits that are less than this part of the peak are not worth a change.
constexpr int64_t kWorthTiling = 20;

void add_loss(const StepChangesInput& in, std::vector<StepChange>& changes) {
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
                      std::vector<StepChange>& changes) {
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

void add_remat(const StepChangesInput& in, std::vector<StepChange>& changes) {
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

std::vector<StepChange> changes_of(const StepChangesInput& in, const Mesh& mesh,
                                   const AxisNames& batch_axes) {
  std::vector<StepChange> changes;
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
  for (ZeroStage& zero :
       higher_zero_stages(in.budget.input.options.state, batch_axes)) {
    changes.push_back({ChangeKind::Zero, std::move(zero.flags),
                       [stage = zero.stage, axes = zero.axes](
                           StepOptions&, BudgetOptions& b) {
                         b.state.zero = stage;
                         b.state.zero_axes = axes;
                       }});
  }
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

  std::optional<TriedStep> with(const std::vector<const StepChange*>& changes) {
    const MemoryRequest& memory = in_.request.memory;
    StepOptions step =
        in_.model.sized(in_.request.workload.step, in_.request.memory.hardware);
    BudgetOptions how = on_.how;
    std::string flags = on_.flags;
    for (const StepChange* change : changes) {
      change->make(step, how);
      flags += (flags.empty() ? "" : " ") + change->flags;
    }
    const StepWorkload workload = {*memory.batch, *memory.seq};
    if (!steps_.refused(workload, step.microbatches, step.framework->name)
             .empty()) {
      return std::nullopt;  // no way out
    }
    Diagnostics quiet;
    const auto budget = make_budget(in_.session.model.manifest, on_.plan,
                                    on_.groups, how, quiet);
    if (!budget) return std::nullopt;
    const auto bracket = steps_.bracket(workload, how, *budget, step, quiet);
    if (!bracket) return std::nullopt;
    TriedStep tried{std::move(flags), bracket->lower(), bracket->estimate(),
                    bracket->upper(), fit_of(*budget, &*bracket)};
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

using Options = std::vector<const StepChange*>;

// All of a kind, in their order.
Options options_of(const std::vector<StepChange>& changes, ChangeKind kind) {
  Options options;
  for (const StepChange& change : changes) {
    if (change.kind == kind) options.push_back(&change);
  }
  return options;
}

struct Chosen {
  const StepChange* change = nullptr;
  TriedStep step;
};

// The smallest of a kind that fits, else the one that needs least. `one` tries
// an option.
template <typename Try>
std::optional<Chosen> smallest_fitting(const Options& options, Try one) {
  std::optional<Chosen> best;
  const auto fits = [&](const StepChange* option) {
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
void try_single(const std::vector<StepChange>& changes, Trial& trial,
                std::vector<TriedStep>& tried) {
  for (size_t i = 0; i < changes.size(); ++i) {
    const ChangeKind kind = changes[i].kind;
    if (i > 0 && changes[i - 1].kind == kind) continue;
    auto chosen = smallest_fitting(
        options_of(changes, kind),
        [&](const StepChange* one) { return trial.with({one}); });
    if (chosen) tried.push_back(std::move(chosen->step));
  }
}

// The largest of each kind, added one by one until it fits; then those that it
// fits without are left out again, what costs most time first, and of the
// others the smallest are taken with which it still fits.
std::optional<TriedStep> try_together(const std::vector<StepChange>& changes,
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
    const auto chosen =
        smallest_fitting(smaller, [&](const StepChange* option) {
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
// Parameters that are placed anew on all meshes of a kind together.
constexpr int64_t kMostPlaced = 4'000'000;

int64_t most_meshes(const Session& session) {
  const auto size = static_cast<int64_t>(session.model.manifest.size());
  return std::max<int64_t>(kMostPlaced / std::max<int64_t>(size, 1), 2);
}

std::string mesh_flags(const PlanRequest& planning, const Mesh& mesh) {
  std::string flags = "--mesh " + mesh_text(mesh);
  if (planning.devices && *planning.devices != mesh.devices()) {
    flags += " --devices " + std::to_string(mesh.devices());
  }
  return flags;
}

// Of the session's rules, or of its saved plan.
Groundwork groundwork_of(const PlanRequest& planning, const Session& session,
                         Host& host) {
  if (session.rules) {
    Diagnostics ignored;
    auto ground =
        groundwork_of_rules(session.model.manifest, *session.rules,
                            session.folding, resolve_options(planning, host),
                            session.lint_how, Places::LeftOut, ignored);
    SHARDPLAN_CHECK(ground);  // the plan was made with these rules
    return *std::move(ground);
  }
  return groundwork_of_plan(
      session.model.manifest, session.plan, session.folding,
      {planning.axes, planning.unmatched == Unmatched::Auto, planning.parity},
      session.lint_how);
}

struct Replanned {
  Plan plan;
  BudgetInput input;
  Budget budget;
};

// What was asked for, on other meshes. A mesh that adds errors is none. Several
// threads may ask at once.
class Replanner {
 public:
  Replanner(const PlanRequest& planning, const MemoryRequest& memory,
            const Session& session, Host& host)
      : planning_(planning),
        memory_(memory),
        session_(session),
        host_(host, std::make_shared<std::mutex>()),
        ground_(groundwork_of(planning, session, host)),
        errors_(errors_on(session.plan.mesh)) {
    if (threads() == 1) return;  // it costs the whole text
    if (session.rules) count_lines(session.rules->sources);
    count_lines(session.model.manifest.sources);
  }

  std::optional<Replanned> on(const Mesh& mesh) {
    Diagnostics quiet;
    auto judged = Evaluator(ground_).judge({}, mesh, kMeshSides, quiet);
    if (!judged || quiet.cannot_run() ||
        quiet.count(Severity::Error) > errors_) {
      return std::nullopt;
    }
    Plan plan = plan_of_all(std::move(judged->plan), ground_.groups);
    if (leaves_idle(plan)) return std::nullopt;
    NamesRead names = take_names();
    auto input = budget_input(
        memory_, planning_, session_.model.manifest, plan, names, host_, quiet,
        token_axes_of(memory_, planning_, session_, mesh));
    leave(std::move(names));
    if (!input) return std::nullopt;
    auto budget = make_budget(session_.model.manifest, plan, input->groups,
                              input->options, quiet);
    if (!budget) return std::nullopt;
    return Replanned{std::move(plan), *std::move(input), *std::move(budget)};
  }

  int threads() const { return thread_count(planning_.jobs); }

 private:
  int64_t errors_on(const Mesh& mesh) const {
    Diagnostics found;
    const auto judged = Evaluator(ground_).judge({}, mesh, kMeshSides, found);
    return judged ? found.count(Severity::Error) : 1;
  }

  // Whether an axis that is longer than in the mesh asked for shards nothing:
  // neither parameters nor the batch or tokens, state or layers.
  bool leaves_idle(const Plan& plan) const {
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

  // What was read of names follows from the model, whoever reads it: each
  // thread has its own, and leaves it for the next mesh.
  NamesRead take_names() {
    const std::lock_guard lock(mutex_);
    if (names_.empty()) return {};
    NamesRead names = std::move(names_.back());
    names_.pop_back();
    return names;
  }
  void leave(NamesRead names) {
    const std::lock_guard lock(mutex_);
    names_.push_back(std::move(names));
  }

  const PlanRequest& planning_;
  const MemoryRequest& memory_;
  const Session& session_;
  SharedHost host_;
  const Groundwork ground_;
  const int64_t errors_;
  std::mutex mutex_;
  std::vector<NamesRead> names_;
};

template <typename Tried>
struct Answer {
  std::optional<Tried> tried;
  int64_t needed = 0;  // by a device at the most
};

// one(mesh) of meshes as they are asked for, and, where there are threads, of
// those that would come next: who asks in order gets the same for any number.
template <typename Tried, typename Try>
class Answers {
 public:
  Answers(const std::vector<OtherMesh>& meshes, int threads, Try one)
      : meshes_(meshes), threads_(threads), one_(one), read_(meshes.size()) {}

  Answer<Tried> take(size_t i) {
    if (!read_[i]) ask_from(i);
    return *std::move(read_[i]);
  }

 private:
  // Others of its factor, since those of a larger one are often not needed.
  void ask_from(size_t i) {
    std::vector<size_t> asked;
    for (size_t k = i; k < meshes_.size(); ++k) {
      if (asked.size() == static_cast<size_t>(threads_)) break;
      const bool alike = meshes_[k].more_devices == meshes_[i].more_devices &&
                         meshes_[k].factor == meshes_[i].factor;
      if (alike && !read_[k]) asked.push_back(k);
    }
    parallel_for(static_cast<int64_t>(asked.size()), threads_, [&](int64_t a) {
      const size_t k = asked[static_cast<size_t>(a)];
      read_[k] = one_(meshes_[k].mesh);
    });
  }

  const std::vector<OtherMesh>& meshes_;
  int threads_;
  Try one_;
  std::vector<std::optional<Answer<Tried>>> read_;
};

// Of each kind the mesh of the smallest factor that fits and takes least, else
// the one that takes least.
template <typename Tried, typename Try>
std::vector<Tried> smallest_meshes(const std::vector<OtherMesh>& meshes,
                                   int64_t usable, int threads, Try one) {
  Answers<Tried, Try> answers(meshes, threads, one);
  std::vector<Tried> kept;
  for (const bool more_devices : {false, true}) {
    std::optional<Tried> best;
    int64_t least = 0;
    int64_t factor = 0;
    for (size_t i = 0; i < meshes.size(); ++i) {
      const OtherMesh& other = meshes[i];
      if (other.more_devices != more_devices) continue;
      if (best && least <= usable && other.factor > factor) break;
      // An axis that is there already is the smaller change.
      if (best && least <= usable && other.adds_axis) continue;
      Answer<Tried> answer = answers.take(i);
      if (!answer.tried || (best && answer.needed >= least)) continue;
      best = std::move(answer.tried);
      least = answer.needed;
      factor = other.factor;
    }
    if (best) kept.push_back(*std::move(best));
  }
  return kept;
}

// State alone on another mesh.
struct TriedPlan {
  std::string flags;  // "--mesh fsdp=4,tp=2"
  int64_t needed = 0;
};

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
  if (!steps.refused(workload, step.microbatches, step.framework->name)
           .empty()) {
    return;
  }
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
          try_together(changes_of(in, other.mesh, steps.axes().batch), trial);
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
  const std::vector<StepChange> changes =
      changes_of(input, input.session.plan.mesh, steps.axes().batch);
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

void add_meshes(const PlanRequest& planning, const MemoryRequest& memory,
                const Session& session, const BudgetAnswer& budget, Host& host,
                Diagnostics& diags) {
  Diagnostic* found = find_over_memory(diags);
  if (found == nullptr || !planning.find_fixes) return;
  Replanner replanner(planning, memory, session, host);
  const auto one = [&](const Mesh& mesh) {
    Answer<TriedPlan> answer;
    if (const auto again = replanner.on(mesh)) {
      answer.needed = again->budget.classes.front().total;
      answer.tried = TriedPlan{mesh_flags(planning, mesh), answer.needed};
    }
    return answer;
  };
  const int64_t usable = budget.input.options.limit->usable;
  const int64_t total = budget.budget.classes.front().total;
  for (const TriedPlan& tried : smallest_meshes<TriedPlan>(
           other_meshes(planning, memory, session, most_meshes(session)),
           usable, replanner.threads(), one)) {
    // What does not fit either should save something.
    if (tried.needed > usable && tried.needed > total - total / 20) continue;
    found->help.push_back(
        "`" + tried.flags + "` would need " + bytes_text(tried.needed) +
        " per device: " +
        (tried.needed <= usable
             ? "it fits, with " + bytes_text(usable - tried.needed) +
                   " to spare"
             : bytes_text(tried.needed - usable) + " too much"));
  }
}

}  // namespace shardplan
