// SPDX-License-Identifier: Apache-2.0
#include "findings/findings.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <string>

#include "base/checked.h"
#include "findings/checks.h"

namespace shardplan {
namespace {

template <typename Input>
void run_checks(const Input& input, std::initializer_list<Needs> sides,
                Diagnostics& diags) {
  const auto contains = [](const auto& all, auto one) {
    return std::find(all.begin(), all.end(), one) != all.end();
  };
  for (const Check& check : checks()) {
    if (!contains(sides, check.needs)) continue;
    const auto before = static_cast<std::ptrdiff_t>(diags.all().size());
    std::get<CheckOf<Input>>(check.report)(input, diags);
    // A finding that its row does not name would be one that nobody counts on.
    SHARDPLAN_CHECK(std::all_of(diags.all().begin() + before, diags.all().end(),
                                [&](const Diagnostic& found) {
                                  return contains(check.codes, found.code);
                                }));
  }
}

}  // namespace

// Findings under codes of the table that are reported elsewhere all the same,
// since what they are about is gone, or not yet there, when a check is asked:
// - SP102, of a key that can stand for no parameter of any model, by the reader
//   of such tables (io/hf_tp_plan/rules.cc);
// - SP103 and SP113, as notes, of what a graph file says and the rules or the
//   model overrule, where both are joined (cli/commands/simulate/input.cc);
// - SP104, SP110, SP111 and SP201 to SP203, of values of a graph whose layouts
//   are corrected while they are placed (sim/activations.cc), and SP203 of
//   those that a shard_map cuts (spmd/shard_mapped.cc);
// - SP201, of a semantic axis that does not exist (core/partition_axis.cc), and
//   SP202, of operands that are given on the command line, without a plan
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
        Code::SmallParameter},
       Needs::Specs,
       check_spec_entries},
      {{Code::IndivisibleDimension, Code::UnevenShards},
       Needs::Specs,
       check_divisions},
      {{Code::SplitUnit}, Needs::WholePlan, check_split_units},
      {{Code::UnusedAxis}, Needs::WholePlan, check_unused_axes},
      {{Code::LargeReplicatedParameter},
       Needs::WholePlan,
       check_large_replicas},
      {{Code::ShardingLost}, Needs::WholePlan, check_lost_sharding},
      // Its budget.
      {{Code::OverMemory}, Needs::Budget, check_over_memory},
      {{Code::UnevenStages}, Needs::Budget, check_stages},
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
      {{Code::SimulationMismatch}, Needs::Run, check_mismatch},
      {{Code::UnexpectedOutputs}, Needs::Recording, check_recorded_outputs},
  };
  return kChecks;
}

std::span<const RaisedElsewhere> raised_elsewhere() {
  static constexpr std::array<RaisedElsewhere, 5> kElsewhere = {{
      {Code::UnsupportedPattern, "resolve/match.cc",
       "without the pattern there is no plan"},
      {Code::PatternDiffersFromPython, "resolve/match.cc",
       "compiling a pattern tells what it looks at"},
      {Code::PatternReadingsDiffer, "io/pattern_rules.cc",
       "the rules do not keep how they were written"},
      {Code::DeviceCountMismatch, "core/mesh.cc",
       "the mesh does not keep what was asked for"},
      {Code::UnusedActivationRule, "sim/activations.cc",
       "told though the values cannot be placed, and no program is made"},
  }};
  return kElsewhere;
}

LintInput make_lint_input(const Manifest& manifest, const Plan& plan,
                          const Folding& folding, const RuleSet* rules,
                          const DeviceMemory& memory,
                          const LintOptions& options) {
  LintInput input{manifest,
                  plan,
                  folding,
                  rules,
                  memory,
                  options,
                  Members(plan.placement_of, plan.placements.size()),
                  Members(folding.class_of, folding.classes.size()),
                  {}};
  input.naming = naming_mismatch(input);
  return input;
}

void lint(const LintInput& input, std::initializer_list<Needs> sides,
          Diagnostics& diags) {
  run_checks(input, sides, diags);
}

void lint(const LintInput& input, Diagnostics& diags) {
  run_checks(input,
             {Needs::Names, Needs::Labels, Needs::Specs, Needs::WholePlan},
             diags);
}

void lint(const MemoryInput& input, Diagnostics& diags) {
  run_checks(input, {Needs::Budget}, diags);
}

void lint(const ProgramInput& input, Diagnostics& diags) {
  run_checks(input, {Needs::Program}, diags);
}

void lint(const RunInput& input, Diagnostics& diags) {
  run_checks(input, {Needs::Run}, diags);
}

void lint(const RecordedInput& input, Diagnostics& diags) {
  run_checks(input, {Needs::Recording}, diags);
}

}  // namespace shardplan
