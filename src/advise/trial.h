// SPDX-License-Identifier: Apache-2.0
// Trial: what a change would make of a plan and of its findings.
//
// Every change is really made: rules decide anew, specs are corrected,
// placements measured and lints told, on all parameters of the model. Matching
// is done once, so that a change of the order, the specs, the mesh or a shape
// asks no pattern again, and a new pattern is asked for one name of those that
// differ in numbers only; such patterns must treat numbers alike.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "advise/rule_change.h"
#include "base/diagnostic.h"
#include "core/declarations.h"
#include "core/fold.h"
#include "core/manifest.h"
#include "core/plan.h"
#include "resolve/analyze.h"
#include "resolve/lint.h"
#include "resolve/resolve.h"

namespace shardplan {

// A plan with all that it was made from.
struct Planned {
  const Manifest& manifest;
  const RuleSet& rules;
  const Plan& plan;
  const Folding& folding;  // by placement
  const DeviceMemory& memory;
  const ResolveOptions& resolving;
  const LintOptions& linting;
};

// Dimension `dim` of some parameters gets another size.
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

class Trial {
 public:
  // `findings` are those of the plan; the references must outlive the Trial.
  Trial(const Planned& planned, std::span<const Diagnostic* const> findings,
        const Diagnostics& severities);
  ~Trial();
  Trial(const Trial&) = delete;
  Trial& operator=(const Trial&) = delete;

  // What the change does, if it removes `finding`, brings no new error, and
  // leaves fewer findings than there were: first fewer errors, then warnings,
  // then notes. Empty otherwise. `parameters` are those of the finding.
  std::optional<Effect> effect(const Change& change, const Diagnostic& finding,
                               std::span<const uint32_t> parameters);

  // The parameters of a finding by number, ascending.
  std::vector<uint32_t> parameters_of(const Diagnostic& finding);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Whether `finding`, of a plan with `before`, is not among the diagnostics of a
// later one: by code, parameters, dimension and axis, and where it names no
// parameter by the rule's pattern.
bool is_gone(const Diagnostic& finding, const Plan& before,
             const Diagnostics& diags, const Plan& after);

// Findings by severity.
struct FindingCounts {
  int64_t errors = 0;
  int64_t warnings = 0;
  int64_t notes = 0;
  auto operator<=>(const FindingCounts&) const = default;
};
FindingCounts finding_counts(const Diagnostics& diags);

}  // namespace shardplan
