// SPDX-License-Identifier: Apache-2.0
// The single place that judges a plan: it resolves the rules on a mesh, sizes
// the shards of every device, and reports the findings.
//
// judge_plan() covers the requested plan parameter by parameter, so that its
// findings can be shown. An Evaluator covers the candidates of a search by
// groups of parameters, since it only counts and compares findings. A
// Groundwork holds everything that no candidate changes: groups, units, and
// where rules match.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/diagnostic.h"
#include "core/fold.h"
#include "core/manifest.h"
#include "core/plan.h"
#include "core/rules.h"
#include "evaluate/candidate.h"
#include "evaluate/parameter_groups.h"
#include "findings/findings.h"
#include "model/model.h"
#include "model/units.h"
#include "resolve/device_memory.h"
#include "resolve/match.h"
#include "resolve/resolve.h"

namespace shardplan {

// A whole model under a plan.
struct JudgedPlan {
  Folding folding;  // by placement
  StagedCounts counts;
  DeviceMemory memory;
};
// Runs the checks of `sides` and reports their findings. `rules` is null for a
// saved plan. Empty, with the error reported, if device_memory() fails.
std::optional<JudgedPlan> judge_plan(const Model& model, const RuleSet* rules,
                                     const Plan& plan, const LintOptions& how,
                                     std::span<const Needs> sides,
                                     Diagnostics& diags);

// The model, rules and options that candidates vary, with everything computed
// once for all of them. Immutable, so any number of threads may share it.
struct Groundwork {
  const Manifest& manifest;
  const RuleSet* rules = nullptr;  // null: a saved plan
  std::optional<Plan> saved;       // then its placements, of the groups
  ConvertOptions converting;       // and how these are placed again
  ResolveOptions resolving;
  LintOptions linting;
  ParameterGroups groups;
  StagedCounts counts;  // per group
  UnitFacts known;      // of the whole model
  // A rule set and its matches.
  struct Matched {
    ChangedRules rules;
    Matches matches;  // of the groups
  };
  std::shared_ptr<const Matched> unchanged;
};

// Whether findings carry source locations. Looking up lines takes time, so a
// search that shows nobody its findings leaves them out.
enum class Places : uint8_t { Kept, LeftOut };

// `manifest` and `rules` must outlive the result. `found` comes from
// find_rules(), `known` from unit_facts(); `folding` is by type, or by the
// placements that these rules made.
Groundwork groundwork_of_rules(const Manifest& manifest, const RuleSet& rules,
                               FoundSets found, const Folding& folding,
                               UnitFacts known, const ResolveOptions& resolving,
                               const LintOptions& linting, Places places);
// For a saved plan, whose requested specs are resolved again on each mesh.
// REQUIRES: its candidates change only the mesh. `manifest` must outlive it.
Groundwork groundwork_of_plan(const Manifest& manifest, const Plan& plan,
                              const Folding& folding, UnitFacts known,
                              const ConvertOptions& converting,
                              const LintOptions& linting);

// The result for a candidate. The plan places the groups' firsts.
struct Judgement {
  std::shared_ptr<const Groundwork::Matched> matched;  // null for a saved plan
  Plan plan;
  DeviceMemory memory;
};

// Judges candidates one after the other. Each thread needs its own evaluator.
class Evaluator {
 public:
  // `ground` must outlive the evaluator.
  explicit Evaluator(const Groundwork& ground) : ground_(ground) {}

  const Groundwork& ground() const { return ground_; }

  // Runs the checks of `sides` and reports their findings. `mesh` applies if
  // the candidate has none. Empty if the candidate is invalid: a new pattern
  // does not compile, or a size exceeds 63 bits.
  std::optional<Judgement> judge(const Candidate& candidate, const Mesh& mesh,
                                 std::span<const Needs> sides,
                                 Diagnostics& diags);

  // Parameters, rules and placements visited so far. It is the same on every
  // machine, so searches use it as their limit.
  int64_t work() const { return work_; }

 private:
  std::shared_ptr<const Groundwork::Matched> matched(
      std::span<const RuleChange> changes);
  std::optional<Plan> placed(const Candidate& candidate, const Mesh& mesh,
                             const Manifest& firsts, const UnitFacts& known,
                             const Groundwork::Matched* by, Diagnostics& diags);
  bool catches_all(const std::string& pattern);

  const Groundwork& ground_;
  int64_t work_ = 0;
  std::unordered_map<std::string, bool> catch_all_;
};

// Expands a plan of the groups to all parameters.
Plan plan_of_all(Plan plan, const ParameterGroups& groups);

}  // namespace shardplan
