// SPDX-License-Identifier: Apache-2.0
// Changes: what a change of rules, model or settings does to a target (a model
// under rules on a mesh), and which changes fail the gate.
//
// A change is described before and after by what people write or see (a
// pattern, a label, a code, bytes of the fullest device), with the line that
// caused it on its side. Parameters that change alike are one change.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/diagnostic.h"
#include "base/source.h"
#include "core/mesh.h"
#include "core/plan.h"
#include "core/spec.h"
#include "gate/fail_on.h"
#include "memory/budget.h"
#include "session/memory_answer.h"
#include "session/session.h"

namespace shardplan {

enum class GateKind : uint8_t {
  Rule,
  Label,
  Placement,
  Memory,
  Finding,
  Collective,
  Time,
  Target,
  Baseline,
};
// Returns "placement", as in the contract's tables.gate_changes.
std::string_view gate_kind_name(GateKind kind);

// The value on one side; std::monostate if it does not exist on that side.
struct ChangeBytes {
  int64_t value = 0;
  bool operator==(const ChangeBytes&) const = default;
};
struct ChangeSeconds {
  double value = 0;
  bool operator==(const ChangeSeconds&) const = default;
};
using ChangeValue = std::variant<std::monostate, PartitionSpec, int64_t,
                                 ChangeBytes, ChangeSeconds, std::string>;

// A line of a file on one side.
struct ChangeLine {
  std::string file;  // "": none
  int64_t line = 0;  // 1-based
  bool before = false;
  Span where;  // the same, if the text is available
};

struct GateChange {
  GateKind kind = GateKind::Target;
  std::string target = {};  // "" for a rule, a label or the baseline alone
  std::string what = {};    // a pattern, label, code, collective, setting
  ChangeValue before = {};
  ChangeValue after = {};
  ChangeLine line = {};
  std::string text = {};  // "rule 1 `.*` takes over from rule 2 `q`"
  AxisNames lost = {};    // axes that no longer shard it, or the label lost
  AxisNames gained = {};
  int64_t parameters = 0;        // that change alike
  int64_t bytes_per_device = 0;  // after minus before, over all of these
  int64_t of_bytes = 0;          // for memory: growth is a fraction of it
  double time_growth = 0;        // for time: 0.1 for a step 10 % longer
  std::string key = {};          // for a finding: finding_key()
  // For a finding that is new or more severe than before; else Off.
  Severity severity = Severity::Off;
  bool fails = false;
  bool reported = false;  // as a separate finding
};

// One side of a target.
struct TargetSide {
  const Session& session;
  const Budget* budget;              // null: only parameters are counted
  const MemoryBracket* step;         // null: no training step is requested
  std::optional<int64_t> kv_tokens;  // capacity of the cache
  const Diagnostics& diags;
  const StepTime* time = nullptr;   // null: there is no time
  std::string_view timed = "step";  // "step", "token" or "prompt"
  // Why a requested time is unknown; "" if none was requested.
  std::string_view untimed = {};
};

// The bytes of a category on the fullest device. If both sides have training
// steps, the bytes are those of their brackets; else they are the stored bytes,
// with equal ends.
struct CategoryChange {
  using Ends = std::array<int64_t, 3>;  // at least, estimate, at most
  std::string category;                 // "optimizer_state"; "total"
  std::string title;
  Ends before{};
  Ends after{};
};
// Returns the categories that differ, in order, and the total last; none if
// nothing differs.
std::vector<CategoryChange> category_changes(const TargetSide& before,
                                             const TargetSide& after);

// Returns what differs: placements, the largest first; memory; times; the given
// collectives (gate/collective_changes.h); findings.
std::vector<GateChange> target_changes(
    const std::string& target, const TargetSide& before,
    const TargetSide& after, std::vector<GateChange> collectives = {});

// Returns the findings (warnings, errors) that are new, gone or about other
// parameters; new errors first.
std::vector<GateChange> finding_changes(const Diagnostics& before,
                                        const Diagnostics& after);
// Sorts by the change in bytes per device, regardless of its sign.
void sort_largest_first(std::vector<GateChange>& changes);
// Returns the change about this finding; null if the finding is unchanged.
const GateChange* change_of(const std::vector<GateChange>& changes,
                            const Diagnostic& diagnostic);

// Returns whether the change fails under `--fail-on`.
bool fails_gate(const FailOn& fail_on, const GateChange& change);

// Returns the rule that decided a placement; null if none did.
const PlanRule* rule_of(const Session& session, const Placement& placement);
// Returns the line of the rule that decided a placement. If logical axis rules
// decided it, returns the rule that gave it one of `axes`, else the first rule.
ChangeLine deciding_line(const Session& session, const Placement& placement,
                         const AxisNames& axes, bool before);

// Returns the rank that holds the expert of this name.
int64_t rank_of(const ExpertPlacement& dealt, std::string_view name);

// Returns a key that is equal for the same finding of two runs: the code, the
// axis, the dimension and, if it has no parameters, the text that it points at.
std::string finding_key(const Diagnostic& diagnostic);

// Returns "activations +3.10 GiB, gathered layer -1.00 GiB": the largest few
// amounts with their names. `text` formats an amount.
template <typename Amount, typename Text>
std::string largest_text(
    std::vector<std::pair<Amount, std::string_view>> changes,
    const Text& text) {
  constexpr size_t kMostNamed = 4;
  std::ranges::stable_sort(changes, [](const auto& a, const auto& b) {
    return std::abs(a.first) > std::abs(b.first);
  });
  std::string all;
  for (size_t i = 0; i < std::min(changes.size(), kMostNamed); ++i) {
    const Amount by = changes[i].first;
    all += (i == 0 ? "" : ", ") + std::string(changes[i].second) +
           (by < 0 ? " -" : " +") + text(std::abs(by));
  }
  return all;
}

}  // namespace shardplan
