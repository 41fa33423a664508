// SPDX-License-Identifier: Apache-2.0
// Lists the changes to try, and tries them alone and together.
#include "session/suggestions.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "base/checked.h"
#include "base/text.h"
#include "evaluate/fit.h"
#include "findings/step_findings.h"
#include "memory/zero.h"
#include "model/units.h"
#include "session/memory_request.h"
#include "session/other_meshes.h"

namespace shardplan {
namespace {

// In the order of combined trials: the kinds that cost the least time come
// first.
enum class ChangeKind : uint8_t {
  Loss,
  Attention,
  Microbatches,
  Remat,
  Offload,
  Zero,
  Optimizer,  // without a training step
  Host,       // weights or state in host memory
};

// A change to a candidate that holds all options of the request. Changes of one
// kind are adjacent, the smallest first.
struct Change {
  ChangeKind kind = ChangeKind::Loss;
  std::string flags;
  std::function<void(Candidate&)> make;
};

constexpr int64_t kMostTiles = 16;
// Logits below this fraction (1 / 20) of the peak are not worth a change.
constexpr int64_t kWorthTiling = 20;

void add_loss(const SuggestionsInput& in, const MemoryBracket& bracket,
              std::vector<Change>& changes) {
  const int64_t tiles = in.judge.memory().step.segments.loss_tiles;
  const auto logits =
      std::ranges::find(bracket.rows, "logits", &BracketRow::category);
  if (logits == bracket.rows.end() ||
      logits->bytes[1] <= bracket.estimate() / kWorthTiling) {
    return;
  }
  for (int64_t more = 2 * tiles; more <= kMostTiles; more *= 2) {
    changes.push_back(
        {ChangeKind::Loss, "--loss-tiles " + std::to_string(more),
         [more](Candidate& c) { c.step->segments.loss_tiles = more; }});
  }
}

// Adds larger numbers of micro-batches, down to one sequence each, that divide
// a device's share of the batch. They are multiples of the requested number if
// that divides the share.
void add_microbatches(const SuggestionsInput& in, int64_t shards,
                      std::vector<Change>& changes) {
  const int64_t parts = in.judge.memory().step.microbatches;
  const int64_t batch = in.judge.memory().workload->batch;
  if (batch % shards != 0) return;
  const int64_t sequences = batch / shards;
  const bool divides = sequences % parts == 0;
  for (const int64_t more :
       common_divisors(sequences, sequences, kMostMicrobatches)) {
    if (more <= parts || (divides && more % parts != 0)) continue;
    changes.push_back({ChangeKind::Microbatches,
                       "--microbatches " + std::to_string(more),
                       [more](Candidate& c) { c.step->microbatches = more; }});
  }
}

void add_remat(const SuggestionsInput& in, std::vector<Change>& changes) {
  const Remat& asked = in.judge.memory().step.remat;
  const auto add = [&](ChangeKind kind, const RematPolicy& policy) {
    changes.push_back(
        {kind, "--remat " + std::string(policy.name), [&policy](Candidate& c) {
           c.step->remat = {};
           c.step->remat.policy = &policy;
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

// Adds offloads to host memory, which cost time and come last.
void add_offloads(const AskedMemory& asked, std::vector<Change>& changes) {
  const StateOptions& state = asked.options.state;
  const bool is_fsdp2 = asked.step.framework->runs_fsdp2;
  const auto add = [&](const char* flag, bool Offload::*what) {
    if (state.offload.*what) return;
    changes.push_back({ChangeKind::Host, flag, [=](Candidate& c) {
                         c.state->offload.*what = true;
                         c.state->offload = whole_offload(*c.state, is_fsdp2);
                       }});
  };
  if (state.optimizer == Optimizer::None) return;
  add("--offload optimizer", &Offload::optimizer);
  add("--offload weights", &Offload::weights);
}

void add_zero(const StateOptions& state, const AxisNames& batch_axes,
              std::vector<Change>& changes) {
  for (ZeroStage& zero : higher_zero_stages(state, batch_axes)) {
    changes.push_back({ChangeKind::Zero, std::move(zero.flags),
                       [stage = zero.stage, axes = zero.axes](Candidate& c) {
                         c.state->zero = stage;
                         c.state->zero_axes = axes;
                       }});
  }
}

// Returns ZeRO's axes: the batch axes and, for each view in which parameters
// have replicas, the axes that shard none of them.
AxisNames zero_axes_of(AxisNames axes, const Plan& plan,
                       const std::optional<Stages>& stages) {
  for (const MeshView& view : plan.mesh.views()) {
    const bool is_covered = std::ranges::any_of(
        axes,
        [&](const AxisName& axis) { return plan.mesh.has(view.name, axis); });
    AxisNames used;
    bool has_copies = false;
    for (const Placement& placement : plan.placements) {
      if (placement.view != view.name) continue;
      const AxisNames cut = axes_in(placement.spec);
      used.insert(used.end(), cut.begin(), cut.end());
      if (placement.dealt) used.push_back(placement.dealt->axis);
      has_copies = has_copies || placement.replicas > 1;
    }
    if (is_covered || !has_copies) continue;
    for (const Axis& axis : view.axes) {
      const bool is_pipeline = stages && stages->axis == axis.name;
      if (axis.size > 1 && !is_pipeline && !contains(used, axis.name)) {
        axes.push_back(axis.name);
      }
    }
  }
  return axes;
}

// Returns the changes to try on the plan of `judge`. `bracket` is the step's on
// the requested plan.
std::vector<Change> step_changes(const SuggestionsInput& in,
                                 const MemoryBracket& bracket,
                                 PlanJudge& judge) {
  const AxisNames& batch_axes = judge.steps().axes().batch;
  std::vector<Change> changes;
  add_loss(in, bracket, changes);
  if (in.judge.memory().step.segments.attention == AttentionKind::Scores) {
    changes.push_back(
        {ChangeKind::Attention, "--attention flash", [](Candidate& c) {
           c.step->segments.attention = AttentionKind::Flash;
         }});
  }
  add_microbatches(in, shard_count(judge.plan().mesh, batch_axes), changes);
  add_remat(in, changes);
  const AskedMemory& memory = in.judge.memory();
  if (!batch_axes.empty()) {
    add_zero(memory.options.state,
             zero_axes_of(batch_axes, judge.plan(), memory.options.stages),
             changes);
  }
  add_offloads(memory, changes);
  return changes;
}

// Returns the data-parallel axes that ZeRO could shard over.
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
  if (!state.moment_dtype && !has_block_moments(state.optimizer)) {
    changes.push_back(
        {ChangeKind::Optimizer, "--moment-dtype bf16",
         [](Candidate& c) { c.state->moment_dtype = DType::BF16; }});
  }
  if (!state.groups.empty()) return;  // chosen with care
  for (const Optimizer other : {Optimizer::Lion, Optimizer::Adafactor}) {
    changes.push_back({ChangeKind::Optimizer,
                       "--optimizer " + std::string(optimizer_name(other)),
                       [other](Candidate& c) { c.state->optimizer = other; }});
  }
}

// Returns the changes to try when the request has no training step.
std::vector<Change> state_changes(const Plan& plan, const AskedMemory& asked) {
  const BudgetOptions& options = asked.options;
  std::vector<Change> changes;
  if (options.state.optimizer == Optimizer::None) return changes;
  const AxisNames axes = data_axes(plan, options);
  if (!axes.empty()) {
    add_zero(options.state, zero_axes_of(axes, plan, options.stages), changes);
  }
  add_optimizers(options.state, changes);
  add_offloads(asked, changes);
  return changes;
}

// Judges a plan again with some changes.
class Trial {
 public:
  // Starts from the plan's mesh, given by `flags`; "": the requested mesh.
  Trial(PlanJudge& judge, std::string flags)
      : judge_(judge), flags_(std::move(flags)) {
    asked_.state = judge.memory().options.state;
    asked_.step = judge.memory().step;
  }

  // Judges the changes together. Empty if the framework would reject the step.
  std::optional<TriedChange> with(const std::vector<const Change*>& changes) {
    Candidate candidate = asked_;
    TriedChange tried{flags_};
    for (const Change* change : changes) {
      change->make(candidate);
      tried.flags += (tried.flags.empty() ? "" : " ") + change->flags;
    }
    if (!judge_.refused(candidate).empty()) return std::nullopt;
    Diagnostics quiet;
    const auto judged = judge_.judge(candidate, quiet);
    if (!judged) return std::nullopt;
    tried.fit = judged->fit;
    tried.lower = tried.upper = judged->fit.needed;
    if (judged->step) {
      tried.lower = judged->step->bracket.lower();
      tried.upper = judged->step->bracket.upper();
    }
    return tried;
  }

 private:
  PlanJudge& judge_;
  std::string flags_;
  Candidate asked_;
};

// Returns whether each option of the kind needs less memory than the previous
// one.
bool is_ordered(ChangeKind kind) {
  return kind == ChangeKind::Loss || kind == ChangeKind::Microbatches;
}

using Options = std::vector<const Change*>;

// Returns all changes of a kind, in order.
Options options_of(const std::vector<Change>& changes, ChangeKind kind) {
  Options options;
  for (const Change& change : changes) {
    if (change.kind == kind) options.push_back(&change);
  }
  return options;
}

struct Chosen {
  const Change* change = nullptr;
  TriedChange step;
};

bool any_fits(const std::vector<TriedChange>& tried) {
  return std::ranges::any_of(
      tried, [](const TriedChange& one) { return one.fit.will_fit(); });
}

// Returns the smallest option that fits, else the one that needs the least
// memory. `one` tries an option.
template <typename Try>
std::optional<Chosen> smallest_fitting(const Options& options, Try one) {
  std::optional<Chosen> best;
  const auto fits = [&](const Change* option) {
    auto step = one(option);
    if (!step) return false;
    const bool does = step->fit.will_fit();
    if (!best || does ||
        (!best->step.fit.will_fit() && step->upper < best->step.upper)) {
      best = Chosen{option, *std::move(step)};
    }
    return does;
  };
  if (options.empty()) return best;
  if (!is_ordered(options.front()->kind)) {
    std::ranges::any_of(options, fits);
    return best;
  }
  // If the last option does not fit, none does.
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

// Tries each kind alone: the smallest that fits, else the one that needs least.
void try_single(const std::vector<Change>& changes, Trial& trial,
                std::vector<TriedChange>& tried) {
  for (size_t i = 0; i < changes.size(); ++i) {
    const ChangeKind kind = changes[i].kind;
    if (i > 0 && changes[i - 1].kind == kind) continue;
    auto chosen =
        smallest_fitting(options_of(changes, kind),
                         [&](const Change* one) { return trial.with({one}); });
    if (chosen) tried.push_back(std::move(chosen->step));
  }
}

// Adds the largest change of each kind, one by one, until the step fits. Then
// drops each change that is not needed, the most expensive first, and replaces
// each remaining one by the smallest of its kind that still fits.
std::optional<TriedChange> try_together(const std::vector<Change>& changes,
                                        Trial& trial) {
  Options made;
  std::optional<TriedChange> fitting;
  for (size_t i = 0; i < changes.size() && !fitting; ++i) {
    const bool is_largest =
        i + 1 == changes.size() || changes[i + 1].kind != changes[i].kind;
    // Offload policies exclude other recompute policies.
    if (!is_largest || changes[i].kind == ChangeKind::Offload) continue;
    made.push_back(&changes[i]);
    auto one = trial.with(made);
    if (one && one->fit.will_fit()) fitting = std::move(one);
  }
  if (!fitting) return std::nullopt;
  for (size_t i = made.size(); i-- > 0;) {
    Options fewer = made;
    fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(i));
    auto one = trial.with(fewer);
    if (!one || !one->fit.will_fit()) continue;
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
    if (!chosen || !chosen->step.fit.will_fit()) continue;
    fitting = chosen->step;
    made[i] = chosen->change;
  }
  return fitting;
}

// Other meshes.

// The limit on meshes of a kind on which a step is computed, because each
// partitions the forward pass again.
constexpr int64_t kMostSteps = 6;

void try_meshes(const SuggestionsInput& in, const MemoryBracket& bracket,
                Host& host, std::vector<TriedChange>& tried) {
  const int64_t usable = in.judge.memory().options.limit->usable;
  MeshTrials trials(in.planning, in.session, in.asked, host);
  const std::vector<OtherMesh> meshes =
      other_meshes(in.planning, in.judge.memory(), in.session,
                   std::min(most_meshes(in.session), kMostSteps));
  const auto on = [&](const Mesh& mesh, auto use) {
    std::optional<TriedChange> made;
    trials.on(mesh, [&](PlanJudge& judge) {
      Trial trial(judge, mesh_flags(in.planning, in.session.plan.mesh, mesh));
      // Frameworks must run the unchanged step on this mesh.
      if (judge.refused({}).empty()) made = use(judge, trial);
    });
    return made;
  };
  const auto unchanged = [&](const Mesh& mesh) {
    return on(mesh, [](PlanJudge&, Trial& trial) { return trial.with({}); });
  };
  std::ranges::move(
      smallest_meshes(meshes, usable, trials.threads(), unchanged),
      std::back_inserter(tried));
  if (any_fits(tried)) return;
  // Try more devices together with other changes.
  for (const OtherMesh& other : meshes) {
    if (!other.more_devices) continue;
    auto together = on(other.mesh, [&](PlanJudge& judge, Trial& trial) {
      return try_together(step_changes(in, bracket, judge), trial);
    });
    if (!together) continue;
    tried.push_back(*std::move(together));
    return;
  }
}

// Tries changes to one setting of an engine at a time.
class ServingTrial {
 public:
  ServingTrial(PlanJudge& judge, ServingInput input, const Serving& asked)
      : judge_(judge), input_(std::move(input)), asked_(asked) {
    input_.all_degrees = false;
  }

  std::vector<TriedServing> tried() {
    degrees();
    experts();
    adapters();
    share();
    if (asked_.starts()) {
      cache_dtype();
      steps();
      context();
    }
    return std::move(kept_);
  }

 private:
  std::optional<TriedServing> one(const ServingInput& input,
                                  std::string flags) const {
    Diagnostics quiet;
    Candidate candidate;
    candidate.serving = input;
    const auto judged = judge_.judge(candidate, quiet);
    if (!judged || !judged->serving->limits_sequences()) return std::nullopt;
    const auto& serving = judged->serving;
    TriedServing tried{std::move(flags)};
    for (size_t end = 0; end < tried.sequences.size(); ++end) {
      tried.sequences[end] = serving->sequences(end);
    }
    tried.group_sequences = serving->group_sequences(1);
    tried.starts = serving->starts() && serving->missing_for_steps == 0;
    tried.fit = judged->fit;
    return tried;
  }

  // Tries another value of one setting.
  template <typename Setting>
  std::optional<TriedServing> with(Setting ServingInput::*setting,
                                   Setting value, std::string flags) const {
    ServingInput input = input_;
    input.*setting = value;
    return one(input, std::move(flags));
  }

  // Keeps a change that starts and holds more than the request, or that starts
  // if the request does not.
  void keep(std::optional<TriedServing> tried) {
    if (!tried || !tried->starts) return;
    // A change that does not suffice must at least be a clear improvement.
    constexpr double kWorth = 1.05;
    if (asked_runs_ && !tried->fit.will_fit() &&
        tried->group_sequences <= kWorth * asked_.group_sequences(1)) {
      return;
    }
    kept_.push_back(*std::move(tried));
  }

  // Tries legal degrees, and keeps the one nearest to the request that fits.
  void degrees() {
    std::optional<TriedServing> best;
    for (const DegreeVerdict& verdict : asked_.verdicts) {
      const bool more = verdict.degree > input_.mesh.tp;
      const bool usable = more || !asked_.problems.empty();
      if (verdict.of != DegreeOf::Tensor || !verdict.legal || verdict.asked ||
          !usable || verdict.degree > kMostDegree) {
        continue;
      }
      ServingInput input = input_;
      input.mesh.tp = verdict.degree;
      auto tried =
          one(input, mesh_flag(verdict.degree) + view_flags(input.mesh));
      if (!tried || !tried->starts) continue;
      // Among smaller degrees, prefer the largest that fits.
      if (!best || !best->fit.will_fit() || (!more && tried->fit.will_fit())) {
        best = std::move(tried);
      }
    }
    keep(std::move(best));
  }

  // Tries whole experts instead of a slice of each; then no expert width is
  // sharded.
  void experts() {
    if (input_.mesh.expert_parallel || !asked_.has_experts()) return;
    ServingInput input = input_;
    input.mesh.expert_parallel = true;
    const std::string views = view_flags(input.mesh);
    keep(one(input, views.empty() ? "--expert-parallel" : views.substr(1)));
  }

  // Tries fully sharded adapter slots, and a single slot.
  void adapters() {
    if (input_.slots.count == 0) return;
    if (input_.engine->shares_loras && input_.mesh.tp > 1 &&
        !input_.slots.fully_sharded) {
      ServingInput input = input_;
      input.slots.fully_sharded = true;
      keep(one(input, "--fully-sharded-loras"));
    }
    if (input_.slots.count > 1) {
      ServingInput input = input_;
      input.slots.count = 1;
      keep(one(input, "--max-loras 1"));
    }
  }

  // Returns flags for the views of the suggested mesh, if the request has
  // views.
  std::string view_flags(const EngineMesh& mesh) const {
    std::string text;
    if (input_.devices->views().empty()) return text;
    for (const MeshView& view :
         other_views(layout_of(*input_.engine, mesh), true)) {
      text += " --view " + view.name + ":" + axes_text(view.axes);
    }
    return text;
  }

  std::string mesh_flag(int64_t degree) const {
    std::vector<Axis> axes = input_.devices->axes();
    bool is_there = false;
    for (Axis& axis : axes) {
      if (!is_tensor_axis(axis.name)) continue;
      is_there = true;
      axis.size = degree;
    }
    if (!is_there) axes.push_back({"tp", degree});
    return "--mesh " + axes_text(axes);
  }

  // Tries shares in steps of 0.01.
  void share() {
    const double now = asked_.settings.share;
    std::optional<TriedServing> last;
    for (int step = 1; step < kShareSteps; ++step) {
      const double by = step / 100.0;
      const double value =
          std::round((asked_runs_ ? now + by : now - by) * 100) / 100;
      if (value <= 0 || value >= 1) break;
      auto tried =
          with(&ServingInput::share, {value},
               fmt::format("--{} {:.2f}", input_.engine->share_flag, value));
      if (!tried || (asked_runs_ && !tried->starts)) break;
      if (tried->starts) last = std::move(tried);
      if (last && (!asked_runs_ || last->fit.will_fit())) break;
    }
    keep(std::move(last));
  }

  void cache_dtype() {
    if (byte_count(1, input_.kv_dtype) == 1) return;
    keep(with(&ServingInput::kv_dtype, DType::F8E4M3, "--kv-dtype f8_e4m3"));
  }

  // Keeps the first value below `now` that fits, else the last one.
  void smaller_step(std::optional<int64_t> ServingInput::*setting,
                    const std::string& flag, int64_t now, int64_t least,
                    const std::vector<int64_t>& values) {
    for (const int64_t value : values) {
      if (value >= now || value < least) continue;
      auto tried = with(setting, {value}, flag + std::to_string(value));
      if (!tried || (!tried->fit.will_fit() && value != values.back())) {
        continue;
      }
      return keep(std::move(tried));
    }
  }

  void steps() {
    smaller_step(&ServingInput::batched_tokens, "--max-batched-tokens ",
                 asked_.settings.batched_tokens, 0, {2048, 512});
    // A step belongs to one group.
    smaller_step(&ServingInput::sequences, "--max-seqs ",
                 asked_.settings.sequences,
                 ceil_div(input_.batch, input_.mesh.dp), {256, 64, 16});
  }

  // Finds the longest sequences that fit for certain.
  void context() {
    const auto fits = [&](int64_t seq) {
      const auto tried = with(&ServingInput::seq, seq, "");
      return tried && tried->fit.will_fit();
    };
    if (!fits(1)) return;
    int64_t least = 1;
    int64_t most = input_.seq;  // does not fit
    while (most - least > 1) {
      const int64_t middle = least + (most - least) / 2;
      (fits(middle) ? least : most) = middle;
    }
    keep(with(&ServingInput::seq, least, "--seq " + std::to_string(least)));
  }

  static constexpr int64_t kMostDegree = 64;
  static constexpr int kShareSteps = 60;
  PlanJudge& judge_;
  ServingInput input_;
  const Serving& asked_;
  const bool asked_runs_ = asked_.starts() && asked_.missing_for_steps == 0;
  std::vector<TriedServing> kept_;
};

// Returns whether a change fits, or saves at least 5 %.
bool is_worth_it(const TriedChange& tried, const Budget& budget) {
  const int64_t total = budget.classes.front().total;
  return tried.fit.will_fit() || tried.fit.needed <= total - total / 20;
}

}  // namespace

std::vector<TriedChange> tried_steps(const SuggestionsInput& in,
                                     const MemoryBracket& bracket, Host& host) {
  std::vector<TriedChange> tried;
  const std::vector<Change> changes = step_changes(in, bracket, in.judge);
  Trial trial(in.judge, "");
  try_single(changes, trial, tried);
  if (!any_fits(tried)) {
    if (auto together = try_together(changes, trial)) {
      tried.push_back(*std::move(together));
    }
  }
  if (in.planning.find_fixes) try_meshes(in, bracket, host, tried);
  return tried;
}

std::vector<TriedChange> tried_states(PlanJudge& judge, const Budget& budget) {
  std::vector<TriedChange> fitting;
  std::vector<TriedChange> others;
  Trial trial(judge, "");
  for (const Change& change : state_changes(judge.plan(), judge.memory())) {
    auto tried = trial.with({&change});
    if (!tried || !is_worth_it(*tried, budget)) continue;
    (tried->fit.will_fit() ? fitting : others).push_back(*std::move(tried));
  }
  std::ranges::stable_sort(
      others, {}, [](const TriedChange& tried) { return tried.fit.needed; });
  if (others.size() > 2) others.resize(2);
  fitting.insert(fitting.end(), others.begin(), others.end());
  return fitting;
}

void add_meshes(const SuggestionsInput& in, const Budget& budget, Host& host,
                Diagnostics& diags) {
  Diagnostic* found = find_over_memory(diags);
  if (found == nullptr || !in.planning.find_fixes) return;
  MeshTrials trials(in.planning, in.session, in.asked, host);
  const auto on = [&](const Mesh& mesh) {
    std::optional<TriedChange> tried;
    trials.on(mesh, [&](PlanJudge& judge) {
      tried = Trial(judge, mesh_flags(in.planning, in.session.plan.mesh, mesh))
                  .with({});
    });
    return tried;
  };
  for (const TriedChange& tried : smallest_meshes(
           other_meshes(in.planning, in.judge.memory(), in.session,
                        most_meshes(in.session)),
           in.judge.memory().options.limit->usable, trials.threads(), on)) {
    if (is_worth_it(tried, budget)) found->help.push_back(tried_text(tried));
  }
}

std::vector<TriedServing> tried_servings(const SuggestionsInput& in,
                                         const Serving& asked) {
  Diagnostics quiet;
  auto input = in.judge.serving_of({}, quiet);
  SHARDPLAN_CHECK(input.has_value());
  return ServingTrial(in.judge, *std::move(input), asked).tried();
}

}  // namespace shardplan
