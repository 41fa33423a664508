// SPDX-License-Identifier: Apache-2.0
// The one place where a candidate is judged: from a model, rules and a mesh to
// a plan, what devices hold of it, and what is wrong with it.
//
// Two depths share it. What was asked for is judged parameter by parameter, so
// that every finding can be shown (judge_plan). What a search tries is judged
// by groups of parameters that no candidate tells apart (Evaluator): its
// findings are counted and compared, and what does not depend on the candidate
// (names, facts, what is found where) is read once, in the Groundwork.
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
#include "model/units.h"
#include "resolve/device_memory.h"
#include "resolve/match.h"
#include "resolve/resolve.h"

namespace shardplan {

// What a plan makes of a whole model.
struct JudgedPlan {
  Folding folding;  // by placement
  StagedCounts counts;
  DeviceMemory memory;
};
// Reports what the checks of these sides find. `rules` is null for a saved
// plan. Empty, with the reason reported, as device_memory().
std::optional<JudgedPlan> judge_plan(const Manifest& manifest,
                                     const RuleSet* rules, const Plan& plan,
                                     const LintOptions& how,
                                     std::span<const Needs> sides,
                                     Diagnostics& diags);

// What candidates are judged of, and what is read of it once for all of them.
// It does not change, so any number of threads may judge candidates of one.
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
  // The rules as they are, and what they match.
  struct Matched {
    ChangedRules rules;
    Matches matches;  // of the groups
  };
  std::shared_ptr<const Matched> unchanged;
};

// Whether findings are shown where they are in the rules. Finding a line costs
// time, so a search that shows nobody its findings leaves that out.
enum class Places : uint8_t { Kept, LeftOut };

// What is given must outlive the ground. `folding` is by type, or by the
// placements that these rules made; `found` is what find_rules() says of them,
// `known` what unit_facts() says of the model.
Groundwork groundwork_of_rules(const Manifest& manifest, const RuleSet& rules,
                               FoundSets found, const Folding& folding,
                               UnitFacts known, const ResolveOptions& resolving,
                               const LintOptions& linting, Places places);
// Of a plan whose requests are placed again on each mesh. REQUIRES, of its
// candidates: they change the mesh alone.
Groundwork groundwork_of_plan(const Manifest& manifest, const Plan& plan,
                              const Folding& folding, UnitFacts known,
                              const ConvertOptions& converting,
                              const LintOptions& linting);

// What became of a candidate. Its plan is of the groups' firsts.
struct Judgement {
  std::shared_ptr<const Groundwork::Matched> matched;  // null for a saved plan
  Plan plan;
  DeviceMemory memory;
};

// Judges candidates of one ground, one after the other; each thread has its
// own.
class Evaluator {
 public:
  // The ground must outlive it.
  explicit Evaluator(const Groundwork& ground) : ground_(ground) {}

  const Groundwork& ground() const { return ground_; }

  // Reports what the checks of these sides find. `mesh` is that of candidates
  // that do not say one. Empty where the candidate cannot be made at all: a new
  // pattern cannot be compiled, something exceeds 63 bits.
  std::optional<Judgement> judge(const Candidate& candidate, const Mesh& mesh,
                                 std::span<const Needs> sides,
                                 Diagnostics& diags);

  // What was visited so far: parameters, rules, placements. The same on every
  // machine, so bounds of searches are made of it.
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

// The plan of all parameters, from that of the groups.
Plan plan_of_all(Plan plan, const ParameterGroups& groups);

}  // namespace shardplan
