// SPDX-License-Identifier: Apache-2.0
// The one place that judges plans: judge_plan() for the requested plan, and an
// Evaluator for the candidates of a search. Both resolve the rules on a mesh,
// size the shards of every device, report the findings, and ask what devices
// then hold (evaluate/plan_judge.h).
//
// judge_plan() works parameter by parameter, because its findings are shown. An
// Evaluator works on groups of parameters, because it only counts and compares
// findings. A Groundwork holds everything that no candidate changes: groups,
// units, and rule matches.
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
#include "evaluate/plan_judge.h"
#include "findings/findings.h"
#include "model/model.h"
#include "model/units.h"
#include "resolve/device_memory.h"
#include "resolve/match.h"
#include "resolve/resolve.h"

namespace shardplan {

// A whole model under one plan.
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
  std::optional<Plan> saved;       // else the saved plan, placing the groups
  ConvertOptions converting;       // how to place `saved` on another mesh
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

// Whether findings carry source locations. Line look-ups cost time, so a search
// whose findings are never shown omits them.
enum class Places : uint8_t { Kept, LeftOut };

// Prepares a search over `rules`. `manifest` and `rules` must outlive the
// result. `found` comes from find_rules() and `known` from unit_facts().
// `folding` is by type, or by the placements that these rules made.
Groundwork groundwork_of_rules(const Manifest& manifest, const RuleSet& rules,
                               FoundSets found, const Folding& folding,
                               UnitFacts known, const ResolveOptions& resolving,
                               const LintOptions& linting, Places places);
// Prepares a search over a saved plan, whose requested specs are resolved again
// on each mesh. REQUIRES: candidates change only the mesh. `manifest` must
// outlive the result.
Groundwork groundwork_of_plan(const Manifest& manifest, const Plan& plan,
                              const Folding& folding, UnitFacts known,
                              const ConvertOptions& converting,
                              const LintOptions& linting);

// The groups of parameters as a candidate places them. The plan places the
// first parameter of each group.
struct PlacedGroups {
  std::shared_ptr<const Groundwork::Matched> matched;  // null for a saved plan
  Plan plan;
  DeviceMemory memory;
};

// Expands a plan of the groups to all parameters.
Plan plan_of_all(Plan plan, const ParameterGroups& groups);

// Judges candidates one after another, and recomputes only what differs from
// the previous one. Each thread needs its own evaluator.
class Evaluator {
 public:
  // `ground` must outlive the evaluator.
  explicit Evaluator(const Groundwork& ground) : ground_(ground) {}
  // Creates an evaluator that can also judge candidates. Its findings have the
  // severities of `like`.
  Evaluator(const Groundwork& ground, const Asked& asked,
            const Diagnostics& like)
      : ground_(ground), asked_(asked), like_(like.fresh()) {}
  // Returns an evaluator for another thread, which starts with what this one
  // has cached about patterns and layers.
  Evaluator for_thread() const;

  const Groundwork& ground() const { return ground_; }

  // Runs the checks of `sides` and reports their findings. Uses `mesh` unless
  // the placing has its own. Empty if the placing is invalid: a new pattern
  // does not compile, or a size exceeds 63 bits.
  std::optional<PlacedGroups> place(const Placing& placing, const Mesh& mesh,
                                    std::span<const Needs> sides,
                                    Diagnostics& diags);

  // A placing and everything that follows from it.
  struct Placed {
    Placing placing;
    Diagnostics findings;      // about the plan and its state rules
    std::optional<Plan> plan;  // of all parameters; of groups with an engine
    std::unique_ptr<PlanJudge> judge;  // null: see the findings
    std::shared_ptr<const Groundwork::Matched> matched;  // if rules changed
  };
  // Returns the placing, and caches it until another one is requested.
  // REQUIRES: the evaluator has `asked`, and the placing has a mesh.
  Placed& placed(const Placing& placing);

  // Judges a candidate. Empty, with the reason reported. REQUIRES: see
  // placed().
  std::optional<Judgement> judge(const Candidate& candidate,
                                 Diagnostics& diags);

  // Returns the number of parameters, rules and placements visited so far. It
  // is the same on every machine, so searches use it as their limit.
  int64_t work() const { return work_; }

 private:
  std::shared_ptr<const Groundwork::Matched> matched(
      std::span<const RuleChange> changes);
  std::optional<Plan> resolved(const Placing& placing, const Mesh& mesh,
                               const Manifest& firsts, const UnitFacts& known,
                               const Groundwork::Matched* by,
                               Diagnostics& diags);
  bool catches_all(const std::string& pattern);

  const Groundwork& ground_;
  std::optional<Asked> asked_;
  Diagnostics like_;
  int64_t work_ = 0;
  std::unordered_map<std::string, bool> catch_all_;
  LayerCache layers_;
  std::unique_ptr<Placed> placed_;  // the plan's judge points into it
};

}  // namespace shardplan
