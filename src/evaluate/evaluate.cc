// SPDX-License-Identifier: Apache-2.0
#include "evaluate/evaluate.h"

#include <utility>

#include "base/checked.h"

namespace shardplan {
namespace {

// Returns a copy of the rules without source locations.
RuleSet without_places(const RuleSet& rules) {
  RuleSet result = rules;
  result.sources.clear();
  for (Rule& rule : result.rules) {
    rule.where = rule.spec_where = rule.item_where = {};
    rule.dim_where.clear();
  }
  for (LogicalRule& rule : result.logical_rules) {
    rule.where = rule.axes_where = {};
  }
  return result;
}

// Treats each placement with a requested spec as a rule that matches its own
// parameters.
FoundSets sets_of(const Plan& plan) {
  FoundSets found;
  for (size_t p = 0; p < plan.placements.size(); ++p) {
    found.sets.emplace_back();
    if (plan.placements[p].requested) {
      found.sets.back().push_back(static_cast<int>(p));
    }
  }
  found.of = plan.placement_of;
  return found;
}

StagedCounts counts_of(const ParameterGroups& groups, const LintOptions& how) {
  return staged_counts(groups.group_of, groups.groups.size(), how.stages.get());
}

int64_t bytes_of_all(const Manifest& firsts, const StagedCounts& counts) {
  int64_t bytes = 0;
  for (size_t g = 0; g < firsts.size(); ++g) {
    bytes += firsts.type(g).bytes() * counts.all[g];
  }
  return bytes;
}

}  // namespace

std::optional<JudgedPlan> judge_plan(const Model& model, const RuleSet* rules,
                                     const Plan& plan, const LintOptions& how,
                                     std::span<const Needs> sides,
                                     Diagnostics& diags) {
  StagedCounts counts = staged_counts(plan.placement_of, plan.placements.size(),
                                      how.stages.get());
  auto memory = device_memory(plan, counts, diags);
  if (!memory) return std::nullopt;
  JudgedPlan judged{fold(plan.placement_of, model.manifest), std::move(counts),
                    *std::move(memory)};
  LintInput input = make_lint_input(model.manifest, plan, judged.folding, rules,
                                    judged.memory, how);
  input.model = &model;
  lint(input, sides, diags);
  return judged;
}

Groundwork groundwork_of_rules(const Manifest& manifest, const RuleSet& rules,
                               FoundSets found, const Folding& folding,
                               UnitFacts known, const ResolveOptions& resolving,
                               const LintOptions& linting, Places places) {
  const bool kept = places == Places::Kept;
  Groundwork ground{manifest, &rules, {}, {}, resolving,
                    linting,  {},     {}, {}, {}};
  std::vector<ExpertTensor> experts;
  if (deals_experts(rules)) experts = expert_tensors(manifest, found.of);
  ground.groups = parameter_groups(manifest, folding, std::move(found), experts,
                                   resolving.strict, kept);
  ground.counts = counts_of(ground.groups, linting);
  ground.known = std::move(known);
  Groundwork::Matched matched{changed(kept ? rules : without_places(rules), {}),
                              {}};
  int64_t ignored = 0;
  matched.matches =
      *match_groups(ground.groups, rules.rules.size(), matched.rules, ignored);
  ground.unchanged =
      std::make_shared<const Groundwork::Matched>(std::move(matched));
  return ground;
}

Groundwork groundwork_of_plan(const Manifest& manifest, const Plan& plan,
                              const Folding& folding, UnitFacts known,
                              const ConvertOptions& converting,
                              const LintOptions& linting) {
  Groundwork ground{manifest, nullptr, plan, converting, {},
                    linting,  {},      {},   {},         {}};
  std::vector<ExpertTensor> experts;
  const bool deals = std::ranges::any_of(
      plan.rules, [](const PlanRule& rule) { return !rule.deal.empty(); });
  if (deals) experts = expert_tensors(manifest, plan.placement_of);
  ground.groups = parameter_groups(manifest, folding, sets_of(plan), experts,
                                   plan.strict, false);
  ground.counts = counts_of(ground.groups, linting);
  ground.known = std::move(known);
  std::vector<uint32_t> placement_of;
  for (const ParameterGroup& group : ground.groups.groups) {
    placement_of.push_back(plan.placement_of[group.first]);
  }
  ground.saved->placement_of = std::move(placement_of);
  return ground;
}

std::shared_ptr<const Groundwork::Matched> Evaluator::matched(
    std::span<const RuleChange> changes) {
  if (changes.empty()) return ground_.unchanged;
  const RuleSet& rules = ground_.unchanged->rules.rules;
  Groundwork::Matched made{changed(rules, changes), {}};
  auto matches =
      match_groups(ground_.groups, rules.rules.size(), made.rules, work_);
  if (!matches) return nullptr;
  made.matches = *std::move(matches);
  return std::make_shared<const Groundwork::Matched>(std::move(made));
}

std::optional<Plan> Evaluator::resolved(
    const Placing& placing, const Mesh& mesh, const Manifest& firsts,
    const UnitFacts& known, const Groundwork::Matched* by, Diagnostics& diags) {
  if (by == nullptr) {
    ConvertOptions how = ground_.converting;
    how.experts = ground_.groups.experts;
    return convert_plan(firsts, *ground_.saved, mesh, how, diags);
  }
  ResolveOptions how = ground_.resolving;
  if (placing.declared) how.declarations = *placing.declared;
  return resolve(firsts, by->rules.rules, by->matches, mesh, how, diags,
                 &known);
}

std::optional<PlacedGroups> Evaluator::place(const Placing& placing,
                                             const Mesh& mesh,
                                             std::span<const Needs> sides,
                                             Diagnostics& diags) {
  std::shared_ptr<const Groundwork::Matched> by;
  if (ground_.rules != nullptr) {
    by = matched(placing.rules);
    if (by == nullptr) return std::nullopt;
  }
  std::optional<Manifest> other;
  std::optional<UnitFacts> other_facts;
  if (placing.padding) {
    other = padded_firsts(ground_.groups, *placing.padding);
    if (!other) return std::nullopt;
    // Units are inferred from the shapes of all parameters.
    const auto all = padded(ground_.manifest, *placing.padding);
    work_ += std::ssize(ground_.manifest);
    if (!all) return std::nullopt;
    other_facts = unit_facts(*all);
  }
  const Manifest& firsts = other ? *other : ground_.groups.firsts;
  const UnitFacts& known = other_facts ? *other_facts : ground_.known;
  auto plan = resolved(placing, placing.mesh ? *placing.mesh : mesh, firsts,
                       known, by.get(), diags);
  if (!plan) return std::nullopt;
  std::optional<LintOptions> staged;
  std::optional<StagedCounts> staged_counts;
  if (asked_ && asked_->memory.options.stages) {
    // The number of stages depends on the mesh.
    const Plan all = plan_of_all(*plan, ground_.groups);
    staged = ground_.linting;
    staged->stages = parameter_stages(
        ground_.manifest, all, *layers_.of(ground_.manifest, all.placement_of),
        *asked_->memory.options.stages);
    staged_counts = counts_of(ground_.groups, *staged);
  }
  const LintOptions& linting = staged ? *staged : ground_.linting;
  const StagedCounts& counts = staged_counts ? *staged_counts : ground_.counts;
  auto memory =
      device_memory(*plan, placed_counts(*plan, counts), diags, &work_);
  if (!memory) return std::nullopt;
  PlacedGroups placed{std::move(by), *std::move(plan), *std::move(memory)};
  const Folding folding = fold_groups(ground_.groups, placed.plan.placement_of);
  const Summary summary = {
      counts, bytes_of_all(firsts, counts), known,
      [this](const std::string& pattern) { return catches_all(pattern); }};
  const RuleSet* const rules =
      placed.matched ? &placed.matched->rules.rules : nullptr;
  const LintInput input = make_lint_input(firsts, placed.plan, folding, rules,
                                          placed.memory, linting, &summary);
  lint(input, sides, diags);
  return placed;
}

Evaluator Evaluator::for_thread() const {
  Evaluator other(ground_, *asked_, like_);
  other.catch_all_ = catch_all_;
  other.layers_ = layers_;
  return other;
}

Evaluator::Placed& Evaluator::placed(const Placing& placing) {
  if (placed_ != nullptr && placed_->placing == placing) return *placed_;
  placed_.reset(new Placed{placing, like_.fresh(), {}, {}, {}});
  Placed& on = *placed_;
  auto groups = place(placing, *placing.mesh, kMeshSides, on.findings);
  if (!groups) return on;
  const bool serves = asked_->served != nullptr;
  on.plan = serves ? std::move(groups->plan)
                   : plan_of_all(std::move(groups->plan), ground_.groups);
  Asked asked = *asked_;
  if (!placing.rules.empty()) {
    on.matched = groups->matched;
    asked.rules = &on.matched->rules.rules;
  }
  on.judge = PlanJudge::of(asked, *on.plan, layers_, on.findings);
  return on;
}

std::optional<Judgement> Evaluator::judge(const Candidate& candidate,
                                          Diagnostics& diags) {
  Placed& on = placed(candidate.placing);
  if (on.judge == nullptr) {
    diags.add_all(on.findings);
    return std::nullopt;
  }
  return on.judge->judge(candidate, diags);
}

bool Evaluator::catches_all(const std::string& pattern) {
  const auto [entry, is_new] = catch_all_.try_emplace(pattern, false);
  if (is_new) entry->second = is_catch_all(pattern);
  return entry->second;
}

Plan plan_of_all(Plan plan, const ParameterGroups& groups) {
  std::vector<uint32_t> placement_of;
  placement_of.reserve(groups.group_of.size());
  for (const uint32_t group : groups.group_of) {
    placement_of.push_back(plan.placement_of[group]);
  }
  plan.placement_of = std::move(placement_of);
  return plan;
}

}  // namespace shardplan
