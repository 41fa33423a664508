// SPDX-License-Identifier: Apache-2.0
// The table of checks, and what several of them say about names and places.
#include "findings/findings.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/checked.h"
#include "base/text.h"
#include "base/words.h"
#include "findings/checks.h"
#include "graph/graph.h"
#include "model/model.h"
#include "resolve/correct.h"
#include "resolve/match.h"

namespace shardplan {
namespace {

template <typename Input>
void run_check(const Check& check, const Input& input, Diagnostics& diags) {
  const auto before = std::ssize(diags.all());
  std::get<CheckOf<Input>>(check.report)(input, diags);
  // Others rely on a row to name all the codes that it reports.
  SHARDPLAN_CHECK(std::all_of(diags.all().begin() + before, diags.all().end(),
                              [&](const Diagnostic& found) {
                                return contains(check.codes, found.code);
                              }));
}

}  // namespace

// Some findings under codes of the table are reported elsewhere, because their
// subject no longer exists, or does not exist yet, when the checks run:
// - SP102, for a key that cannot match any parameter of any model, by the
//   reader of such tables (io/hf_tp_plan/rules.cc);
// - SP103 and SP113, as notes, for statements of a graph file that the rules or
//   the model override, where the two are joined
//   (cli/commands/simulate/input.cc);
// - SP104, SP110, SP111 and SP201 to SP203, for values of a graph whose layouts
//   are corrected while they are placed (sim/activations.cc), and SP203 for
//   values that a shard_map splits (spmd/shard_mapped.cc);
// - SP301, for a training step whose state fits (findings/step_findings.cc);
// - SP201, for a semantic axis that does not exist (core/partition_axis.cc),
//   and SP202, for operands that are given on the command line, without a plan
//   (cli/views/matmul_report.cc).
const std::vector<Check>& checks() {
  static const std::vector<Check> kChecks = {
      // A plan.
      {{Code::RulesForOtherNames}, Needs::Names, check_other_names},
      {{Code::UnmentionedAxis, Code::AbsentAxis},
       Needs::WholePlan,
       check_mesh_axes},
      {{Code::UnmatchedParameter}, Needs::Names, check_unmatched},
      {{Code::UnusedRule}, Needs::Names, check_unused_rules},
      {{Code::ShadowedRule}, Needs::Names, check_shadowed_rules},
      {{Code::OverlyBroadPattern}, Needs::Names, check_broad_patterns},
      {{Code::CatchAllOnly}, Needs::Names, check_catch_alls},
      {{Code::RepeatedLogicalAxis, Code::UnplacedLogicalAxis},
       Needs::Labels,
       check_lost_labels},
      {{Code::AmbiguousAxis}, Needs::Labels, check_ambiguous_axes},
      {{Code::OverriddenLogicalAxes}, Needs::Labels, check_overridden_labels},
      {{Code::MergedLayouts}, Needs::Labels, check_merged_layouts},
      {{Code::SpecLongerThanRank, Code::UnknownAxis, Code::RepeatedAxis,
        Code::MixedViews, Code::NotDealt, Code::SmallParameter},
       Needs::Specs,
       check_spec_entries},
      {{Code::IndivisibleDimension, Code::UnevenShards},
       Needs::Specs,
       check_divisions},
      {{Code::SplitUnit}, Needs::WholePlan, check_split_units},
      {{Code::UnusedAxis}, Needs::WholePlan, check_unused_axes},
      {{Code::ExpertsBesideBatch}, Needs::WholePlan, check_expert_axes},
      {{Code::LargeReplicatedParameter},
       Needs::WholePlan,
       check_large_replicas},
      {{Code::ShardingLost}, Needs::WholePlan, check_lost_sharding},
      {{Code::UnevenStages}, Needs::WholePlan, check_stages},
      // Its budget.
      {{Code::OverMemory}, Needs::Budget, check_over_memory},
      // An engine that serves the model.
      {{Code::EngineRefuses}, Needs::Serving, check_engine_start},
      {{Code::CacheTooSmall}, Needs::Serving, check_cache_size},
      // Its program, before it is run.
      {{Code::ImplicitReshard, Code::FullRematerialization},
       Needs::Program,
       check_reshards},
      {{Code::UnreadParameter, Code::TiedLayoutsDiffer},
       Needs::Program,
       check_weight_uses},
      {{Code::RepeatedBias}, Needs::Program, check_repeated_biases},
      // A run.
      {{Code::DecisionsDiffer}, Needs::Run, check_decisions},
      {{Code::DroppedTokens}, Needs::Run, check_dropped_tokens},
      {{Code::NonFiniteValues, Code::Inconclusive}, Needs::Run, check_doubts},
      {{Code::ErrorAmplification}, Needs::Run, check_amplification},
      {{Code::SimulationMismatch, Code::WrongGradients},
       Needs::Run,
       check_mismatch},
      {{Code::UnexpectedOutputs}, Needs::Recording, check_recorded_outputs},
  };
  return kChecks;
}

UnitFacts unit_facts_of(const LintInput& input) {
  if (input.summary != nullptr) return input.summary->known;
  if (input.model != nullptr) return input.model->units(input.folding);
  return unit_facts(input.manifest, input.folding);
}

LintInput make_lint_input(const Manifest& manifest, const Plan& plan,
                          const Folding& folding, const RuleSet* rules,
                          const DeviceMemory& memory,
                          const LintOptions& options, const Summary* summary) {
  LintInput input{manifest,
                  plan,
                  folding,
                  rules,
                  memory,
                  options,
                  Members(plan.placement_of, plan.placements.size()),
                  Members(folding.class_of, folding.classes.size()),
                  {},
                  summary};
  input.naming = naming_mismatch(input);
  return input;
}

void lint(const LintInput& input, std::span<const Needs> sides,
          Diagnostics& diags) {
  for (const Check& check : checks()) {
    if (contains(sides, check.needs)) run_check(check, input, diags);
  }
}

template <typename Input>
void lint(const Input& input, Diagnostics& diags) {
  for (const Check& check : checks()) {
    if (!std::holds_alternative<CheckOf<Input>>(check.report)) continue;
    run_check(check, input, diags);
  }
}
template void lint(const MemoryInput& input, Diagnostics& diags);
template void lint(const ServeInput& input, Diagnostics& diags);
template void lint(const ProgramInput& input, Diagnostics& diags);
template void lint(const RunInput& input, Diagnostics& diags);
template void lint(const RecordedInput& input, Diagnostics& diags);

int64_t count_of(const LintInput& input, std::span<const uint32_t> parameters) {
  if (input.summary == nullptr) return std::ssize(parameters);
  int64_t count = 0;
  for (const uint32_t i : parameters) count += input.summary->counts.all[i];
  return count;
}

PerDevice::PerDevice(const LintInput& input) : input_(input) {
  if (input.summary != nullptr) {
    of_stage_.resize(input.summary->counts.of_stage.size());
  } else if (input.options.stages != nullptr) {
    of_stage_.resize(to_size(input.options.stages->stages));
  }
}

void PerDevice::add(std::span<const uint32_t> parameters, Int128 each) {
  if (parameters.empty()) return;
  add(parameters, each, input_.plan.of(parameters.front()).dealt);
}

void PerDevice::add(std::span<const uint32_t> parameters, Int128 each,
                    const std::optional<ExpertPlacement>& dealt) {
  if (of_stage_.empty()) {
    on_all_ += each * most_held(dealt, count_of(input_, parameters));
    return;
  }
  int64_t on_all = 0;
  std::vector<int64_t> of_stage(of_stage_.size());
  for (const uint32_t i : parameters) {
    if (input_.summary != nullptr) {
      for (size_t stage = 0; stage < of_stage.size(); ++stage) {
        of_stage[stage] += input_.summary->counts.of_stage[stage][i];
      }
      continue;
    }
    const auto& [first, second] = input_.options.stages->of[i];
    if (first < 0) ++on_all;
    if (first >= 0) ++nth(of_stage, first);
    if (second >= 0) ++nth(of_stage, second);
  }
  on_all_ += each * most_held(dealt, on_all);
  for (size_t stage = 0; stage < of_stage.size(); ++stage) {
    of_stage_[stage] += each * most_held(dealt, of_stage[stage]);
  }
}

Int128 PerDevice::most() const {
  if (of_stage_.empty()) return on_all_;
  return on_all_ + *std::ranges::max_element(of_stage_);
}

int64_t per_device(const LintInput& input, std::span<const uint32_t> parameters,
                   int64_t each) {
  PerDevice sum(input);
  sum.add(parameters, each);
  return static_cast<int64_t>(sum.most());
}

std::vector<std::string> names_of(const Manifest& manifest,
                                  std::span<const uint32_t> parameters) {
  std::vector<std::string> names;
  names.reserve(parameters.size());
  append_names(manifest, parameters, names);
  return names;
}

void append_names(const Manifest& manifest,
                  std::span<const uint32_t> parameters,
                  std::vector<std::string>& names) {
  for (const uint32_t i : parameters) names.emplace_back(manifest.name(i));
}

std::string names_text(const std::vector<std::string>& names) {
  return names.empty() ? "no parameter" : some_names(names, 1);
}

int64_t requested_bytes(const Plan& plan, const Placement& placement) {
  if (!placement.requested) return placement.bytes_per_device;
  Placement asked = placement;
  asked.spec =
      corrected_again(plan, placement, plan.declared_axes, OnIndivisible::Pad)
          .spec;
  measure(asked, plan.mesh, OnIndivisible::Pad);
  return asked.bytes_per_device;
}

std::string cost_text(const LintInput& input, const Placement& placement,
                      std::span<const uint32_t> parameters) {
  const int64_t extra =
      placement.bytes_per_device - requested_bytes(input.plan, placement);
  if (extra <= 0) return "no more bytes per device than requested";
  return bytes_text(per_device(input, parameters, extra)) + " more per device";
}

Span rule_span(const LintInput& input, int rule) {
  if (input.rules == nullptr || rule < 1) return {};
  return nth(input.rules->rules, rule - 1).where;
}

Span spec_span(const LintInput& input, int rule, int dim) {
  if (input.rules == nullptr || rule < 1) return {};
  const Rule& found = nth(input.rules->rules, rule - 1);
  return dim < std::ssize(found.dim_where) && !found.from_last
             ? nth(found.dim_where, dim)
             : found.spec_where;
}

Span asked_span(const LintInput& input, const Placement& placement, int dim) {
  const int by = dim < std::ssize(placement.logical_rules)
                     ? nth(placement.logical_rules, dim)
                     : 0;
  return input.rules != nullptr && by > 0
             ? nth(input.rules->logical_rules, by - 1).axes_where
             : spec_span(input, placement.rule, dim);
}

std::string rule_text(const Plan& plan, int rule) {
  if (rule < 1) return "the logical axis rules";
  std::string text = "rule " + std::to_string(rule);
  const PlanRule& found = rule_of(plan, rule);
  if (!found.file.empty()) {
    text += " (" + found.file + ":" + std::to_string(found.line) + ")";
  }
  return text;
}

const RuleForm* form_at(const RuleSet& rules, int rule) {
  if (rules.rules.empty()) return rules.form;
  for (const int number : {rule, rule - 1}) {
    if (number < 1 || number > std::ssize(rules.rules)) continue;
    const Rule& found = nth(rules.rules, number - 1);
    if (!found.shipped || found.form != nullptr) return found.form;
  }
  return nullptr;
}

bool is_of_dialect(const LintInput& input, int rule) {
  if (rule < 1) return false;  // no rule, or the logical axis rules
  if (input.rules != nullptr)
    return nth(input.rules->rules, rule - 1).by_dialect;
  // A saved plan does not record this, so recognise the rule by its shape.
  const PlanRule& of = rule_of(input.plan, rule);
  return input.plan.run_as == RunAs::Hooks && &of == &input.plan.rules.back() &&
         names_no_axis(of.spec) && is_catch_all(of.pattern);
}

bool matches_every_name(const LintInput& input, const PlanRule& rule) {
  if (rule.matched < std::ssize(input.plan.placement_of)) return false;
  return input.summary == nullptr ? is_catch_all(rule.pattern)
                                  : input.summary->is_catch_all(rule.pattern);
}

const RuleForm* form_of(const LintInput& input) {
  return input.rules == nullptr ? nullptr : input.rules->form;
}

std::string help_to_name(const LintInput& input, const AxisName& axis) {
  const RuleForm* form = form_of(input);
  if (form == nullptr || form->unordered.empty()) {
    return "use " + in_backticks(axis) + " in a rule";
  }
  return "add entries to " + std::string(form->unordered) +
         " that shard over " + in_backticks(axis);
}

std::vector<int64_t> common_divisors(int64_t a, int64_t b, int64_t limit) {
  // Divisors come in pairs around the root: a model may have as many different
  // sizes as parameters, so trying every number would take too long.
  const int64_t both = std::gcd(a, b);
  const int64_t most = std::min({both, limit, int64_t{65536}});
  std::vector<int64_t> divisors;
  for (int64_t i = 1; i <= most && i <= both / i; ++i) {
    if (both % i != 0) continue;
    divisors.push_back(i);
    if (both / i != i && both / i <= most) divisors.push_back(both / i);
  }
  std::ranges::sort(divisors);
  return divisors;
}

std::string shown_name(const Graph& graph, ValueId value) {
  return std::string(graph.values[value].whole());
}

std::string served_by(const Graph& graph, NodeId node) {
  if (!node) return "the output";
  const GraphNode& by = graph.nodes[node];
  return "`" + shown_name(graph, by.result) + "` (" + by.label + ")";
}

Span place_of_value(const Graph& graph, ValueId value) {
  const Value& of = graph.values[value];
  return of.node ? graph.nodes[of.node].where : of.where;
}

}  // namespace shardplan
