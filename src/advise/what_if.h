// SPDX-License-Identifier: Apache-2.0
// What-if: what a change would make of a plan and of its findings.
//
// Every change is really made: rules decide anew, specs are corrected,
// placements measured and lints reported. Parameters that no change tells apart
// (alike but for numbers in their names, of one placement, found by the same
// rules) are tried as one, so a trial costs as much as there are kinds of
// parameters, rules and findings, however many layers a model has; what does
// not depend on the change (names, facts, what is found where) is read once.
// Matching is done once too: a change of the order, the specs, the mesh or a
// shape asks no pattern again, and a new pattern is asked for one name of those
// that differ in numbers only; such patterns must treat numbers alike.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "advise/groups.h"
#include "advise/rule_edit.h"
#include "base/diagnostic.h"
#include "core/fold.h"
#include "core/manifest.h"
#include "core/plan.h"
#include "core/rules.h"
#include "findings/findings.h"
#include "resolve/device_memory.h"
#include "resolve/resolve.h"

namespace shardplan {

// Dimension `dim` of some parameters gets another size. Of parameters that are
// tried as one, all or none.
struct Padding {
  std::vector<uint32_t> parameters;  // ascending
  int dim = 0;
  int64_t size = 0;
};

// Exactly one of them is set.
struct Change {
  std::optional<RuleChange> rules;
  std::optional<Axis> axis;  // of the mesh, with its new size
  std::optional<Padding> padding;
  std::optional<Declarations> declared;  // instead of those in force
};

// Differences: after minus before.
struct Effect {
  int64_t bytes_per_device = 0;          // of the fullest device
  int64_t finding_bytes_per_device = 0;  // of the finding's parameters
};

// A change of rules for a finding, with its parameters.
struct AskedChange {
  const RuleChange* change = nullptr;
  const Diagnostic* finding = nullptr;
  std::span<const uint32_t> parameters;
};

class WhatIf {
 public:
  // `findings` are those of the plan; the references must outlive the WhatIf.
  WhatIf(const Planned& planned, std::span<const Diagnostic* const> findings,
         const Diagnostics& severities);
  ~WhatIf();
  WhatIf(const WhatIf&) = delete;
  WhatIf& operator=(const WhatIf&) = delete;

  // What the change does, if it removes `finding`, brings no new error, and
  // leaves fewer findings than there were: first fewer errors, then warnings,
  // then notes. Empty otherwise. `parameters` are those of the finding.
  std::optional<Effect> effect(const Change& change, const Diagnostic& finding,
                               std::span<const uint32_t> parameters);

  // What each of several changes of rules does for its finding, from one trial
  // of all of them. An effect is what effect() says; where a change has none
  // here, it may have one alone. Empty where the trial tells nothing: what is
  // new belongs to none of them. REQUIRES: none removes a rule (can_all_go()
  // tells that), and no two set or move the same.
  std::optional<std::vector<std::optional<Effect>>> effects_together(
      std::span<const AskedChange> asked);

  // Of findings of rules that decide nothing (SP102): whether removing each of
  // the rules alone removes its finding and does nothing else. One trial of all
  // at once tells it; false says only that this one could not.
  bool can_all_go(std::span<const Diagnostic* const> findings);

  // The parameters of a finding by number, ascending.
  std::vector<uint32_t> parameters_of(const Diagnostic& finding);

  // What it has cost so far: parameters, rules and findings visited. The same
  // on every machine, so it is what budgets are made of.
  int64_t work() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// The diagnostics of a plan, in which findings of an earlier one are sought.
class FindingsLeft {
 public:
  // Both must outlive it.
  FindingsLeft(const Diagnostics& diags, const Plan& plan);

  // Whether `finding`, of the plan `before`, is not among them: by code,
  // parameters, dimension and axis, and where it names no parameter by the
  // rule's pattern.
  bool is_gone(const Diagnostic& finding, const Plan& before) const;

 private:
  // Names of parameters, by what the findings are otherwise.
  std::unordered_map<std::string, std::unordered_set<std::string_view>> names_;
};

// Findings by severity.
struct FindingCounts {
  int64_t errors = 0;
  int64_t warnings = 0;
  int64_t notes = 0;
  auto operator<=>(const FindingCounts&) const = default;
};
FindingCounts finding_counts(const Diagnostics& diags);

}  // namespace shardplan
