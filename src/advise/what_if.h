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
  // The rules found in each name, and the model with its units. If null, WhatIf
  // matches the rules and determines the units itself.
  const FoundSets* found = nullptr;
  const Model* model = nullptr;
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
  std::optional<Effect> effect(const Placing& change,
                               const Diagnostic& finding,
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
