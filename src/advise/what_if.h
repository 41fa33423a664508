// SPDX-License-Identifier: Apache-2.0
// What-if: how a change affects the findings of a plan.
//
// WhatIf applies each change, re-evaluates the plan (evaluate/evaluate.h), and
// compares the findings that remain, per group of parameters, with those
// before.
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

#include "base/diagnostic.h"
#include "core/fold.h"
#include "core/manifest.h"
#include "core/plan.h"
#include "core/rules.h"
#include "evaluate/candidate.h"
#include "findings/findings.h"
#include "model/model.h"
#include "resolve/device_memory.h"
#include "resolve/resolve.h"

namespace shardplan {

// A plan and everything it was made from.
struct Planned {
  const Manifest& manifest;
  const RuleSet& rules;
  const Plan& plan;
  const Folding& folding;  // by placement
  const DeviceMemory& memory;
  const ResolveOptions& resolving;
  const LintOptions& linting;
  // The rules that match each name, and the model with its units. If null,
  // WhatIf matches the rules and determines the units itself.
  const FoundSets* found = nullptr;
  const Model* model = nullptr;
};

// Differences: after minus before.
struct Effect {
  int64_t bytes_per_device = 0;          // of the fullest device
  int64_t finding_bytes_per_device = 0;  // of the finding's parameters
};

// A change of rules for a finding, with its parameters.
struct RequestedChange {
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

  // Returns the effect of the change if it removes `finding`, adds no error,
  // and leaves fewer findings: first fewer errors, then warnings, then notes.
  // No value otherwise. `parameters` are those of the finding.
  std::optional<Effect> effect(const Placing& change, const Diagnostic& finding,
                               std::span<const uint32_t> parameters);

  // Returns the effect of each of several rule changes on its finding, from one
  // trial of all of them. An effect is that of effect(); a change without one
  // here may have one if tried alone. Returns no value if the trial is
  // inconclusive because a new finding cannot be attributed to one of the
  // changes. REQUIRES: no change removes a rule (see can_all_go()), and no two
  // set or move the same rule.
  std::optional<std::vector<std::optional<Effect>>> effects_together(
      std::span<const RequestedChange> requested);

  // Returns whether, for findings of rules that decide nothing (SP102),
  // removing each rule alone removes its finding and has no other effect. Makes
  // one trial of all removals; false only means that this trial could not show
  // it.
  bool can_all_go(std::span<const Diagnostic* const> findings);

  // Returns the parameters of a finding by number, ascending.
  std::vector<uint32_t> parameters_of(const Diagnostic& finding);

  // Returns the cost so far: parameters, rules and findings visited. It is the
  // same on every machine, so it can serve as a budget.
  int64_t work() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// The diagnostics of a plan, to look up findings of an earlier plan in.
class FindingsLeft {
 public:
  // REQUIRES: `diags` outlives this object.
  FindingsLeft(const Diagnostics& diags, const Plan& plan);

  // Returns whether `finding`, of the plan `before`, is not among them.
  // Findings are compared by code, parameters, dimension and axis, and by the
  // rule's pattern if they name no parameter.
  bool is_gone(const Diagnostic& finding, const Plan& before) const;

 private:
  // Names of parameters, keyed by the other properties of their findings.
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
